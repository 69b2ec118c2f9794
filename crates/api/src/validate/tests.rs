//! Objects that the webhook must take, refuse or warn about.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Code, Diagnostic, Kind, Severity, decode};

fn findings(kind: Kind, spec: &Value) -> Vec<Diagnostic> {
    let object = json!({"metadata": {"name": "x", "namespace": "shop"}, "spec": spec});
    let decoded = decode(kind, &object);
    assert_eq!(decoded.diagnostics, [], "the test's own object");
    super::validate(&decoded.object.unwrap())
}

fn errors(kind: Kind, spec: &Value) -> Vec<String> {
    let line =
        |one: &Diagnostic| format!("{}: {}", one.field.as_deref().unwrap_or_default(), one.message);
    findings(kind, spec).iter().filter(|one| one.is_error()).map(line).collect()
}

#[track_caller]
fn takes(kind: Kind, specs: &[Value]) {
    for spec in specs {
        assert_eq!(errors(kind, spec), [""; 0], "{spec}");
    }
}

#[track_caller]
fn refuses(kind: Kind, cases: &[(Value, &str)]) {
    for (spec, text) in cases {
        let errors = errors(kind, spec);
        assert!(
            errors.iter().any(|error| error.contains(text)),
            "{spec}: {errors:?} lacks {text:?}"
        );
    }
}

