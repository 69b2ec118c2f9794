//! The standard metrics of sidecars, compared label by label and count by count with what was sent.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use ironsail_testkit::{Case, eventually, mesh_case};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

/// The labels that people's dashboards and alerts are written for.
const LABELS: [&str; 25] = [
    "connection_security_policy",
    "destination_app",
    "destination_canonical_revision",
    "destination_canonical_service",
    "destination_cluster",
    "destination_principal",
    "destination_service",
    "destination_service_name",
    "destination_service_namespace",
    "destination_version",
    "destination_workload",
    "destination_workload_namespace",
    "grpc_response_status",
    "reporter",
    "request_protocol",
    "response_code",
    "response_flags",
    "source_app",
    "source_canonical_revision",
    "source_canonical_service",
    "source_cluster",
    "source_principal",
    "source_version",
    "source_workload",
    "source_workload_namespace",
];

type Labels = BTreeMap<String, String>;

/// All series of a proxy whose name starts with `istio_`.
struct Metrics(Vec<(String, Labels, f64)>);

impl Metrics {
    fn parse(text: &str) -> Self {
        let mut all = Vec::new();
        for line in text.lines().filter(|line| line.starts_with("istio_")) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.trim_end_matches('}').split("\",").filter(|l| !l.is_empty());
            let labels = labels.map(|pair| {
                let (key, value) = pair.split_once("=\"").unwrap();
                (key.to_owned(), value.trim_end_matches('"').to_owned())
            });
            all.push((name.to_owned(), labels.collect(), value.parse().unwrap()));
        }
        Self(all)
    }

    /// The sum of all series of `name` with these labels.
    fn sum(&self, name: &str, wanted: &[(&str, &str)]) -> f64 {
        self.matching(name, wanted).map(|(_, _, value)| value).sum()
    }

    fn matching<'a>(
        &'a self,
        name: &'a str,
        wanted: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a (String, Labels, f64)> {
        self.0.iter().filter(move |(n, labels, _)| {
            n == name
                && wanted.iter().all(|(key, value)| labels.get(*key).is_some_and(|v| v == value))
        })
    }

    fn names(&self, name: &str) -> Vec<String> {
        self.matching(name, &[]).map(|(_, labels, _)| format!("{labels:?}")).collect()
    }
}

async fn pod(case: &Case, app: &str) -> String {
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
    let found = pods.list(&ListParams::default().labels(&format!("app={app}"))).await.unwrap();
    found.items.into_iter().next().unwrap().metadata.name.unwrap()
}

/// What a proxy shows on one of its ports.
async fn metrics_at(case: &Case, app: &str, port: u16) -> Metrics {
    let url = format!("localhost:{port}/stats/prometheus");
    let seen = case.exec_in(&pod(case, app).await, "istio-proxy", &["curl", "-s", &url]).await;
    Metrics::parse(&seen.stdout)
}

/// Waits until the sum of a metric is what was sent.
async fn counted(case: &Case, app: &str, name: &str, labels: &[(&str, &str)], wanted: f64) {
    eventually(&format!("{name}{labels:?} of {app} is {wanted}"), async || {
        let metrics = metrics_at(case, app, 15090).await;
        match metrics.sum(name, labels) {
            seen if (seen - wanted).abs() < f64::EPSILON => Ok(()),
            seen => Err(format!("{seen}; {:#?}", metrics.names(name))),
        }
    })
    .await;
}

async fn curl(case: &Case, args: &[&str]) -> String {
    let command = [&["curl", "-s", "-m", "60"], args].concat();
    case.exec("deployment/curl", &command).await.stdout
}

async fn code(case: &Case, args: &[&str]) -> String {
    let command = [&["-o", "/dev/null", "-w", "%{http_code}"], args].concat();
    curl(case, &command).await
}

/// What a request by curl in a deployment's pod prints, once the text is in it; in small letters.
async fn heard(case: &Case, from: &str, args: &[&str], text: &str) -> String {
    eventually(&format!("{args:?} answers with {text}"), async || {
        let seen = case.exec(from, &[&["curl", "-s", "-m", "60"], args].concat()).await;
        let said = seen.stdout.to_lowercase();
        if said.contains(text) { Ok(said) } else { Err(format!("{seen:?}")) }
    })
    .await
}

