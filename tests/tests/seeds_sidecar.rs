//! The commands that people type in their first hour with a sidecar, and what they expect to see:
//! packet rules, ports, processes, files, dumps, metrics, headers and access logs.
//!
//! Everything is asked by the same commands as on any other mesh. What is compared is the structure,
//! field by field; addresses, hashes and times differ from run to run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case, repository};
use serde_json::{Value, json};

/// What the demonstration profile of the mesh sets, and the access log as JSON.
const MESH: &str = "
defaultConfig:
  discoveryAddress: istiod.istio-system.svc:15012
  concurrency: 2
  tracing: {sampling: 100, zipkin: {address: 'zipkin.istio-system:9411'}}
rootNamespace: istio-system
trustDomain: cluster.local
accessLogEncoding: JSON
accessLogFile: /dev/stdout
";

#[test]
fn what_people_type_in_the_first_hour_answers_as_they_know_it() {
    mesh_case("seeds", async |case| {
        configure(case).await;
        start(case).await;
        let id = headers(case).await;
        access_logs(case, &id).await;
        let httpbin = "deployment/httpbin";
        ports(&said(case, httpbin, "ss -ntl"));
        eventually("connections are open", async || {
            // Each end may close one that rests.
            case.kubectl_output(&ASK, "");
            connections(&said(case, httpbin, "ss -nt state established"))
        })
        .await;
        processes(&said(case, httpbin, "ps -ef"), &case.namespace);
        let file = said(case, httpbin, "cat /etc/istio/proxy/envoy-rev.json");
        bootstrap(&read(&file), &case.namespace);
        let file = said(case, httpbin, "cat /etc/istio/proxy/grpc-bootstrap.json");
        grpc_bootstrap(&read(&file), &case.namespace);
        dump(&read(&said(case, httpbin, "curl -s localhost:15000/config_dump")), &case.namespace);
        metrics(&said(case, httpbin, "curl -s localhost:15020/stats/prometheus"));
        metrics(&said(case, httpbin, "curl -s http://127.0.0.1:15090/stats/prometheus"));
        rules(&told(case, "pod/tools", "main", "iptables -L -n -t nat --line-number"));
        counted_rules(&told(case, "pod/tools", "main", "iptables -L -n -v -t nat"));
    });
}

/// `kubectl exec` in the proxy's container.
fn said(case: &Case, of: &str, command: &str) -> String {
    told(case, of, "istio-proxy", command)
}

fn told(case: &Case, of: &str, container: &str, command: &str) -> String {
    let mut args = vec!["exec", of, "-c", container, "--"];
    args.extend(command.split(' '));
    case.kubectl_says(&args)
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The words of a column of a listing.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect())
}

/// `kubectl -n istio-system edit configmap istio`
async fn configure(case: &Case) {
    let patch = json!({"data": {"mesh": MESH}}).to_string();
    case.kubectl_says(&["-n", SYSTEM, "patch", "configmap", "istio", "-p", &patch]);
    eventually("the mesh configuration is in use", async || {
        let mesh = case.page(8080, "/debug/mesh").await.body;
        if mesh.contains("/dev/stdout") { Ok(()) } else { Err(mesh) }
    })
    .await;
}

/// Labels the namespace and applies the samples. The tools stand for the node, from which people
/// look at a pod's rules: a container in a pod that is intercepted like the others.
async fn start(case: &Case) {
    let label = ["label", "namespace", &case.namespace, "istio-injection=enabled", "--overwrite"];
    case.kubectl_says(&label);
    case.injects("zipkin.istio-system:9411").await;
    for sample in ["httpbin/httpbin.yaml", "sleep/sleep.yaml"] {
        let file = repository().join("samples").join(sample).display().to_string();
        case.kubectl_says(&["apply", "-f", &file]);
    }
    case.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: tools}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: busybox
    command: [sleep, infinity]
    securityContext: {capabilities: {add: [NET_ADMIN]}}
",
    )
    .await;
    for what in ["deployment/httpbin", "deployment/sleep", "pod/tools"] {
        case.ready(what).await;
    }
}