#[test]
fn virtual_services() {
    let route = json!([{"route": [{"destination": {"host": "reviews"}}]}]);
    takes(
        Kind::VirtualService,
        &[
            json!({"hosts": ["reviews"], "http": route}),
            json!({"hosts": ["*"], "gateways": ["istio-system/gw"], "http": route}),
            json!({"hosts": ["10.1.1.1"], "http": route}),
            json!({"http": route}),
            json!({"hosts": ["a.com"], "http": [{"redirect": {"uri": "/b", "redirectCode": 302}}]}),
            json!({"hosts": ["a.com"], "http": [{"directResponse": {"status": 503, "body": {"string": "x"}}}]}),
            json!({"hosts": ["a.com"], "http": [{"delegate": {"name": "other"}}]}),
            json!({"hosts": ["a.com"], "tls": [{"match": [{"sniHosts": ["a.com"]}], "route": [{"destination": {"host": "a"}}]}]}),
            json!({"hosts": ["a.com"], "tcp": [{"match": [{"port": 27017}], "route": [{"destination": {"host": "a"}}]}]}),
        ],
    );
    let http = |route: Value| json!({"hosts": ["a.com"], "http": [route]});
    let to = json!([{"destination": {"host": "a"}}]);
    refuses(
        Kind::VirtualService,
        &[
            (json!({"hosts": ["a.com"]}), "http, tcp or tls must be provided"),
            (
                json!({"hosts": ["a..com"], "http": route}),
                "spec.hosts[0]: domain name \"a..com\" invalid",
            ),
            (json!({"hosts": ["*"], "http": route}), "wildcard host * is not allowed"),
            (
                json!({"hosts": ["*.com", "a.com"], "http": route}),
                "duplicate hosts in virtual service: *.com & a.com",
            ),
            (
                json!({"gateways": ["g"], "http": route}),
                "delegate virtual service must have no gateways",
            ),
            (
                json!({"hosts": ["a.com"], "gateways": ["a/B_"], "http": route}),
                "invalid value for gateway name",
            ),
            (http(json!({})), "HTTP route, redirect or direct_response is required"),
            (
                http(json!({"route": to, "redirect": {"uri": "/"}})),
                "cannot contain both route and redirect",
            ),
            (
                http(json!({"route": to, "match": [{"uri": {"regex": "[a"}}]})),
                "spec.http[0].match[0].uri: \"uri\": error parsing regexp",
            ),
            (
                http(json!({"route": to, "match": [{"headers": {"a b": {"exact": "c"}}}]})),
                "header name a b is not a valid header name",
            ),
            (
                http(
                    json!({"route": to, "match": [{"headers": {"@request.auth.claims.x": {"exact": "c"}}}]}),
                ),
                "only supported for gateway",
            ),
            (
                http(json!({"route": to, "timeout": "0.0001s"})),
                "spec.http[0].timeout: duration must be greater than 1ms",
            ),
            (
                http(json!({"route": to, "retries": {"attempts": 1, "retryOn": "never"}})),
                "\"never\" is not a valid retryOn policy",
            ),
            (http(json!({"route": to, "retries": {"retryOn": "5xx"}})), "attempts are set to 0"),
            (http(json!({"route": to, "fault": {}})), "must have an abort and/or a delay"),
            (
                http(json!({"route": to, "fault": {"abort": {"httpStatus": 9}}})),
                "HTTP status 9 is not in range",
            ),
            (
                http(
                    json!({"route": to, "fault": {"delay": {"fixedDelay": "1s", "percentage": {"value": 101}}}}),
                ),
                "neither 0.0, nor in range",
            ),
            (
                http(json!({"route": to, "corsPolicy": {"allowMethods": ["FLY"]}})),
                "not a supported HTTP method",
            ),
            (
                http(json!({"route": to, "headers": {"response": {"set": {"host": "x"}}}})),
                "cannot set Host header",
            ),
            (
                http(
                    json!({"route": to, "headers": {"request": {"set": {"host": "x"}}}, "rewrite": {"authority": "y"}}),
                ),
                "authority header cannot be set multiple times",
            ),
            (
                http(json!({"route": to, "headers": {"request": {"add": {"a": "%X"}}}})),
                "variable expression",
            ),
            (http(json!({"route": to, "rewrite": {}})), "rewrite must specify at least one of"),
            (
                http(
                    json!({"route": [{"destination": {"host": "a"}}, {"destination": {"host": "b"}}]}),
                ),
                "total destination weight = 0",
            ),
            (
                http(json!({"route": [{"destination": {"host": "a"}, "weight": -1}]})),
                "weight -1 < 0",
            ),
            (
                http(json!({"route": [{"destination": {"host": "*"}}]})),
                "invalid destination host *",
            ),
            (
                http(json!({"route": [{"destination": {"host": "a", "port": {"number": 70000}}}]})),
                "must be in the range 1..65535",
            ),
            (
                http(json!({"route": [{"destination": {"host": "a", "subset": "V_1"}}]})),
                "subset name is invalid",
            ),
            (http(json!({"delegate": {"name": "b"}, "route": to})), "must not specify route"),
            (
                json!({"http": [{"delegate": {"name": "b"}, "route": to}]}),
                "delegate HTTP route cannot contain delegate",
            ),
            (
                json!({"hosts": ["a.com"], "http": route, "exportTo": ["*", "b"]}),
                "cannot have both public (*)",
            ),
            (
                json!({"hosts": ["a.com"], "http": route, "exportTo": [".", "shop"]}),
                "duplicate entries in exportTo",
            ),
            (
                json!({"hosts": ["a.com"], "tls": [{"match": [{"sniHosts": ["b.com"]}], "route": to}]}),
                "not a compatible subset",
            ),
            (
                json!({"hosts": ["a.com"], "tcp": [{"match": [{"destinationSubnets": ["10.0.0.0/99"]}], "route": to}]}),
                "not a valid CIDR block",
            ),
        ],
    );
}