/// No proxy of the mesh refused what it was sent.
async fn no_rejects(case: &Case) {
    let page = case.page(15014, "/metrics").await.body;
    let rejects: Vec<&str> =
        page.lines().filter(|line| line.starts_with("pilot_total_xds_rejects")).collect();
    assert!(
        rejects.iter().all(|line| line.ends_with(" 0.0") || line.ends_with(" 0")),
        "{rejects:?}"
    );
}

const OUTSIDE: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: outside}
spec:
  selector: {matchLabels: {app: outside}}
  template:
    metadata: {labels: {app: outside}, annotations: {sidecar.istio.io/inject: \"false\"}}
    spec:
      containers:
      - {name: httpbin, image: kennethreitz/httpbin, command: [httpbin], ports: [{containerPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: nobody}
spec:
  selector: {app: nobody}
  ports: [{name: http, port: 80}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: faults}
spec:
  hosts: [httpbin]
  http:
  - match: [{uri: {prefix: /status/418}}]
    fault: {abort: {percentage: {value: 100}, httpStatus: 555}}
    route: [{destination: {host: httpbin}}]
  - match: [{uri: {prefix: /delay}}]
    timeout: 0.5s
    route: [{destination: {host: httpbin}}]
  - route: [{destination: {host: httpbin}}]
";

#[test]
fn every_request_and_connection_is_counted_with_istio_s_labels() {
    mesh_case("metrics", async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        for sample in ["httpbin/httpbin.yaml", "curl/curl.yaml", "echo/echo.yaml"] {
            case.sample(sample).await;
        }
        case.apply(OUTSIDE).await;
        for name in ["httpbin", "curl", "echo", "outside"] {
            case.ready(&format!("deployment/{name}")).await;
        }
        requests(case).await;
        failures(case).await;
        strangers(case).await;
        grpc(case).await;
        connections(case).await;
        changes(case).await;
        no_rejects(case).await;
    });
}

/// Both sides of plain requests: the whole set of labels, and the histograms beside.
async fn requests(case: &Case) {
    let n = &case.namespace;
    let host = format!("httpbin.{n}.svc.cluster.local");
    // Until both ends know each other, requests are counted with other labels.
    eventually("the two proxies know each other", async || {
        code(case, &["http://httpbin:8000/headers"]).await;
        for (app, reporter) in [("curl", "source"), ("httpbin", "destination")] {
            let known = [
                ("reporter", reporter),
                ("response_code", "200"),
                ("destination_service", host.as_str()),
                ("destination_workload", "httpbin"),
                ("source_workload", "curl"),
            ];
            let metrics = metrics_at(case, app, 15090).await;
            if metrics.sum("istio_requests_total", &known) < 1.0 {
                return Err(format!("{:#?}", metrics.names("istio_requests_total")));
            }
        }
        Ok(())
    })
    .await;
    // A code that no other request has, as one of those before may be counted later.
    for _ in 0..20 {
        assert_eq!(code(case, &["http://httpbin:8000/status/207"]).await, "207");
    }
    for _ in 0..3 {
        assert_eq!(code(case, &["http://httpbin:8000/status/404"]).await, "404");
    }
    let source =
        [("reporter", "source"), ("destination_service", host.as_str()), ("response_code", "207")];
    counted(case, "curl", "istio_requests_total", &source, 20.0).await;
    let principal = |account: &str| format!("spiffe://cluster.local/ns/{n}/sa/{account}");
    let (client, server) = (principal("curl"), principal("httpbin"));
    for (app, reporter, security) in
        [("curl", "source", "unknown"), ("httpbin", "destination", "mutual_tls")]
    {
        let not_found = [("reporter", reporter), ("response_code", "404")];
        counted(case, app, "istio_requests_total", &not_found, 3.0).await;
        let metrics = metrics_at(case, app, 15020).await;
        let (_, seen, _) = metrics.matching("istio_requests_total", &not_found).next().unwrap();
        assert_eq!(seen.keys().collect::<Vec<_>>(), LABELS, "the label set is Istio's");
        let wanted = [
            ("connection_security_policy", security),
            ("destination_app", "httpbin"),
            ("destination_canonical_revision", "v1"),
            ("destination_canonical_service", "httpbin"),
            ("destination_cluster", "Kubernetes"),
            ("destination_principal", &server),
            ("destination_service", &host),
            ("destination_service_name", "httpbin"),
            ("destination_service_namespace", n),
            ("destination_version", "v1"),
            ("destination_workload", "httpbin"),
            ("destination_workload_namespace", n),
            ("grpc_response_status", ""),
            ("reporter", reporter),
            ("request_protocol", "http"),
            ("response_code", "404"),
            ("response_flags", "-"),
            ("source_app", "curl"),
            ("source_canonical_revision", "latest"),
            ("source_canonical_service", "curl"),
            ("source_cluster", "Kubernetes"),
            ("source_principal", &client),
            ("source_version", "unknown"),
            ("source_workload", "curl"),
            ("source_workload_namespace", n),
        ];
        for (label, value) in wanted {
            assert_eq!(seen[label], value, "{label} of {seen:#?}");
        }
        for histogram in
            ["istio_request_duration_milliseconds", "istio_request_bytes", "istio_response_bytes"]
        {
            // Envoy shows histograms after its next flush.
            counted(case, app, &format!("{histogram}_count"), &not_found, 3.0).await;
        }
        let metrics = metrics_at(case, app, 15090).await;
        assert!(metrics.sum("istio_response_bytes_sum", &not_found) > 0.0);
        assert!((metrics.sum("istio_build", &[("component", "proxy")]) - 1.0).abs() < 0.1);
    }
}

/// What never reached a server, or was refused on the way.
async fn failures(case: &Case) {
    let once = async |args: &[&str], code: &str, flags: &str| {
        // Without an answer curl says 000, and the proxy 0.
        let wanted = if code == "0" { "000" } else { code };
        let labels = [("reporter", "source"), ("response_code", code), ("response_flags", flags)];
        eventually(&format!("{code} with {flags}"), async || {
            // Again each time: the rule, or the service, may be known a moment later.
            let seen = self::code(case, args).await;
            if seen != wanted {
                return Err(seen);
            }
            let metrics = metrics_at(case, "curl", 15090).await;
            match metrics.sum("istio_requests_total", &labels) > 0.0 {
                true => Ok(()),
                false => Err(format!("{:#?}", metrics.names("istio_requests_total"))),
            }
        })
        .await;
    };
    once(&["http://nobody/"], "503", "UH").await;
    once(&["http://httpbin:8000/status/418"], "555", "FI").await;
    once(&["http://httpbin:8000/delay/3"], "504", "UT").await;
    // A client that goes away.
    once(&["-m", "0.2", "http://echo/?delay=5000"], "0", "DC").await;
}

/// A client outside the mesh has no name, whatever it says; servers outside hear nothing of us.
async fn strangers(case: &Case) {
    let said = ["-H", "x-envoy-peer-metadata-id: liar", "-H", "x-envoy-peer-metadata: CgA="];
    let plain = [
        ("reporter", "destination"),
        ("connection_security_policy", "none"),
        ("source_principal", "unknown"),
        ("source_workload", "unknown"),
    ];
    let before = metrics_at(case, "httpbin", 15090).await.sum("istio_requests_total", &plain);
    let command = [&["-i"], &said[..], &["http://httpbin:8000/headers"]].concat();
    let seen = heard(case, "deployment/outside", &command, "200 ok").await;
    assert!(!seen.contains("peer-metadata"), "{seen}");
    counted(case, "httpbin", "istio_requests_total", &plain, before + 1.0).await;
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
    let outside = pods.get(&pod(case, "outside").await).await.unwrap();
    let address = outside.status.unwrap().pod_ip.unwrap();
    let url = format!("http://{address}/headers");
    let seen = heard(case, "deployment/curl", &[&url], "user-agent").await;
    assert!(!seen.contains("peer-metadata"), "{seen}");
    let through = [
        ("reporter", "source"),
        ("response_code", "200"),
        ("destination_service_name", "PassthroughCluster"),
        ("destination_service", address.as_str()),
    ];
    counted(case, "curl", "istio_requests_total", &through, 1.0).await;
    // Between members the application sees nothing of it either.
    let args = ["-i", "http://httpbin:8000/headers"];
    let seen = heard(case, "deployment/curl", &args, "200 ok").await;
    assert!(!seen.contains("peer-metadata"), "{seen}");
}

/// gRPC has its status, and messages are counted beside requests.
async fn grpc(case: &Case) {
    let from = "deployment/echo";
    let host = format!("echo.{}.svc.cluster.local", case.namespace);
    let url = format!("grpc://{host}:7070");
    let answers = async |code: u16| {
        eventually(&format!("gRPC answers with {code}"), async || {
            let args = ["--grpc-code", &code.to_string(), "--timeout", "60000"];
            let answer = case.call_with(from, &url, &args).await;
            if answer[0].status == Some(code) { Ok(()) } else { Err(format!("{answer:?}")) }
        })
        .await;
    };
    answers(0).await;
    let is_grpc = [("request_protocol", "grpc"), ("grpc_response_status", "0")];
    for reporter in ["source", "destination"] {
        let labels = [&is_grpc[..], &[("reporter", reporter)]].concat();
        eventually(&format!("{reporter} counts the request and its messages"), async || {
            let seen = metrics_at(case, "echo", 15090).await;
            let names = ["requests", "request_messages", "response_messages"];
            let sums = names.map(|name| seen.sum(&format!("istio_{name}_total"), &labels));
            if sums.iter().all(|sum| *sum >= 1.0) { Ok(()) } else { Err(format!("{sums:?}")) }
        })
        .await;
    }
    answers(5).await;
    for reporter in ["source", "destination"] {
        let labels =
            [("reporter", reporter), ("request_protocol", "grpc"), ("grpc_response_status", "5")];
        counted(case, "echo", "istio_requests_total", &labels, 1.0).await;
    }
}

/// Connections are counted at both ends, with their bytes.
async fn connections(case: &Case) {
    let host = format!("echo.{}.svc.cluster.local", case.namespace);
    let url = format!("tcp://{host}:9000");
    let answer = case.call_with("deployment/echo", &url, &["-d", "0123456789"]).await;
    assert!(answer[0].error.is_none(), "{answer:?}");
    for (reporter, security) in [("source", "unknown"), ("destination", "mutual_tls")] {
        let labels = [
            ("reporter", reporter),
            ("request_protocol", "tcp"),
            ("destination_service", host.as_str()),
            ("destination_workload", "echo"),
            ("source_workload", "echo"),
            ("connection_security_policy", security),
        ];
        for name in ["opened", "closed"] {
            let name = format!("istio_tcp_connections_{name}_total");
            counted(case, "echo", &name, &labels, 1.0).await;
        }
        eventually(&format!("{reporter} counts the bytes"), async || {
            let metrics = metrics_at(case, "echo", 15090).await;
            let received = metrics.sum("istio_tcp_received_bytes_total", &labels);
            let sent = metrics.sum("istio_tcp_sent_bytes_total", &labels);
            let good = received >= 11.0 && sent > received;
            if good { Ok(()) } else { Err(format!("{received} {sent}")) }
        })
        .await;
    }
}

const TELEMETRY: &str = "
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: own}
spec:
  metrics:
  - providers: [{name: prometheus}]
    overrides:
    - match: {metric: REQUEST_COUNT, mode: CLIENT}
      tagOverrides:
        request_method: {value: request.method}
        source_principal: {operation: REMOVE}
        destination_port: {value: string(destination.port)}
    - match: {metric: RESPONSE_SIZE}
      disabled: true
";

/// Listeners change under the counts: what was counted stays, and labels of one's own come in.
async fn changes(case: &Case) {
    let before = metrics_at(case, "curl", 15090).await;
    let labels = [("reporter", "source"), ("response_code", "200")];
    let sum = before.sum("istio_requests_total", &labels);
    case.apply(TELEMETRY).await;
    let own = [("reporter", "source"), ("request_method", "PUT")];
    let mut sent = 0.0;
    let seen = eventually("a label of one's own", async || {
        assert_eq!(code(case, &["-X", "PUT", "http://httpbin:8000/anything"]).await, "200");
        sent += 1.0;
        let metrics = metrics_at(case, "curl", 15090).await;
        let found = metrics.matching("istio_requests_total", &own).next().cloned();
        found.ok_or_else(|| "none yet".to_owned())
    })
    .await;
    assert_eq!(seen.1["source_principal"], "", "dropped: {seen:?}");
    assert_eq!(seen.1["destination_port"], "8000", "{seen:?}");
    // Nothing is lost by the new listeners, whichever counted.
    counted(case, "curl", "istio_requests_total", &labels, sum + sent).await;
    let bytes = [("reporter", "source"), ("response_code", "404")];
    let size = metrics_at(case, "curl", 15090).await.sum("istio_response_bytes_count", &bytes);
    assert_eq!(code(case, &["http://httpbin:8000/status/404"]).await, "404");
    counted(case, "curl", "istio_requests_total", &bytes, 4.0).await;
    counted(case, "curl", "istio_response_bytes_count", &bytes, size).await;
}
