//! Policies on inbound listeners: the real Envoy takes all of it without a word, what cannot be
//! enforced is told, and only the listeners that a policy is about depend on it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;

use std::path::PathBuf;
use std::sync::Arc;

use ironsail_api::{ClusterId, Event, decode_any};
use ironsail_model::{Fetched, KeySource, Proxy, ProxyClass, Scope, Settings, Snapshot, Store};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::{from_json, to_json};
use ironsail_sys::{env::Env, exec};
use ironsail_translate::{cluster, listener};
use serde_json::{Value, json};

const WORLD: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    trustDomainAliases: [old.td]
    extensionProviders:
    - name: over-http
      envoyExtAuthzHttp:
        service: foo/authorizer.foo.svc.cluster.local
        port: 8000
        pathPrefix: /check
        timeout: 2s
        statusOnError: "503"
        includeRequestHeadersInCheck: [x-ext-authz, "x-pre-*", "*-post", "*"]
        includeAdditionalHeadersInCheck: {x-fixed: set}
        includeRequestBodyInCheck: {maxRequestBytes: 64, allowPartialMessage: true, packAsBytes: true}
        headersToUpstreamOnAllow: [x-up]
        headersToDownstreamOnDeny: [x-down]
        headersToDownstreamOnAllow: [x-fine]
    - {name: over-grpc, envoyExtAuthzGrpc: {service: authorizer.foo.svc.cluster.local, port: 9000, failOpen: true}}
  meshNetworks: "networks: {}"
---
apiVersion: v1
kind: Service
metadata: {name: app, namespace: foo}
spec:
  clusterIP: 10.96.4.1
  selector: {app: app}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 81, targetPort: 8081}, {name: any, port: 82, targetPort: 8082}]
---
apiVersion: v1
kind: Service
metadata: {name: authorizer, namespace: foo}
spec:
  clusterIP: 10.96.4.2
  ports: [{name: http, port: 8000}, {name: grpc, port: 9000}]
---
apiVersion: v1
kind: Pod
metadata: {name: app-1, namespace: foo, labels: {app: app}}
spec: {serviceAccountName: app}
status: {podIP: 10.0.0.1, phase: Running}
---
"#;

const EVERYTHING: &str = r#"
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: all, namespace: foo}
spec:
  action: ACTION
  rules:
  - {}
  - from:
    - source: {principals: [a, "b*", "*c", "*", "old.td/ns/x/sa/y"], notPrincipals: [d]}
    - source: {requestPrincipals: [a, "b*", "*c", "*", "https://i/*", "*/s"], notRequestPrincipals: [d]}
    - source: {namespaces: [a, "b*", "*c", "*"], notNamespaces: ["d.e"]}
    - source: {serviceAccounts: [a, b/c], notServiceAccounts: ["d.e"]}
    - source: {trustDomains: [a, "b*", "*"], notTrustDomains: ["d.e"]}
    - source: {ipBlocks: [1.2.3.4, 5.6.0.0/16, "fd00::/8"], notIpBlocks: [9.9.9.9]}
    - source: {remoteIpBlocks: [1.2.3.4, 5.6.0.0/16], notRemoteIpBlocks: [9.9.9.9]}
    to:
    - operation: {hosts: [a, "b*", "*c", "*"], notHosts: [d], methods: [GET, "P*", "*"], notMethods: [PUT]}
    - operation: {paths: [/a, "/b*", "*c", "*", "/d/{*}", "/{**}/e", "/{*}/{**}", "/f/{*}/g"], notPaths: [/h]}
    - operation: {ports: ["80"], notPorts: ["81"]}
    when:
    - {key: "request.headers[X-A]", values: [a, "b*", "*c", "*"], notValues: [d]}
    - {key: "request.experimental.inlineHeaders[X-A]", values: [a, "b*", "*c", "*"], notValues: [d]}
    - {key: "request.auth.claims[a][b]", values: [a, "b*", "*c", "*"], notValues: [d]}
    - {key: request.auth.audiences, values: [a], notValues: [d]}
    - {key: request.auth.presenter, values: [a], notValues: [d]}
    - {key: connection.sni, values: [a, "b*", "*c", "*"], notValues: [d]}
    - {key: destination.ip, values: [1.2.3.4], notValues: [1.2.0.0/16]}
    - {key: "experimental.envoy.filters.a.b[c]", values: [a, "[b]", "*"], notValues: ["[d]"]}
"#;

