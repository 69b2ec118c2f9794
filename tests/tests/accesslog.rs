//! Access logs of both ends of a request: the fields people know, what Telemetry makes of them, and
//! records for a collector.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

/// The mesh's configuration as it is installed, with more lines.
async fn configure(case: &Case, more: &str) {
    let mesh = format!(
        "defaultConfig:\n  discoveryAddress: istiod.{SYSTEM}.svc:15012\n\
         rootNamespace: {SYSTEM}\ntrustDomain: cluster.local\n{more}"
    );
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "istio", "namespace": SYSTEM}, "data": {"mesh": mesh}});
    case.try_apply(object).await.unwrap();
}

async fn pod(case: &Case, app: &str) -> Pod {
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
    let found = pods.list(&ListParams::default().labels(&format!("app={app}"))).await.unwrap();
    found.items.into_iter().next().unwrap()
}

async fn address(case: &Case, app: &str) -> String {
    pod(case, app).await.status.unwrap().pod_ip.unwrap()
}

async fn log(case: &Case, app: &str) -> String {
    case.logs(&pod(case, app).await.metadata.name.unwrap(), "istio-proxy").await
}

/// One request with a path of its own, so that its lines can be told from others.
async fn request(case: &Case, path: &str) -> Result<(), String> {
    let url = format!("http://httpbin:8000{path}");
    let seen = case.exec("deployment/curl", &["curl", "-s", "-m", "30", &url]).await;
    if seen.code == 0 { Ok(()) } else { Err(format!("{seen:?}")) }
}

/// The lines of both ends about a path, once both have one. Each try is a request of its own, as
/// configuration takes its time.
async fn lines(case: &Case, path: &str, is_wanted: impl Fn(&[String; 2]) -> bool) -> [String; 2] {
    let mut tries = 0;
    eventually(&format!("lines about {path}"), async || {
        tries += 1;
        let path = format!("{path}{}try={tries}", if path.contains('?') { "&" } else { "?" });
        request(case, &path).await?;
        let two = eventually_two(case, &path).await.ok_or_else(|| "no lines yet".to_owned())?;
        if is_wanted(&two) { Ok(two) } else { Err(two.join("\n")) }
    })
    .await
}