#[test]
fn routes_that_nothing_reaches_are_warned_about() {
    let to = json!([{"destination": {"host": "a"}}]);
    let found = |http: Value| {
        let found = findings(Kind::VirtualService, &json!({"hosts": ["a.com"], "http": http}));
        found.into_iter().map(|one| (one.code, one.message)).collect::<Vec<_>>()
    };
    assert_eq!(
        found(json!([{"route": to}, {"name": "late", "route": to}])),
        [(
            Code::UNREACHABLE_RULE,
            "virtualService rule \"late\" not used (only the last rule can have no matches)"
                .to_owned()
        )]
    );
    let one = json!([{"uri": {"prefix": "/a"}, "name": "n"}]);
    let two = json!([{"uri": {"prefix": "/a"}}]);
    let codes: Vec<_> = found(json!([{"match": one, "route": to}, {"match": two, "route": to}]))
        .into_iter()
        .map(|one| one.0)
        .collect();
    assert_eq!(codes, [Code::INEFFECTIVE_MATCH, Code::UNREACHABLE_RULE]);
    let longer = json!([{"uri": {"prefix": "/ab"}}]);
    assert_eq!(
        found(json!([{"match": one, "route": to}, {"match": longer, "route": to}]))[0].1,
        "virtualService rule #1 match #0 of prefix /ab is not used (duplicate/overlapping match in rule \"n\" of prefix /a on #0)"
    );
    let other = json!([{"uri": {"prefix": "/ab"}, "method": {"exact": "GET"}}]);
    assert!(found(json!([{"match": other, "route": to}, {"match": one, "route": to}])).is_empty());
}

#[test]
fn destination_rules() {
    takes(
        Kind::DestinationRule,
        &[
            json!({"host": "reviews", "subsets": [{"name": "v1", "labels": {"version": "v1"}}]}),
            json!({"host": "*.com", "trafficPolicy": {"tls": {"mode": "ISTIO_MUTUAL"}}}),
            json!({"host": "a", "trafficPolicy": {"loadBalancer": {"consistentHash": {"httpCookie": {"name": "c", "ttl": "0s"}, "maglev": {"tableSize": 65537}}}}}),
            json!({"host": "a", "trafficPolicy": {"connectionPool": {"tcp": {"idleTimeout": "0s"}}}}),
        ],
    );
    let policy = |policy: Value| json!({"host": "a", "trafficPolicy": policy});
    refuses(
        Kind::DestinationRule,
        &[
            (json!({"host": ""}), "spec.host: empty domain name not allowed"),
            (policy(json!({})), "traffic policy must have at least one field"),
            (
                json!({"host": "a", "subsets": [{"name": "v1"}, {"name": "v1"}]}),
                "duplicate subset names: v1",
            ),
            (
                json!({"host": "a", "subsets": [{"name": "v1", "labels": {"a b": "c"}}]}),
                "invalid tag key",
            ),
            (policy(json!({"connectionPool": {}})), "connection pool must have at least one field"),
            (
                policy(json!({"connectionPool": {"http": {"maxRetries": -1}}})),
                "max retries must be non-negative",
            ),
            (
                policy(json!({"outlierDetection": {"maxEjectionPercent": 101}})),
                "percentage 101 is not in range 0..100",
            ),
            (
                policy(json!({"outlierDetection": {"consecutiveLocalOriginFailures": 1}})),
                "split external local origin errors",
            ),
            (
                policy(json!({"tls": {"mode": "MUTUAL"}})),
                "client certificate required for mutual tls",
            ),
            (
                policy(
                    json!({"tls": {"mode": "SIMPLE", "credentialName": "a", "caCertificates": "b"}}),
                ),
                "If credentialName is set",
            ),
            (
                policy(json!({"loadBalancer": {"consistentHash": {"maglev": {"tableSize": 4}}}})),
                "prime number",
            ),
            (
                policy(
                    json!({"loadBalancer": {"localityLbSetting": {"distribute": [{"from": "a", "to": {"b": 50}}]}}}),
                ),
                "total locality weight 50 != 100",
            ),
            (
                policy(json!({"portLevelSettings": [{"port": {"number": 80}}]})),
                "port traffic policy must have at least one field",
            ),
            (
                policy(json!({"tunnel": {"protocol": "X", "targetHost": "a.b", "targetPort": 1}})),
                "tunnel protocol must be",
            ),
            (
                json!({"host": "a", "workloadSelector": {"matchLabels": {"a": "b"}}, "exportTo": ["*"]}),
                "beyond current namespace",
            ),
        ],
    );
}