const TOKENS: &str = r#"
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: foo}
spec:
  jwtRules:
  - {issuer: one, jwksUri: "http://keys/one"}
  - issuer: two
    audiences: [a]
    fromHeaders: [{name: x-t, prefix: "T "}, {name: "bad name"}]
    fromParams: [t]
    fromCookies: [c]
    forwardOriginalToken: true
    outputPayloadToHeader: x-p
    outputClaimToHeaders: [{header: x-s, claim: sub}]
    spaceDelimitedClaims: [roles]
    presence: REQUIRED
  - {issuer: three, jwksUri: "http://keys/three"}
  - {issuer: four, jwks: "nothing"}
"#;

fn world(more: &[&str]) -> Vec<Value> {
    let text = format!("{WORLD}\n---\n{}", more.join("\n---\n"));
    let all = ironsail_yaml::documents(&text).unwrap();
    all.into_iter().filter(|one| !one.is_null()).collect()
}

fn class(snapshot: &Snapshot) -> ProxyClass {
    let node: Node = from_json(&json!({
        "id": "sidecar~10.0.0.1~app-1.foo~foo.svc.cluster.local", "cluster": "app.foo",
        "metadata": {"NAMESPACE": "foo", "CLUSTER_ID": "Kubernetes", "LABELS": {"app": "app"}}
    }))
    .unwrap();
    snapshot.class_of(&Proxy::parse(&node, &ClusterId::from("Kubernetes")).unwrap())
}

/// The inbound listener, what was said, and all clusters.
fn inbound(snapshot: &Snapshot) -> (Value, Vec<String>, Vec<Value>) {
    let class = class(snapshot);
    let scope = Scope::of(snapshot, &class);
    let views = listener::views(snapshot, &scope, &class);
    let made = listener::translate(views.iter().find(|v| v.name() == "virtualInbound").unwrap());
    let clusters = cluster::views(snapshot, &scope, &class);
    let clusters = clusters.iter().map(|v| to_json(&cluster::translate(v).value).unwrap());
    let said = made.diagnostics.iter().map(ToString::to_string).collect();
    (to_json(&made.value).unwrap(), said, clusters.collect())
}

fn key(snapshot: &Snapshot) -> u64 {
    let class = class(snapshot);
    let scope = Scope::of(snapshot, &class);
    let views = listener::views(snapshot, &scope, &class);
    views.iter().find(|view| view.name() == "virtualInbound").unwrap().key()
}

/// The same with a store at hand, for keys of issuers.
fn store(objects: &[Value]) -> Store {
    let mut store = Store::new(Settings::default());
    for object in objects.iter().filter(|object| object["kind"] != "ConfigMap") {
        let object = decode_any(object).unwrap().object.unwrap();
        store.apply(Event::Apply { cluster: ClusterId::from("Kubernetes"), object });
    }
    store
}

fn pipe(name: &str) -> Value {
    json!({
        "name": name, "type": "STATIC",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}}
            }
        },
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [
            {"endpoint": {"address": {"pipe": {"path": "./socket"}}}}
        ]}]}
    })
}

