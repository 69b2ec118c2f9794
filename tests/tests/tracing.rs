//! Traces: one connected trace through all of bookinfo, in each protocol, and what Telemetry changes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case};
use serde_json::{Value, json};

/// The mesh's configuration with providers of all protocols that lead to the collector.
async fn configure(case: &Case) {
    let host = format!("collector.{}.svc.cluster.local", case.namespace);
    let mesh = format!(
        "defaultConfig:\n  discoveryAddress: istiod.{SYSTEM}.svc:15012\n\
         rootNamespace: {SYSTEM}\ntrustDomain: cluster.local\n\
         extensionProviders:\n\
         - {{name: zipkin, zipkin: {{service: {host}, port: 9411}}}}\n\
         - {{name: grpc, opentelemetry: {{service: {host}, port: 4317}}}}\n\
         - {{name: http, opentelemetry: {{service: {host}, port: 4318, http: {{path: /v1/traces, timeout: 5s}}}}}}\n"
    );
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "istio", "namespace": SYSTEM}, "data": {"mesh": mesh}});
    case.try_apply(object).await.unwrap();
}

async fn telemetry(case: &Case, tracing: &Value) {
    let object = json!({"apiVersion": "telemetry.istio.io/v1", "kind": "Telemetry",
        "metadata": {"name": "traces"}, "spec": {"tracing": [tracing]}});
    case.try_apply(object).await.unwrap();
}

async fn spans(case: &Case) -> Vec<Value> {
    let run = case.exec("deployment/collector", &["curl", "-s", "localhost:9411/spans"]).await;
    serde_json::from_str(&run.stdout).unwrap_or_default()
}

async fn page(case: &Case, query: &str, headers: &[&str]) -> Result<(), String> {
    let url = format!("http://productpage:9080/productpage?{query}");
    let mut command = vec!["curl", "-s", "-m", "30", "-o", "/dev/null"];
    headers.iter().for_each(|header| command.extend(["-H", header]));
    command.push(&url);
    let seen = case.exec("deployment/curl", &command).await;
    if seen.code == 0 { Ok(()) } else { Err(format!("{seen:?}")) }
}

/// The services of the largest trace in which every span but one has its parent.
fn connected(spans: &[Value], protocol: &str) -> BTreeSet<String> {
    let text = |span: &Value, key: &str| span[key].as_str().unwrap_or_default().to_owned();
    let of: Vec<&Value> = spans.iter().filter(|span| span["protocol"] == protocol).collect();
    let traces: BTreeSet<String> = of.iter().map(|span| text(span, "trace")).collect();
    let mut best = BTreeSet::new();
    for trace in traces {
        let mine: Vec<_> = of.iter().filter(|span| text(span, "trace") == trace).collect();
        let ids: BTreeSet<String> = mine.iter().map(|span| text(span, "id")).collect();
        let roots = mine.iter().filter(|span| !ids.contains(&text(span, "parent"))).count();
        let services: BTreeSet<String> = mine.iter().map(|span| text(span, "service")).collect();
        if roots == 1 && services.len() > best.len() {
            best = services;
        }
    }
    best
}

async fn one_trace(case: &Case, provider: &str, protocol: &str) {
    telemetry(
        case,
        &json!({"providers": [{"name": provider}], "randomSamplingPercentage": 100,
        "customTags": {"flavour": {"literal": {"value": "salt"}}}}),
    )
    .await;
    let wanted: BTreeSet<String> = ["curl", "productpage", "details", "reviews", "ratings"]
        .map(|app| format!("{app}.{}", case.namespace))
        .into();
    let found = eventually(&format!("a connected trace by {protocol}"), async || {
        page(case, "u=normal", &[]).await?;
        let found = spans(case).await;
        let seen = connected(&found, protocol);
        if wanted.is_subset(&seen) { Ok(found) } else { Err(format!("{seen:?}")) }
    })
    .await;
    let of: Vec<&Value> = found.iter().filter(|span| span["protocol"] == protocol).collect();
    let host = format!("productpage.{}.svc.cluster.local:9080/*", case.namespace);
    // The first requests may have failed.
    let entry = of
        .iter()
        .find(|span| span["name"] == host.as_str() && span["tags"]["http.status_code"] == "200");
    let entry = entry.unwrap_or_else(|| panic!("no good span is called {host}: {of:#?}"));
    let tags = &entry["tags"];
    assert_eq!(tags["flavour"], "salt", "{entry:#}");
    assert_eq!(tags["istio.namespace"], case.namespace.as_str(), "{entry:#}");
    assert_eq!(tags["http.method"], "GET", "{entry:#}");
}