#[test]
fn gateways() {
    let server = |server: Value| json!({"servers": [server]});
    let http = json!({"number": 80, "name": "http", "protocol": "HTTP"});
    let https = json!({"number": 443, "name": "https", "protocol": "HTTPS"});
    takes(
        Kind::Gateway,
        &[
            server(json!({"port": http, "hosts": ["*"], "tls": {"httpsRedirect": true}})),
            server(
                json!({"port": https, "hosts": ["ns/*.a.com"], "tls": {"mode": "SIMPLE", "credentialName": "c"}}),
            ),
            server(json!({"port": https, "hosts": ["1.2.3.4"], "tls": {"mode": "PASSTHROUGH"}})),
        ],
    );
    refuses(
        Kind::Gateway,
        &[
            (json!({}), "gateway must have at least one server"),
            (server(json!({"port": http})), "server config must contain at least one host"),
            (server(json!({"hosts": ["*"]})), "port is required"),
            (
                server(json!({"port": http, "hosts": ["short"]})),
                "short names (non FQDN) are not allowed",
            ),
            (server(json!({"port": http, "hosts": ["*a.com"]})), "partial wildcard"),
            (server(json!({"port": https, "hosts": ["*"]})), "server must have TLS settings"),
            (
                server(json!({"port": https, "hosts": ["*"], "tls": {"mode": "SIMPLE"}})),
                "SIMPLE TLS requires a private key",
            ),
            (
                server(
                    json!({"port": http, "hosts": ["*"], "tls": {"mode": "SIMPLE", "credentialName": "a"}}),
                ),
                "plain text HTTP ports",
            ),
            (
                server(
                    json!({"port": https, "hosts": ["*"], "tls": {"mode": "ISTIO_MUTUAL", "credentialName": "a"}}),
                ),
                "ISTIO_MUTUAL TLS cannot have associated credentialName",
            ),
            (
                server(
                    json!({"port": {"number": 80, "name": "a", "protocol": "SMTP"}, "hosts": ["*"]}),
                ),
                "invalid protocol \"SMTP\"",
            ),
            (
                json!({"servers": [{"port": http, "hosts": ["*"]}, {"port": http, "hosts": ["*"]}]}),
                "port names in servers must be unique",
            ),
        ],
    );
}

#[test]
fn service_entries_and_workloads() {
    let port = json!([{"number": 443, "name": "https", "protocol": "TLS"}]);
    takes(
        Kind::ServiceEntry,
        &[
            json!({"hosts": ["a.com"], "ports": port, "resolution": "DNS"}),
            json!({"hosts": ["*.a.com"], "ports": port}),
            json!({"hosts": ["a.com"], "ports": port, "resolution": "STATIC", "endpoints": [{"address": "1.1.1.1"}]}),
            json!({"hosts": ["a.com"], "exportTo": ["~"]}),
        ],
    );
    refuses(
        Kind::ServiceEntry,
        &[
            (json!({}), "service entry must have at least one host"),
            (json!({"hosts": ["*"]}), "invalid host *"),
            (
                json!({"hosts": ["*.a.com"], "resolution": "DNS"}),
                "hosts must be FQDN if no endpoints are provided for resolution mode DNS",
            ),
            (json!({"hosts": ["a.com"], "addresses": ["x"]}), "x is not a valid IP"),
            (
                json!({"hosts": ["a.com"], "resolution": "STATIC", "endpoints": [{"address": "b.com"}]}),
                "is not a valid IP address",
            ),
            (
                json!({"hosts": ["a.com"], "endpoints": [{"address": "1.1.1.1"}]}),
                "no endpoints should be provided for resolution type none",
            ),
            (
                json!({"hosts": ["a.com"], "ports": [{"number": 1, "name": "a_b"}]}),
                "invalid port name",
            ),
            (
                json!({"hosts": ["a.com", "b.com"], "resolution": "DNS", "ports": [{"number": 1, "name": "a", "protocol": "TCP"}]}),
                "multiple hosts provided with non-HTTP, non-TLS ports",
            ),
            (
                json!({"hosts": ["a.com"], "resolution": "STATIC", "ports": port, "endpoints": [{"address": "1.1.1.1", "ports": {"x": 1}}]}),
                "is not defined by the service entry",
            ),
        ],
    );
    takes(Kind::WorkloadEntry, &[json!({"address": "vm.a.com"}), json!({"network": "n"})]);
    refuses(
        Kind::WorkloadEntry,
        &[
            (json!({}), "address is required"),
            (json!({"address": "unix://a"}), "not an absolute path"),
            (json!({"address": "a_b"}), "is not a valid FQDN or an IP address"),
        ],
    );
    takes(Kind::WorkloadGroup, &[json!({"template": {}, "probe": {"tcpSocket": {"port": 1}}})]);
    refuses(
        Kind::WorkloadGroup,
        &[
            (json!({}), "template is required"),
            (json!({"template": {}, "probe": {}}), "health check method"),
        ],
    );
}