async fn eventually_two(case: &Case, path: &str) -> Option<[String; 2]> {
    // Envoy writes its log once a second.
    for _ in 0..25 {
        let both = [log(case, "curl").await, log(case, "httpbin").await];
        let find = |text: &String| {
            text.lines()
                .find(|line| line.contains(path) && !line.contains("kube-probe"))
                .map(str::to_owned)
        };
        if let (Some(client), Some(server)) = (find(&both[0]), find(&both[1])) {
            return Some([client, server]);
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    None
}

#[test]
fn both_ends_log_a_request_as_the_mesh_and_telemetry_say() {
    mesh_case("accesslog", async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        configure(case, "accessLogFile: /dev/stdout\naccessLogEncoding: JSON\n").await;
        for sample in ["httpbin/httpbin.yaml", "curl/curl.yaml", "collector/collector.yaml"] {
            case.sample(sample).await;
        }
        for name in ["httpbin", "curl", "collector"] {
            case.ready(&format!("deployment/{name}")).await;
        }
        json_fields(case).await;
        text_line(case).await;
        by_telemetry(case).await;
        records(case).await;
        let page = case.page(15014, "/metrics").await.body;
        let mut rejects = page.lines().filter(|l| l.starts_with("pilot_total_xds_rejects"));
        assert!(rejects.all(|line| line.ends_with(" 0.0") || line.ends_with(" 0")), "{page}");
    });
}

/// Field by field, at both ends of one request.
async fn json_fields(case: &Case) {
    let read = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    // The proxies may hear of each other a moment later.
    let known = |two: &[String; 2]| {
        two.iter().all(|line| line.starts_with('{') && read(line)["response_code"] == 200)
            && read(&two[0])["upstream_cluster"].to_string().contains("outbound|8000||httpbin")
            && read(&two[1])["requested_server_name"].is_string()
    };
    let [client, server] = lines(case, "/headers", known).await;
    let (client, server) = (read(&client), read(&server));
    let (curl, httpbin) = (address(case, "curl").await, address(case, "httpbin").await);
    let outbound = format!("outbound|8000||httpbin.{}.svc.cluster.local", case.namespace);
    let sni = format!("outbound_.8000_._.httpbin.{}.svc.cluster.local", case.namespace);
    for (side, line) in [("client", &client), ("server", &server)] {
        let fields = line.as_object().unwrap();
        assert_eq!(fields.len(), 24, "{line:#}");
        for (name, value) in [
            ("authority", json!("httpbin:8000")),
            ("bytes_received", json!(0)),
            ("connection_termination_details", Value::Null),
            ("method", json!("GET")),
            ("protocol", json!("HTTP/1.1")),
            ("response_code", json!(200)),
            ("response_code_details", json!("via_upstream")),
            ("response_flags", json!("-")),
            ("route_name", json!("default")),
            ("upstream_transport_failure_reason", Value::Null),
            ("x_forwarded_for", Value::Null),
        ] {
            assert_eq!(fields[name], value, "{name} of the {side}: {line:#}");
        }
        for name in ["start_time", "user_agent", "request_id", "upstream_service_time"] {
            assert!(fields[name].is_string(), "{name} of the {side}: {line:#}");
        }
        assert!(fields["duration"].is_u64() && fields["bytes_sent"].as_u64() > Some(0), "{line:#}");
    }
    let starts = |line: &Value, name: &str, with: &str| {
        let text = line[name].as_str().unwrap_or_default();
        assert!(text.starts_with(with), "{name} is {text}, not {with}…: {line:#}");
    };
    assert_eq!(client["request_id"], server["request_id"]);
    assert_eq!(client["upstream_cluster"], outbound);
    assert_eq!(server["upstream_cluster"], "inbound|80||");
    assert_eq!(client["requested_server_name"], Value::Null);
    assert_eq!(server["requested_server_name"], sni);
    starts(&client, "downstream_remote_address", &format!("{curl}:"));
    starts(&client, "upstream_host", &format!("{httpbin}:"));
    starts(&client, "upstream_local_address", &format!("{curl}:"));
    assert!(client["downstream_local_address"].as_str().unwrap().ends_with(":8000"));
    // The server sees the connection that the client's proxy made.
    assert_eq!(server["downstream_remote_address"], client["upstream_local_address"]);
    assert_eq!(server["upstream_host"], client["upstream_host"]);
    starts(&server, "upstream_local_address", "127.0.0.6:");
    starts(&server, "downstream_local_address", &format!("{httpbin}:"));
}

async fn text_line(case: &Case) {
    configure(case, "accessLogFile: /dev/stdout\n").await;
    let is_text =
        |two: &[String; 2]| two.iter().all(|line| line.starts_with('[') && line.contains(" 404 "));
    let [client, server] = lines(case, "/status/404", is_text).await;
    let outbound = format!("outbound|8000||httpbin.{}.svc.cluster.local", case.namespace);
    for (line, cluster) in [(client, outbound.as_str()), (server, "inbound|80||")] {
        assert!(line.contains(" HTTP/1.1\" 404 - via_upstream - \"-\" 0 "), "{line}");
        assert!(line.contains(&format!(" {cluster} ")) && line.ends_with(" default"), "{line}");
    }
}

fn telemetry(name: &str, logging: &Value) -> Value {
    json!({"apiVersion": "telemetry.istio.io/v1", "kind": "Telemetry",
        "metadata": {"name": name}, "spec": {"accessLogging": logging}})
}

/// What Telemetry says about the builtin provider: only failures, and only at the server.
async fn by_telemetry(case: &Case) {
    let only = json!([
        {"providers": [{"name": "envoy"}], "match": {"mode": "CLIENT"}, "disabled": true},
        {"providers": [{"name": "envoy"}], "match": {"mode": "SERVER"},
         "filter": {"expression": "response.code >= 400"}},
    ]);
    case.try_apply(telemetry("logs", &only)).await.unwrap();
    let mut tries = 0;
    eventually("only the server logs, and only failures", async || {
        tries += 1;
        let (good, bad) = (format!("/get?good={tries}"), format!("/status/404?bad={tries}"));
        request(case, &good).await?;
        request(case, &bad).await?;
        let seen = eventually("the failure at the server", async || {
            let server = log(case, "httpbin").await;
            if server.contains(&bad) { Ok(server) } else { Err("not yet".to_owned()) }
        })
        .await;
        let client = log(case, "curl").await;
        match seen.contains(&good) || client.contains(&bad) || client.contains(&good) {
            false => Ok(()),
            true => Err("too much is logged".to_owned()),
        }
    })
    .await;
}

/// Log records for OpenTelemetry, with attributes of one's own.
async fn records(case: &Case) {
    let host = format!("collector.{}.svc.cluster.local", case.namespace);
    let provider = format!(
        "extensionProviders:\n- name: records\n  envoyOtelAls:\n    service: {host}\n    \
         port: 4317\n    logFormat: {{labels: {{code: \"%RESPONSE_CODE%\"}}}}\n"
    );
    configure(case, &provider).await;
    let all = json!([{"providers": [{"name": "records"}]}]);
    case.try_apply(telemetry("logs", &all)).await.unwrap();
    let collector = ["curl", "-s", "localhost:9411/logs"];
    eventually("a record of a request", async || {
        request(case, "/status/418").await?;
        let seen = case.exec("deployment/collector", &collector).await.stdout;
        let records: Vec<Value> = serde_json::from_str(&seen).unwrap_or_default();
        let found = records.iter().any(|record| {
            let body = record["body"].as_str().unwrap_or_default();
            record["attributes"]["code"] == "418" && body.contains("GET /status/418")
        });
        if found { Ok(()) } else { Err(seen.chars().take(500).collect::<String>()) }
    })
    .await;
}