const ASK: [&str; 8] =
    ["exec", "deployment/sleep", "-c", "sleep", "--", "curl", "-sS", "http://httpbin:8000/headers"];

/// What the server is told; the request's id.
async fn headers(case: &Case) -> String {
    let seen = eventually("the two sidecars know each other", async || {
        let asked = case.kubectl_output(&ASK, "");
        let text = String::from_utf8_lossy(&[asked.stdout, asked.stderr].concat()).into_owned();
        let seen: Value = serde_json::from_str(&text).map_err(|_| text)?;
        if seen["X-Forwarded-Client-Cert"].is_string() { Ok(seen) } else { Err(seen.to_string()) }
    })
    .await;
    let names: Vec<&str> = seen.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted = [
        "Accept",
        "User-Agent",
        "X-B3-Parentspanid",
        "X-B3-Sampled",
        "X-B3-Spanid",
        "X-B3-Traceid",
        "X-Envoy-Attempt-Count",
        "X-Forwarded-Client-Cert",
        "X-Forwarded-Proto",
        "X-Request-Id",
    ];
    assert_eq!(names, wanted);
    let header = |name: &str| seen[name].as_str().unwrap().to_owned();
    let hex = |text: &str, length| {
        text.len() == length
            && text.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
    };
    let (trace, parent) = (header("X-B3-Traceid"), header("X-B3-Parentspanid"));
    assert!(hex(&trace, 32) && hex(&parent, 16) && hex(&header("X-B3-Spanid"), 16), "{seen}");
    assert!(trace.ends_with(&parent), "the first span is named after the trace: {seen}");
    assert_eq!(header("X-B3-Sampled"), "1");
    assert_eq!(header("X-Envoy-Attempt-Count"), "1");
    assert_eq!(header("X-Forwarded-Proto"), "http");
    // The fourth part begins with 9: the request is one of those that are traced.
    let id = header("X-Request-Id");
    let lengths: Vec<usize> = id.split('-').map(str::len).collect();
    assert!(lengths == [8, 4, 4, 4, 12] && id.as_bytes()[14] == b'9', "{id}");
    let client = header("X-Forwarded-Client-Cert");
    let parts: Vec<(&str, &str)> =
        client.split(';').map(|part| part.split_once('=').unwrap()).collect();
    let by = format!("spiffe://cluster.local/ns/{}/sa/httpbin", case.namespace);
    let uri = format!("spiffe://cluster.local/ns/{}/sa/sleep", case.namespace);
    let [("By", server), ("Hash", hash), ("Subject", "\"\""), ("URI", peer)] = parts[..] else {
        panic!("{client}");
    };
    assert!(server == by && hex(hash, 64) && peer == uri, "{client}");
    id
}

/// The line of the request in the log of a proxy, which is written once a second.
async fn logged(case: &Case, app: &str, id: &str) -> Value {
    let label = format!("app={app}");
    eventually("the request is in the log", async || {
        let log = case.kubectl_says(&["logs", "-l", &label, "-c", "istio-proxy", "--tail=-1"]);
        let line = log.lines().find(|line| line.contains(id)).map(read);
        line.ok_or(log)
    })
    .await
}