#[test]
fn sidecars() {
    takes(
        Kind::Sidecar,
        &[
            json!({"egress": [{"hosts": ["./*", "istio-system/*"]}]}),
            json!({"ingress": [{"port": {"number": 80, "protocol": "HTTP"}, "defaultEndpoint": "127.0.0.1:8080"}]}),
        ],
    );
    refuses(
        Kind::Sidecar,
        &[
            (json!({}), "sidecar: empty configuration provided"),
            (json!({"egress": [{"hosts": ["a"]}]}), "host must be of form namespace/dnsName"),
            (json!({"egress": [{"hosts": []}]}), "must contain at least one host"),
            (
                json!({"egress": [{"hosts": ["*/*"]}, {"hosts": ["*/*"]}]}),
                "should be the last listener",
            ),
            (
                json!({"ingress": [{"port": {"number": 80}, "defaultEndpoint": "1.2.3.4:80"}]}),
                "defaultEndpoint must be of form",
            ),
            (
                json!({"outboundTrafficPolicy": {"egressProxy": {"host": "a.b"}}}),
                "only with ALLOW_ANY",
            ),
        ],
    );
}

#[test]
fn policies() {
    takes(
        Kind::AuthorizationPolicy,
        &[
            json!({}),
            json!({"action": "DENY", "rules": [{}]}),
            json!({"rules": [{"from": [{"source": {"principals": ["*"]}}], "to": [{"operation": {"paths": ["/a/{**}"], "ports": ["80"]}}], "when": [{"key": "request.headers[x]", "values": ["y"]}]}]}),
            json!({"action": "CUSTOM", "provider": {"name": "p"}, "rules": [{}]}),
        ],
    );
    let rule = |rule: Value| json!({"rules": [rule]});
    refuses(
        Kind::AuthorizationPolicy,
        &[
            (json!({"action": "DENY"}), "DENY action without `rules` is meaningless"),
            (json!({"action": "CUSTOM", "rules": [{}]}), "`provider.name` must not be empty"),
            (
                json!({"provider": {"name": "p"}}),
                "`provider` must not be with non CUSTOM action, found ALLOW",
            ),
            (rule(json!({"from": [{}]})), "spec.rules[0].from[0]: `from.source` must not be nil"),
            (rule(json!({"from": [{"source": {}}]})), "`from.source` must not be empty"),
            (rule(json!({"to": [{"operation": {"ports": ["x"]}}]})), "invalid port x"),
            (rule(json!({"from": [{"source": {"ipBlocks": ["x"]}}]})), "x is not a valid IP"),
            (rule(json!({"when": [{"key": "nope", "values": ["a"]}]})), "unknown attribute: nope"),
            (
                rule(json!({"when": [{"key": "source.ip"}]})),
                "at least one of `values` or `notValues`",
            ),
            (
                json!({"selector": {"matchLabels": {"a": "*"}}}),
                "wildcard is not supported in selector",
            ),
            (json!({"targetRefs": [{"kind": "Pod", "name": "p"}]}), "targetRef must be to one of"),
        ],
    );
    refuses(
        Kind::PeerAuthentication,
        &[(json!({"portLevelMtls": {"80": {"mode": "STRICT"}}}), "cannot have port level mTLS")],
    );
    takes(
        Kind::RequestAuthentication,
        &[
            json!({"jwtRules": [{"issuer": "a", "jwksUri": "https://a.com:8443/keys"}]}),
            json!({"jwtRules": [{"issuer": "a", "jwks": "{\"keys\": [{\"kty\": \"RSA\"}]}"}]}),
        ],
    );
    let jwt = |rule: Value| json!({"jwtRules": [rule]});
    refuses(
        Kind::RequestAuthentication,
        &[
            (jwt(json!({})), "issuer must be set"),
            (
                jwt(json!({"issuer": "a", "jwksUri": "ftp://a"})),
                "URI scheme \"ftp\" is not supported",
            ),
            (jwt(json!({"issuer": "a", "jwks": "{"})), "jwks parse error"),
            (
                jwt(
                    json!({"issuer": "a", "outputClaimToHeaders": [{"header": "a b", "claim": "c"}]}),
                ),
                "not a valid header name",
            ),
        ],
    );
}