fn program() -> PathBuf {
    let env = Env::of_process();
    if let Some(path) = env.var("IRONSAIL_ENVOY") {
        return path.into();
    }
    let cache = match (env.var("IRONSAIL_CACHE"), env.var("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or("/root")).join(".cache/ironsail"),
    };
    let installed = cache.join("tools/bin/envoy");
    if installed.exists() { installed } else { "envoy".into() }
}

fn envoy_takes(snapshot: &Snapshot) {
    let (listener, _, mut clusters) = inbound(snapshot);
    clusters.extend([pipe("sds-grpc"), pipe("xds-grpc")]);
    let xds = json!({"api_type": "GRPC", "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}]});
    let config = json!({
        "node": {"id": "sidecar~10.0.0.1~a.b~b.svc.cluster.local", "cluster": "a.b"},
        "dynamic_resources": {"ads_config": xds},
        "static_resources": {"clusters": clusters, "listeners": [listener]},
    });
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("envoy.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let output = exec::command(program())
        .args(["--mode", "validate", "--config-path"])
        .arg(&file)
        .output()
        .expect("envoy is on PATH or among the tools that scripts/setup installs");
    let log = String::from_utf8_lossy(&output.stderr);
    let loud =
        |line: &&str| ["[warning]", "[error]", "[critical]"].iter().any(|l| line.contains(l));
    let said: Vec<&str> = log.lines().filter(loud).collect();
    assert!(output.status.success() && said.is_empty(), "{}", said.join("\n"));
}

#[test]
fn envoy_takes_every_attribute_in_every_action() {
    for action in ["ALLOW", "DENY", "AUDIT"] {
        let policy = EVERYTHING.replace("ACTION", action);
        let snapshot = case::snapshot(&world(&[&policy, TOKENS]));
        envoy_takes(&snapshot);
        let dry =
            policy.replace("name: all,", "name: dry, annotations: {istio.io/dry-run: 'true'},");
        envoy_takes(&case::snapshot(&world(&[&policy, &dry])));
    }
    for provider in ["over-http", "over-grpc", "missing"] {
        let policy = EVERYTHING.replace(
            "action: ACTION",
            &format!("action: CUSTOM\n  provider: {{name: {provider}}}"),
        );
        envoy_takes(&case::snapshot(&world(&[&policy])));
    }
}

fn policy(action: &str, rules: &str) -> String {
    format!(
        "{{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {{name: p, namespace: foo}}, \
         spec: {{action: {action}, rules: {rules}}}}}"
    )
}

fn rbac(listener: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for chain in listener["filterChains"].as_array().unwrap() {
        for filter in chain["filters"].as_array().unwrap() {
            for http in filter["typedConfig"]["httpFilters"].as_array().into_iter().flatten() {
                if http["name"] == "envoy.filters.http.rbac" {
                    found.push(http["typedConfig"].clone());
                }
            }
        }
    }
    found
}

#[test]
fn what_cannot_be_enforced_denies_and_is_told() {
    for bad in [
        "[{when: [{key: no.such, values: [a]}]}]",
        "[{to: [{operation: {ports: [http]}}]}]",
        "[{to: [{operation: {paths: ['/a{*}']}}]}]",
        "[{from: [{source: {ipBlocks: [1.2.3.4, nonsense]}}]}]",
        "[{when: [{key: 'request.headers[a b]', values: [a]}]}]",
    ] {
        let allow = case::snapshot(&world(&[&policy("ALLOW", bad)]));
        let (listener, said, _) = inbound(&allow);
        for one in rbac(&listener) {
            assert_eq!(one["rules"], json!({}), "an ALLOW of {bad} allows nothing");
        }
        assert!(said.iter().any(|line| line.contains("allows nothing")), "{bad}: {said:?}");
        envoy_takes(&allow);
        let deny = case::snapshot(&world(&[&policy("DENY", bad)]));
        let (listener, said, _) = inbound(&deny);
        assert!(said.iter().any(|line| line.contains("denies without looking")), "{bad}: {said:?}");
        for one in rbac(&listener) {
            let rule = &one["rules"]["policies"]["ns[foo]-policy[p]-rule[0]"];
            let any = json!([{"andRules": {"rules": [{"any": true}]}}]);
            assert_eq!(rule["permissions"], any, "a DENY of {bad} denies everything");
            assert_eq!(rule["principals"], json!([{"andIds": {"ids": [{"any": true}]}}]));
        }
    }
}

#[test]
fn keys_of_issuers_arrive_and_what_is_missing_is_told() {
    let mut store = store(&world(&[TOKENS]));
    let before = store.take().unwrap().snapshot;
    let (_, said, _) = inbound(&before);
    assert!(said.iter().any(|line| line.contains("it is no key set")), "{said:?}");
    assert!(said.iter().any(|line| line.contains("\"bad name\" is no name")), "{said:?}");
    let one = KeySource::Uri("http://keys/one".into());
    let keys = Fetched::Keys(r#"{"keys":[{"kid":"from-one"}]}"#.into());
    store.set_keys(&one, Some(keys.clone()));
    let three = KeySource::Uri("http://keys/three".into());
    store.set_keys(&three, Some(Fetched::Failed("nobody answers".into())));
    let update = store.take().unwrap();
    assert_eq!(update.changes.objects.len(), 1, "the policy that uses them");
    let after = update.snapshot;
    assert_ne!(key(&before), key(&after));
    let (listener, said, _) = inbound(&after);
    assert!(listener.to_string().contains("from-one"));
    assert!(said.iter().any(|line| line.contains("nobody answers")), "{said:?}");
    store.set_keys(&one, Some(keys));
    assert!(store.take().is_none(), "the same keys change nothing");
    let wanted = after.wanted_keys();
    assert!(wanted.contains_key(&KeySource::Issuer("two".into())), "{wanted:?}");
    assert_eq!(wanted.len(), 3);
}

#[test]
fn only_what_is_about_a_workload_counts_for_it() {
    let plain = key(&case::snapshot(&world(&[])));
    let deny = policy("DENY", "[{}]");
    let about = |spec: &str| deny.replace("spec: {", &format!("spec: {{{spec}, "));
    for (same, text) in [
        (false, deny.clone()),
        (true, deny.replace("namespace: foo", "namespace: bar")),
        (false, deny.replace("namespace: foo", "namespace: istio-system")),
        (false, about("selector: {matchLabels: {app: app}}")),
        (true, about("selector: {matchLabels: {app: other}}")),
        (true, about("targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}]")),
    ] {
        let snapshot: Arc<Snapshot> = case::snapshot(&world(&[&text]));
        assert_eq!(key(&snapshot) == plain, same, "{text}");
    }
}
