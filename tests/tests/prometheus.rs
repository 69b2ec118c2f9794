//! A real Prometheus scrapes a mesh with the configuration that we ship; the queries that people write,
//! and those of every panel of our dashboards, have answers. Alert rules and configuration hold.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case, repository, tool};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

const DASHBOARDS: [&str; 4] = ["mesh", "service", "workload", "control-plane"];

fn addon(name: &str) -> String {
    let path = repository().join("manifests/addons").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn program(name: &str) -> String {
    let found = tool(name).unwrap_or_else(|| panic!("no {name}: scripts/setup test brings it"));
    std::fs::canonicalize(found).unwrap().display().to_string()
}

/// The shipped configuration, with times for somebody who waits. Debian's Prometheus is built without
/// discovery in Kubernetes, so the test finds what that would find and hands it over in files.
fn configuration(files: &str) -> String {
    let mut config: Value = ironsail_yaml::parse(&addon("prometheus-scrape.yaml")).unwrap();
    for job in config["scrape_configs"].as_array_mut().unwrap() {
        let found = job.as_object_mut().unwrap().remove("kubernetes_sd_configs").unwrap();
        let role = found[0]["role"].as_str().unwrap().to_owned();
        assert!(["pod", "endpoints"].contains(&role.as_str()), "{role}");
        job["file_sd_configs"] = json!([{"files": [format!("{files}/{role}.json")]}]);
    }
    config["global"] = json!({"scrape_interval": "2s", "evaluation_interval": "2s"});
    config["rule_files"] = json!(["alerts.yaml"]);
    config.to_string()
}

/// What discovery in Kubernetes says of pods: a target for each port of a container.
fn pod_targets(pods: &[Pod]) -> Value {
    let mut groups = Vec::new();
    for pod in pods {
        let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { continue };
        let Some(ip) = &status.pod_ip else { continue };
        let mut labels = serde_json::Map::new();
        let mut label = |name: &str, value: &str| {
            labels.insert(format!("__meta_kubernetes_{name}"), value.into());
        };
        label("namespace", pod.metadata.namespace.as_deref().unwrap());
        label("pod_name", pod.metadata.name.as_deref().unwrap());
        label("pod_ip", ip);
        for (key, value) in pod.metadata.annotations.iter().flatten() {
            let name: String =
                key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            label(&format!("pod_annotation_{name}"), value);
        }
        let inits = spec.init_containers.iter().flatten();
        for container in spec.containers.iter().chain(inits) {
            for port in container.ports.iter().flatten() {
                let mut labels = labels.clone();
                let name = port.name.clone().unwrap_or_default();
                labels.insert("__meta_kubernetes_pod_container_port_name".into(), name.into());
                let address = format!("{ip}:{}", port.container_port);
                groups.push(json!({"targets": [address], "labels": labels}));
            }
        }
    }
    groups.into()
}

/// The same of the endpoints of the control plane's Service.
fn endpoint_targets(pods: &[Pod]) -> Value {
    let of = |pod: &Pod| {
        pod.metadata.labels.as_ref().and_then(|l| l.get("app")).map(String::as_str)
            == Some("istiod")
    };
    let addresses =
        pods.iter().filter(|pod| of(pod)).filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
    let groups = addresses.map(|ip| {
        json!({"targets": [format!("{ip}:15014")], "labels": {
            "__meta_kubernetes_namespace": SYSTEM,
            "__meta_kubernetes_service_name": "istiod",
            "__meta_kubernetes_endpoint_port_name": "http-monitoring"}})
    });
    groups.collect()
}

async fn targets(case: &Case) -> (Value, Value) {
    let list = async |namespace: &str| {
        let pods: Api<Pod> = Api::namespaced(case.client.clone(), namespace);
        pods.list(&ListParams::default()).await.unwrap().items
    };
    (pod_targets(&list(&case.namespace).await), endpoint_targets(&list(SYSTEM).await))
}

#[test]
fn configuration_and_alert_rules_are_taken_by_promtool() {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(&folder.path().display().to_string());
    std::fs::write(folder.path().join("prometheus.yaml"), config).unwrap();
    std::fs::write(folder.path().join("alerts.yaml"), addon("alerts.yaml")).unwrap();
    for (what, file) in [("config", "prometheus.yaml"), ("rules", "alerts.yaml")] {
        let mut promtool = ironsail_sys::exec::command(program("promtool"));
        let run = promtool.current_dir(&folder).args(["check", what, file]).output().unwrap();
        assert!(run.status.success(), "promtool check {what}: {run:?}");
    }
}

async fn install(case: &Case) {
    let (pods, endpoints) = targets(case).await;
    let objects = [
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "prometheus", "namespace": SYSTEM},
            "data": {"prometheus.yaml": configuration("/etc/prometheus"), "alerts.yaml": addon("alerts.yaml"),
                "pod.json": pods.to_string(), "endpoints.json": endpoints.to_string()}}),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "prometheus", "namespace": SYSTEM, "labels": {"app": "prometheus"}},
            "spec": {"terminationGracePeriodSeconds": 0,
                "volumes": [{"name": "config", "configMap": {"name": "prometheus"}},
                    {"name": "data", "emptyDir": {}}],
                "containers": [{"name": "prometheus", "image": "busybox",
                    "command": [program("prometheus"), "--config.file=/etc/prometheus/prometheus.yaml",
                        "--storage.tsdb.path=/prometheus", "--web.listen-address=:9090"],
                    "ports": [{"containerPort": 9090}],
                    "readinessProbe": {"httpGet": {"path": "/-/ready", "port": 9090}, "periodSeconds": 1},
                    "volumeMounts": [{"name": "config", "mountPath": "/etc/prometheus"},
                        {"name": "data", "mountPath": "/prometheus"}]}]}}),
    ];
    for object in objects {
        case.try_apply(object).await.unwrap();
    }
    case.beside(SYSTEM).ready("pod/prometheus").await;
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The rows of an answer, or why there is none.
async fn query(case: &Case, text: &str) -> Result<Vec<Value>, String> {
    let path = format!("/api/v1/query?query={}", encode(text));
    let page = case.page_of("prometheus", 9090, "GET", &path, "").await;
    let answer: Value = serde_json::from_str(&page.body).map_err(|e| format!("{text}: {e}"))?;
    match answer["status"].as_str() {
        Some("success") => Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default()),
        _ => panic!("{text}: {answer}"),
    }
}