#[test]
fn a_request_through_bookinfo_is_one_trace_in_every_protocol() {
    mesh_case("tracing", async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        configure(case).await;
        for sample in
            ["bookinfo/platform/kube/bookinfo.yaml", "curl/curl.yaml", "collector/collector.yaml"]
        {
            case.sample(sample).await;
        }
        for name in
            ["productpage-v1", "details-v1", "reviews-v3", "ratings-v1", "curl", "collector"]
        {
            case.ready(&format!("deployment/{name}")).await;
        }
        one_trace(case, "zipkin", "zipkin").await;
        one_trace(case, "grpc", "otlp-grpc").await;
        one_trace(case, "http", "otlp-http").await;
        switched_off(case).await;
        let page = case.page(15014, "/metrics").await.body;
        let mut rejects = page.lines().filter(|l| l.starts_with("pilot_total_xds_rejects"));
        assert!(rejects.all(|line| line.ends_with(" 0.0") || line.ends_with(" 0")), "{page}");
    });
}

/// Without sampling only what asks for it is traced; where reporting is off nobody reports.
async fn switched_off(case: &Case) {
    let host = format!("productpage.{}", case.namespace);
    telemetry(case, &json!({"providers": [{"name": "zipkin"}], "randomSamplingPercentage": 0}))
        .await;
    let mut tries = 0;
    eventually("only what the client wants is traced", async || {
        tries += 1;
        let (not, wished) = (format!("mark=not{tries}."), format!("mark=wish{tries}."));
        page(case, &not, &[]).await?;
        page(case, &wished, &[&format!("x-client-trace-id: wish{tries}")]).await?;
        let found =
            marked(case, &wished).await.ok_or_else(|| "the wish was not traced".to_owned())?;
        match found.iter().any(|span| is_marked(span, &not)) {
            false => Ok(()),
            true => Err("traced without a wish".to_owned()),
        }
    })
    .await;
    let off = json!({"providers": [{"name": "zipkin"}], "randomSamplingPercentage": 100});
    telemetry(case, &off).await;
    let object = json!({"apiVersion": "telemetry.istio.io/v1", "kind": "Telemetry",
        "metadata": {"name": "page"}, "spec": {"selector": {"matchLabels": {"app": "productpage"}},
        "tracing": [{"match": {"mode": "SERVER"}, "disableSpanReporting": true}]}});
    case.try_apply(object).await.unwrap();
    eventually("a server that reports nothing", async || {
        tries += 1;
        let mark = format!("mark=off{tries}.");
        page(case, &mark, &[]).await?;
        let found = marked(case, &mark).await.ok_or_else(|| "nothing was traced".to_owned())?;
        let trace = found.iter().find(|span| is_marked(span, &mark)).unwrap()["trace"].clone();
        // The page calls others in the same trace, by the same proxy.
        let mine: Vec<Value> =
            spans(case).await.into_iter().filter(|s| s["trace"] == trace).collect();
        let of_page = mine.iter().filter(|span| span["service"] == host.as_str());
        let (server, client): (Vec<&Value>, Vec<&Value>) = of_page.partition(|span| {
            let cluster = span["tags"]["upstream_cluster"].as_str().unwrap_or_default();
            cluster.starts_with("inbound")
        });
        match (client.is_empty(), server.is_empty()) {
            (false, true) => Ok(()),
            (true, _) => Err("client spans are missing".to_owned()),
            (false, false) => Err("there are server spans".to_owned()),
        }
    })
    .await;
}

fn is_marked(span: &Value, mark: &str) -> bool {
    span["tags"]["http.url"].as_str().is_some_and(|url| url.contains(mark))
}

/// All spans, once there is one of the marked request; none if there is none for a while. Proxies send
/// their spans every few seconds.
async fn marked(case: &Case, mark: &str) -> Option<Vec<Value>> {
    let begin = tokio::time::Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        let found = spans(case).await;
        if found.iter().any(|span| is_marked(span, mark)) {
            return Some(found);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    None
}