async fn access_logs(case: &Case, id: &str) {
    let (client, server) = (logged(case, "sleep", id).await, logged(case, "httpbin", id).await);
    let fields: BTreeSet<&str> = [
        "authority",
        "bytes_received",
        "bytes_sent",
        "connection_termination_details",
        "downstream_local_address",
        "downstream_remote_address",
        "duration",
        "method",
        "path",
        "protocol",
        "request_id",
        "requested_server_name",
        "response_code",
        "response_code_details",
        "response_flags",
        "route_name",
        "start_time",
        "upstream_cluster",
        "upstream_host",
        "upstream_local_address",
        "upstream_service_time",
        "upstream_transport_failure_reason",
        "user_agent",
        "x_forwarded_for",
    ]
    .into();
    for line in [&client, &server] {
        let names: BTreeSet<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, fields);
        for (name, value) in [
            ("authority", json!("httpbin:8000")),
            ("method", json!("GET")),
            ("path", json!("/headers")),
            ("protocol", json!("HTTP/1.1")),
            ("response_code", json!(200)),
            ("response_code_details", json!("via_upstream")),
            ("response_flags", json!("-")),
            ("route_name", json!("default")),
            ("bytes_received", json!(0)),
            ("upstream_transport_failure_reason", Value::Null),
            ("connection_termination_details", Value::Null),
            ("x_forwarded_for", Value::Null),
        ] {
            assert_eq!(line[name], value, "{name}: {line}");
        }
    }
    let host = format!("httpbin.{}.svc.cluster.local", case.namespace);
    assert_eq!(client["upstream_cluster"], format!("outbound|8000||{host}"));
    assert_eq!(client["requested_server_name"], Value::Null);
    assert_eq!(server["upstream_cluster"], "inbound|80||");
    assert_eq!(server["requested_server_name"], format!("outbound_.8000_._.{host}"));
    assert!(server["upstream_local_address"].as_str().unwrap().starts_with("127.0.0.6:"));
    // Both speak of one request: the client's upstream connection is the server's downstream one.
    assert_eq!(client["request_id"], server["request_id"]);
    assert_eq!(client["upstream_local_address"], server["downstream_remote_address"]);
    assert_eq!(client["upstream_host"], server["downstream_local_address"]);
}

/// `ss -ntl`: who listens where; each worker of Envoy has a socket of its own.
fn ports(listing: &str) {
    let mut seen: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for words in lines(listing).skip(1) {
        let (address, port) = words[3].rsplit_once(':').unwrap();
        seen.entry(port.parse().unwrap()).or_default().push(address);
    }
    let wanted: [(u16, &str, usize); 8] = [
        (80, "*", 1),
        (15000, "127.0.0.1", 1),
        (15001, "0.0.0.0", 2),
        (15004, "127.0.0.1", 1),
        (15006, "0.0.0.0", 2),
        (15020, "0.0.0.0", 1),
        (15021, "0.0.0.0", 2),
        (15090, "0.0.0.0", 2),
    ];
    let wanted: BTreeMap<u16, Vec<&str>> =
        wanted.into_iter().map(|(port, at, times)| (port, vec![at; times])).collect();
    assert_eq!(seen, wanted, "{listing}");
}

/// The agent is connected to the control plane, and Envoy to the application from 127.0.0.6.
fn connections(listing: &str) -> Result<(), String> {
    let pairs: Vec<(&str, &str)> =
        lines(listing).skip(1).map(|words| (words[2], words[3])).collect();
    let some = |test: &dyn Fn(&str, &str) -> bool| pairs.iter().any(|(from, to)| test(from, to));
    let all = some(&|_, to| to.ends_with(":15012"))
        && some(&|from, to| from.starts_with("127.0.0.6:") && to.ends_with(":80"))
        && some(&|from, _| from.ends_with(":15006"));
    if all { Ok(()) } else { Err(listing.to_owned()) }
}

/// `ps -ef`: the agent, and Envoy as its child, with the flags that people know.
fn processes(listing: &str, namespace: &str) {
    let agent = format!(
        "proxy sidecar --domain {namespace}.svc.cluster.local --proxyLogLevel=warning \
         --proxyComponentLogLevel=misc:error --log_output_level=default:info"
    );
    // The format of the log is in the file.
    let envoy = "-c etc/istio/proxy/envoy-rev.json --drain-time-s 45 --drain-strategy immediate \
        --local-address-ip-version v4 --file-flush-interval-msec 1000 --disable-hot-restart \
        --allow-unknown-static-fields --skip-deprecated-logs -l warning \
        --component-log-level misc:error --concurrency 2";
    let find = |program: &str, args: &str| {
        let mut rows = lines(listing).filter(|row| row[7].ends_with(program));
        let (Some(row), None) = (rows.next(), rows.next()) else { panic!("{program}: {listing}") };
        assert_eq!(row[0], "1337", "{listing}");
        assert_eq!(row[8..].join(" "), args);
        (row[1].to_owned(), row[2].to_owned())
    };
    let (agent, _) = find("pilot-agent", &agent);
    let (_, parent) = find("/usr/local/bin/envoy", envoy);
    assert_eq!(parent, agent, "{listing}");
}