#[test]
fn telemetry_and_extensions() {
    refuses(
        Kind::Telemetry,
        &[
            (
                json!({"tracing": [{"randomSamplingPercentage": 101}]}),
                "randomSamplingPercentage must be in range",
            ),
            (json!({"tracing": [{"customTags": {"a": {}}}]}), "tag 'a' may not have a nil value"),
            (
                json!({"metrics": [{"overrides": [{"tagOverrides": {"a": {}}}]}]}),
                "must be set when operation is UPSERT",
            ),
            (json!({"accessLogging": [{"providers": [{}]}]}), "providers.name may not be empty"),
        ],
    );
    takes(Kind::WasmPlugin, &[json!({"url": "oci://a/b:1"}), json!({"url": "a/b:1"})]);
    refuses(
        Kind::WasmPlugin,
        &[
            (json!({}), "url field needs to be set"),
            (json!({"url": "ftp://a"}), "unsupported scheme: ftp"),
            (json!({"url": "a", "sha256": "zz"}), "sha256 field must be 64 characters long"),
        ],
    );
    refuses(Kind::TrafficExtension, &[(json!({}), "exactly one of wasm or lua must be set")]);
    refuses(Kind::ProxyConfig, &[(json!({"concurrency": -1}), "concurrency must be greater")]);
}

#[test]
fn envoy_filters() {
    let one = |patch: Value| json!({"configPatches": [patch]});
    takes(
        Kind::EnvoyFilter,
        &[one(
            json!({"applyTo": "HTTP_FILTER", "match": {"context": "GATEWAY", "listener": {"filterChain": {"filter": {"name": "envoy.filters.network.http_connection_manager", "subFilter": {"name": "x"}}}}}, "patch": {"operation": "INSERT_BEFORE", "value": {"name": "x", "typed_config": {}}}}),
        )],
    );
    let patch = json!({"operation": "MERGE", "value": {}});
    refuses(
        Kind::EnvoyFilter,
        &[
            (one(json!({})), "Envoy filter: missing applyTo"),
            (one(json!({"applyTo": "CLUSTER"})), "Envoy filter: missing patch"),
            (one(json!({"applyTo": "CLUSTER", "patch": {}})), "missing patch operation"),
            (
                one(json!({"applyTo": "CLUSTER", "patch": {"operation": "ADD"}})),
                "missing patch value",
            ),
            (
                one(json!({"applyTo": "CLUSTER", "match": {"listener": {}}, "patch": patch})),
                "cannot have non cluster match",
            ),
            (
                one(json!({"applyTo": "HTTP_ROUTE", "match": {"cluster": {}}, "patch": patch})),
                "cannot have non route configuration match",
            ),
            (
                one(json!({"applyTo": "LISTENER", "match": {"cluster": {}}, "patch": patch})),
                "cannot have non listener match",
            ),
            (
                one(
                    json!({"applyTo": "CLUSTER", "match": {"proxy": {"proxyVersion": "("}}, "patch": patch}),
                ),
                "invalid regex for proxy version",
            ),
            (
                one(
                    json!({"applyTo": "HTTP_FILTER", "match": {"listener": {"filterChain": {"filter": {"name": "a", "subFilter": {"name": "b"}}}}}, "patch": patch}),
                ),
                "subfilter match requires filter match with",
            ),
        ],
    );
    let found = findings(Kind::EnvoyFilter, &json!({}));
    assert!(found.iter().all(|one| one.severity == Severity::Warning));
}