/// Some of everything: requests that are answered, refused and missing, gRPC, and connections.
async fn traffic(case: &Case) {
    for path in ["get", "status/404", "status/503"] {
        let url = format!("http://httpbin:8000/{path}");
        case.exec("deployment/curl", &["curl", "-s", "-m", "10", "-o", "/dev/null", &url]).await;
    }
    let host = format!("echo.{}.svc.cluster.local", case.namespace);
    case.call("deployment/echo", &format!("grpc://{host}:7070")).await;
    case.call("deployment/echo", &format!("tcp://{host}:9000")).await;
    // The page calls others as well.
    let host = format!("http://{host}/");
    case.call("deployment/echo", &host).await;
}

/// Every query of a dashboard with the panel it is of.
fn panels(board: &str, values: &[(&str, &str)]) -> Vec<(String, String)> {
    let board: Value = serde_json::from_str(&addon(&format!("dashboards/{board}.json"))).unwrap();
    let mut found = Vec::new();
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let mut text = target["expr"].as_str().unwrap().to_owned();
            for (name, value) in values {
                text = text.replace(&format!("${name}"), value);
            }
            assert!(!text.contains('$'), "a variable has no value: {text}");
            found.push((format!("{} / {}", board["title"], panel["title"]), text));
        }
    }
    assert!(found.len() > 8, "{board}");
    found
}

/// Queries of the metrics that users know by name.
const KNOWN: [&str; 12] = [
    "istio_build{component=\"pilot\"}",
    "istio_build{component=\"proxy\"}",
    "sum(istio_requests_total{reporter=\"source\",connection_security_policy=\"unknown\"})",
    "sum(istio_requests_total{reporter=\"destination\",connection_security_policy=\"mutual_tls\"})",
    "sum by (response_code) (rate(istio_requests_total[1m]))",
    "istio_request_duration_milliseconds_bucket",
    "histogram_quantile(0.99, sum by (le) (rate(istio_request_duration_milliseconds_bucket[1m])))",
    "istio_request_messages_total",
    "istio_response_messages_total",
    "envoy_cluster_upstream_rq_retry",
    "envoy_cluster_upstream_rq_retry_success",
    "istio_tcp_connections_opened_total",
];

#[test]
fn a_prometheus_answers_for_the_mesh_and_for_every_panel() {
    mesh_case("prometheus", async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        for sample in ["httpbin/httpbin.yaml", "curl/curl.yaml", "echo/echo.yaml"] {
            case.sample(sample).await;
        }
        for name in ["httpbin", "curl", "echo"] {
            case.ready(&format!("deployment/{name}")).await;
        }
        install(case).await;
        for text in KNOWN {
            answers(case, text, text).await;
        }
        counts_are_those_of_the_proxy(case).await;
        let host = format!("httpbin.{}.svc.cluster.local", case.namespace);
        for board in DASHBOARDS {
            let values = [
                ("__rate_interval", "1m"),
                ("service", host.as_str()),
                ("client", ".*"),
                ("workload", "httpbin"),
                ("namespace", case.namespace.as_str()),
            ];
            for (panel, text) in panels(board, &values) {
                match board {
                    // A control plane at rest has no times of pushes.
                    "control-plane" => understood(case, &text).await,
                    _ => answers(case, &panel, &text).await,
                }
            }
        }
    });
}

/// A query that Prometheus takes, with or without rows.
async fn understood(case: &Case, text: &str) {
    eventually(text, async || query(case, text).await.map(|_| ())).await;
}

/// Waits for rows, with traffic meanwhile.
async fn answers(case: &Case, what: &str, text: &str) {
    eventually(&format!("{what}: {text}"), async || {
        let rows = query(case, text).await?;
        let number = |row: &Value| row["value"][1].as_str().is_some_and(|value| value != "NaN");
        if rows.iter().any(number) {
            return Ok(());
        }
        traffic(case).await;
        Err(format!("{} rows", rows.len()))
    })
    .await;
}

/// Nothing is scraped twice: the sum is what the client's proxy shows.
async fn counts_are_those_of_the_proxy(case: &Case) {
    let text = "sum(istio_requests_total{reporter=\"source\",source_workload=\"curl\"})";
    eventually("Prometheus and the proxy agree", async || {
        let url = "localhost:15090/stats/prometheus";
        let seen = case.exec("deployment/curl", &["curl", "-s", url]).await.stdout;
        let own = seen.lines().filter(|line| {
            line.starts_with("istio_requests_total{") && line.contains("reporter=\"source\"")
        });
        let own: f64 = own.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        let rows = query(case, text).await?;
        let sum = rows.first().and_then(|row| row["value"][1].as_str()?.parse::<f64>().ok());
        if sum == Some(own) && own > 0.0 { Ok(()) } else { Err(format!("{sum:?} and {own}")) }
    })
    .await;
}