/// The names of a list's items.
fn names<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().into_iter().flatten().filter_map(|item| item[key].as_str()).collect()
}

fn metadata(metadata: &Value, namespace: &str) {
    let owner = format!("kubernetes://apis/apps/v1/namespaces/{namespace}/deployments/httpbin");
    let pod = metadata["NAME"].as_str().unwrap();
    assert!(pod.starts_with("httpbin-"), "{pod}");
    for (name, value) in [
        ("CLUSTER_ID", json!("Kubernetes")),
        ("ENVOY_PROMETHEUS_PORT", json!(15090)),
        ("ENVOY_STATUS_PORT", json!(15021)),
        ("INTERCEPTION_MODE", json!("REDIRECT")),
        ("MESH_ID", json!("cluster.local")),
        ("NAMESPACE", json!(namespace)),
        ("OWNER", json!(owner)),
        ("PILOT_SAN", json!(["istiod.istio-system.svc"])),
        ("SERVICE_ACCOUNT", json!("httpbin")),
        ("WORKLOAD_NAME", json!("httpbin")),
    ] {
        assert_eq!(metadata[name], value, "{name}");
    }
    for name in ["INSTANCE_IPS", "ISTIO_VERSION", "NODE_NAME"] {
        assert!(metadata[name].is_string(), "{name}: {metadata}");
    }
    let labels = &metadata["LABELS"];
    assert_eq!(labels["app"], "httpbin");
    assert_eq!(labels["service.istio.io/canonical-name"], "httpbin");
    assert_eq!(labels["service.istio.io/canonical-revision"], "v1");
    let annotations = &metadata["ANNOTATIONS"];
    for (name, value) in [("path", "/stats/prometheus"), ("port", "15020"), ("scrape", "true")] {
        assert_eq!(annotations[format!("prometheus.io/{name}")], value, "{name}");
    }
    let settings = json!({
        "binaryPath": "/usr/local/bin/envoy",
        "concurrency": 2,
        "configPath": "./etc/istio/proxy",
        "controlPlaneAuthPolicy": "MUTUAL_TLS",
        "discoveryAddress": "istiod.istio-system.svc:15012",
        "drainDuration": "45s",
        "proxyAdminPort": 15000,
        "serviceCluster": "istio-proxy",
        "statNameLength": 189,
        "statusPort": 15020,
        "terminationDrainDuration": "5s",
        "tracing": {"sampling": 100, "zipkin": {"address": "zipkin.istio-system:9411"}},
    });
    let mut seen = metadata["PROXY_CONFIG"].clone();
    // 100 and 100.0 are the same.
    if seen["tracing"]["sampling"].as_f64() == Some(100.0) {
        seen["tracing"]["sampling"] = json!(100);
    }
    assert_eq!(seen, settings);
}