#[test]
fn annotations_can_refuse_an_object() {
    let object = json!({"metadata": {"name": "x", "annotations": {"istio.io/dry-run": "true"}}, "spec": {"host": "a"}});
    let found = super::validate(&decode(Kind::DestinationRule, &object).object.unwrap());
    assert!(found[0].is_error());
    let found = super::validate(&decode(Kind::AuthorizationPolicy, &object).object.unwrap());
    assert_eq!(found, []);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "*",
            "a.b",
            "1s",
            "STRICT",
            "10.0.0.0/8",
            "/{**}",
            "[a",
            "%",
            "unix://",
            "\u{7f}"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A spec that follows the schema in shape, with values of any kind in its leaves.
fn like(node: &Value, depth: u32) -> BoxedStrategy<Value> {
    if depth == 0 {
        return any_json().boxed();
    }
    if let Some(names) = node["enum"].as_array() {
        return prop::sample::select(names.clone()).boxed();
    }
    if let Some(properties) = node["properties"].as_object() {
        let fields: Vec<_> = properties
            .iter()
            .map(|(name, node)| {
                let name = name.clone();
                prop::option::weighted(0.4, like(node, depth - 1))
                    .prop_map(move |value| value.map(|value| (name.clone(), value)))
            })
            .collect();
        return fields
            .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect()))
            .boxed();
    }
    match node["type"].as_str() {
        Some("array") => prop::collection::vec(like(&node["items"], depth - 1), 0..3)
            .prop_map(Value::from)
            .boxed(),
        Some("object") if node["additionalProperties"].is_object() => {
            let values = like(&node["additionalProperties"], depth - 1);
            prop::collection::btree_map("[a-z0-9:*]{0,4}", values, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
                .boxed()
        }
        Some("integer") => prop_oneof![any::<i32>().prop_map(Value::from), Just(json!(80))].boxed(),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("number") => (-1.0..200.0).prop_map(|number: f64| json!(number)).boxed(),
        _ => any_json().boxed(),
    }
}

proptest! {
    #[test]
    fn no_json_makes_reading_or_checking_panic(value in any_json(), kind in prop::sample::select(Kind::ALL)) {
        for value in [value.clone(), json!({"metadata": {"name": "x"}, "spec": value})] {
            if let Ok(object) = decode(kind, &value).object {
                let _ = super::validate(&object);
            }
        }
    }
}

#[test]
fn no_spec_of_the_right_shape_makes_checking_panic() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(48));
    for kind in Kind::istio() {
        let crd = crate::crd::definition(kind).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let judge = |spec: Value| {
            let decoded = decode(kind, &json!({"metadata": {"name": "x"}, "spec": spec}));
            if let Ok(object) = decoded.object {
                let _ = super::validate(&object);
                // What was read and is written says the same again.
                let written = object.spec();
                let again = decode(kind, &json!({"metadata": {"name": "x"}, "spec": written}));
                prop_assert_eq!(again.object, Ok(object));
            }
            Ok(())
        };
        runner.run(&like(schema, 6), judge).unwrap();
    }
}