fn bootstrap(file: &Value, namespace: &str) {
    let node = &file["node"];
    let id: Vec<&str> = node["id"].as_str().unwrap().split('~').collect();
    let pod = node["metadata"]["NAME"].as_str().unwrap();
    assert_eq!(id[0], "sidecar");
    assert_eq!(id[1], node["metadata"]["INSTANCE_IPS"]);
    assert_eq!(id[2..], [format!("{pod}.{namespace}"), format!("{namespace}.svc.cluster.local")]);
    assert_eq!(node["cluster"], format!("httpbin.{namespace}"));
    metadata(&node["metadata"], namespace);
    assert_eq!(names(&file["layered_runtime"]["layers"], "name"), ["global config", "admin"]);
    let extensions = names(&file["bootstrap_extensions"], "name");
    assert!(extensions.contains(&"envoy.bootstrap.internal_listener"), "{extensions:?}");
    let tags = names(&file["stats_config"]["stats_tags"], "tag_name");
    for tag in [
        "cluster_name",
        "tcp_prefix",
        "response_code",
        "response_code_class",
        "http_conn_manager_listener_prefix",
        "http_conn_manager_prefix",
        "listener_address",
        "mongo_prefix",
    ] {
        assert!(tags.contains(&tag), "{tag}: {tags:?}");
    }
    let patterns = file["stats_config"]["stats_matcher"]["inclusion_list"]["patterns"].to_string();
    for part in ["cluster_manager", "listener_manager", "server", "cluster.xds-grpc", "rbac.denied"]
    {
        assert!(patterns.contains(part), "{part}: {patterns}");
    }
    let admin = &file["admin"]["address"]["socket_address"];
    assert_eq!(*admin, json!({"address": "127.0.0.1", "port_value": 15000}));
    assert_eq!(file["admin"]["profile_path"], "/var/lib/istio/data/envoy.prof");
    let dynamic = &file["dynamic_resources"];
    for part in ["lds_config", "cds_config"] {
        assert!(dynamic[part]["ads"].is_object(), "{part}: {dynamic}");
        assert_eq!(dynamic[part]["initial_fetch_timeout"], "0s");
        assert_eq!(dynamic[part]["resource_api_version"], "V3");
    }
    let ads = &dynamic["ads_config"];
    assert_eq!(ads["transport_api_version"], "V3");
    assert_eq!(ads["set_node_on_first_message_only"], true);
    assert_eq!(ads["grpc_services"][0]["envoy_grpc"]["cluster_name"], "xds-grpc");
    static_resources(&file["static_resources"]);
    let tracer = &file["tracing"]["http"];
    assert_eq!(tracer["name"], "envoy.tracers.zipkin");
    for (name, value) in [
        ("collector_cluster", json!("zipkin")),
        ("collector_endpoint", json!("/api/v2/spans")),
        ("collector_endpoint_version", json!("HTTP_JSON")),
        ("trace_id_128bit", json!(true)),
        ("shared_span_context", json!(false)),
    ] {
        assert_eq!(tracer["typed_config"][name], value, "{name}");
    }
    let format = &file["application_log_config"]["log_format"]["text_format"];
    assert_eq!(*format, "%Y-%m-%dT%T.%fZ\t%l\tenvoy %n %g:%#\t%v\tthread=%t");
}

/// Clusters with where they lead to, and the two listeners that do not come from the control plane.
fn static_resources(resources: &Value) {
    let clusters = resources["clusters"].as_array().unwrap();
    let seen: BTreeMap<&str, String> = clusters
        .iter()
        .map(|cluster| {
            let endpoint = &cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0];
            let address = &endpoint["endpoint"]["address"];
            let socket = &address["socket_address"];
            let at = match (address["pipe"]["path"].as_str(), socket["address"].as_str()) {
                (Some(path), _) => path.to_owned(),
                (None, Some(ip)) => format!("{ip}:{}", socket["port_value"]),
                (None, None) => "nowhere".to_owned(),
            };
            let kind = cluster["type"].as_str().or(cluster["cluster_type"]["name"].as_str());
            let kind = kind.unwrap();
            (cluster["name"].as_str().unwrap(), format!("{kind} {at}"))
        })
        .collect();
    let wanted = [
        ("agent", "STATIC 127.0.0.1:15020"),
        // The module keeps its counts there.
        ("ironsail_telemetry", "envoy.clusters.dynamic_modules nowhere"),
        ("prometheus_stats", "STATIC 127.0.0.1:15000"),
        ("sds-grpc", "STATIC ./var/run/secrets/workload-spiffe-uds/socket"),
        ("xds-grpc", "STATIC ./etc/istio/proxy/XDS"),
        ("zipkin", "STRICT_DNS zipkin.istio-system:9411"),
    ];
    assert_eq!(seen, wanted.map(|(name, at)| (name, at.to_owned())).into());
    let routes: BTreeMap<u64, String> = resources["listeners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|listener| {
            let port = listener["address"]["socket_address"]["port_value"].as_u64().unwrap();
            let manager = &listener["filter_chains"][0]["filters"][0]["typed_config"];
            let route = &manager["route_config"]["virtual_hosts"][0]["routes"][0];
            let (path, to) = (&route["match"]["path"], &route["route"]["cluster"]);
            (port, format!("{} {}", path.as_str().unwrap(), to.as_str().unwrap()))
        })
        .collect();
    let wanted = [(15021, "/healthz/ready agent"), (15090, "/stats/prometheus prometheus_stats")];
    assert_eq!(routes, wanted.map(|(port, to)| (port, to.to_owned())).into());
}

fn grpc_bootstrap(file: &Value, namespace: &str) {
    let server = &file["xds_servers"][0];
    assert_eq!(server["server_uri"], "unix:///etc/istio/proxy/XDS");
    assert_eq!(server["channel_creds"], json!([{"type": "insecure"}]));
    let features = server["server_features"].as_array().unwrap();
    assert!(features.contains(&json!("xds_v3")), "{server}");
    assert!(file["node"]["id"].as_str().unwrap().starts_with("sidecar~"), "{file}");
    assert_eq!(file["node"]["metadata"]["GENERATOR"], "grpc");
    metadata(&file["node"]["metadata"], namespace);
    let template = &file["server_listener_resource_name_template"];
    assert_eq!(*template, "xds.istio.io/grpc/lds/inbound/%s");
}

/// `curl localhost:15000/config_dump`: all that Envoy has, and no private key in it.
fn dump(dump: &Value, namespace: &str) {
    let part = |name: &str| {
        let configs = dump["configs"].as_array().unwrap();
        let found =
            configs.iter().find(|c| c["@type"].as_str().unwrap().ends_with(&format!(".{name}")));
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    assert_eq!(part("BootstrapConfigDump")["bootstrap"]["node"]["cluster"], {
        format!("httpbin.{namespace}")
    });
    let host = format!("httpbin.{namespace}.svc.cluster.local");
    let clusters = part("ClustersConfigDump");
    let dynamic: Vec<&str> = clusters["dynamic_active_clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["cluster"]["name"].as_str().unwrap())
        .collect();
    let outbound = format!("outbound|8000||{host}");
    for name in ["BlackHoleCluster", "PassthroughCluster", "InboundPassthroughCluster"] {
        assert!(dynamic.contains(&name), "{name}: {dynamic:?}");
    }
    assert!(dynamic.contains(&&*outbound) && dynamic.contains(&"inbound|80||"), "{dynamic:?}");
    assert_eq!(clusters["static_clusters"].as_array().unwrap().len(), 6);
    let listeners = part("ListenersConfigDump");
    let ports: BTreeMap<&str, u64> = listeners["dynamic_listeners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| {
            let address = &l["active_state"]["listener"]["address"]["socket_address"];
            (l["name"].as_str().unwrap(), address["port_value"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(ports["virtualOutbound"], 15001, "{ports:?}");
    assert_eq!(ports["virtualInbound"], 15006, "{ports:?}");
    assert_eq!(ports["0.0.0.0_8000"], 8000, "{ports:?}");
    let routes = part("RoutesConfigDump")["dynamic_route_configs"].to_string();
    assert!(routes.contains(&format!("{host}:8000")), "{routes}");
    let secrets = &part("SecretsConfigDump")["dynamic_active_secrets"];
    assert_eq!(names(secrets, "name").into_iter().collect::<BTreeSet<_>>(), {
        BTreeSet::from(["ROOTCA", "default"])
    });
    let keys = "/secret/tls_certificate/private_key/inline_bytes";
    let keys: Vec<&str> =
        secrets.as_array().unwrap().iter().filter_map(|s| s.pointer(keys)?.as_str()).collect();
    assert_eq!(keys, ["W3JlZGFjdGVkXQ=="], "only \"[redacted]\"");
}

fn metrics(text: &str) {
    let mut types = 0;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            types += 1;
            let kind = rest.split(' ').nth(1).unwrap();
            assert!(
                ["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind),
                "{line}"
            );
        } else if !line.starts_with('#') {
            let (_, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    assert!(types > 20, "{text}");
    let has = |sample: &str| text.lines().any(|line| line.starts_with(sample));
    for sample in [
        "envoy_server_live",
        "envoy_server_concurrency{} 2",
        "envoy_cluster_manager_cds_update_success",
        "envoy_listener_manager_lds_update_success",
        "envoy_cluster_upstream_cx_total{cluster_name=\"xds-grpc\"}",
    ] {
        assert!(has(sample), "{sample}: {text}");
    }
    let rejected = [
        "envoy_cluster_manager_cds_update_rejected{} 0",
        "envoy_listener_manager_lds_update_rejected{} 0",
    ];
    assert!(rejected.iter().all(|sample| has(sample)), "{text}");
}

/// The chains of `iptables -L`: name and references, and the rows without their numbers.
fn chains(listing: &str) -> BTreeMap<String, Vec<String>> {
    let mut chains: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in listing.lines().filter(|line| !line.is_empty()) {
        if let Some(head) = line.strip_prefix("Chain ") {
            let (chain, rest) = head.split_once(' ').unwrap();
            name = if rest.contains("references") { head } else { chain }.to_owned();
            chains.entry(name.clone()).or_default();
        } else if line.split_whitespace().next().is_some_and(|word| word.parse::<u64>().is_ok()) {
            chains.get_mut(&name).unwrap().push(spelled(line));
        }
    }
    chains
}

/// A row in one spelling: newer programs write protocols as numbers.
fn spelled(row: &str) -> String {
    let mut words: Vec<&str> = row.split_whitespace().skip(1).collect();
    match words[1] {
        "6" => words[1] = "tcp",
        "0" => words[1] = "all",
        _ => {}
    }
    words.join(" ")
}

fn rules(listing: &str) {
    let any = "0.0.0.0/0 0.0.0.0/0";
    let to_self = "ISTIO_IN_REDIRECT tcp -- 0.0.0.0/0 !127.0.0.1 tcp dpt:!15008 owner";
    let inbound = [15008, 15090, 15021, 15020]
        .map(|port| format!("RETURN tcp -- {any} tcp dpt:{port}"))
        .into_iter()
        .chain([format!("ISTIO_IN_REDIRECT tcp -- {any}")]);
    let output = vec![
        "RETURN all -- 127.0.0.6 0.0.0.0/0".to_owned(),
        format!("{to_self} UID match 1337"),
        format!("RETURN all -- {any} ! owner UID match 1337"),
        format!("RETURN all -- {any} owner UID match 1337"),
        format!("{to_self} GID match 1337"),
        format!("RETURN all -- {any} ! owner GID match 1337"),
        format!("RETURN all -- {any} owner GID match 1337"),
        "RETURN all -- 0.0.0.0/0 127.0.0.1".to_owned(),
        format!("ISTIO_REDIRECT all -- {any}"),
    ];
    let wanted = [
        ("INPUT", Vec::new()),
        ("POSTROUTING", Vec::new()),
        ("PREROUTING", vec![format!("ISTIO_INBOUND tcp -- {any}")]),
        ("OUTPUT", vec![format!("ISTIO_OUTPUT all -- {any}")]),
        ("ISTIO_INBOUND (1 references)", inbound.collect()),
        (
            "ISTIO_IN_REDIRECT (3 references)",
            vec![format!("REDIRECT tcp -- {any} redir ports 15006")],
        ),
        ("ISTIO_OUTPUT (1 references)", output),
        ("ISTIO_REDIRECT (1 references)", vec![format!("REDIRECT tcp -- {any} redir ports 15001")]),
    ];
    let wanted = wanted.map(|(name, rows)| (name.to_owned(), rows)).into();
    assert_eq!(chains(listing), wanted, "{listing}");
}

/// With `-v` the links are shown too: what Envoy sends to the pod itself and what comes from
/// 127.0.0.6 counts on loopback only. The kubelet asks 15021, so that rule has been used.
fn counted_rules(listing: &str) {
    let chain = |name: &str| {
        let rows = listing.split("Chain ").find(|part| part.starts_with(name)).unwrap();
        lines(rows).skip(2).filter(|row| row.len() > 8).collect::<Vec<_>>()
    };
    let links: Vec<(&str, &str)> =
        chain("ISTIO_OUTPUT ").into_iter().map(|row| (row[5], row[6])).collect();
    let (here, all) = (("*", "lo"), ("*", "*"));
    assert_eq!(links, [here, here, here, all, here, here, all, all, all], "{listing}");
    let used = chain("ISTIO_INBOUND ").into_iter().find(|row| row.contains(&"dpt:15021")).unwrap();
    assert!(used[0] != "0", "{listing}");
}
