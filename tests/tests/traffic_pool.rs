//! DestinationRule: how many connections and requests, how long they live, and hosts that fail.

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use std::collections::BTreeSet;
use std::ops::Range;

use echo::{SERVICE, client, routes, server};
use ironsail_testkit::{Answer, Ask, Case, Traffic, ask, eventually, mesh_case};
use serde_json::Value;

async fn world(case: &Case) {
    let pods: Vec<String> = ["v1", "v2", "v3"].map(|v| server("echo", v, false)).into();
    let client = client("client", "team: red");
    let parts = [SERVICE, &pods[0], &pods[1], &pods[2], &client];
    echo::start(case, &parts, &["echo-v1", "echo-v2", "echo-v3", "client"]).await;
}

/// Requests to one version, or all, under this policy; no retries, unless `more` says so.
fn under(policy: &str, version: Option<&str>, more: &str) -> String {
    let subset = version.map(|v| format!(", subset: {v}")).unwrap_or_default();
    let retries = if more.is_empty() { "retries: {attempts: 0}" } else { more };
    let route =
        routes(&[&format!("{{{retries}, route: [{{destination: {{host: echo{subset}}}}}]}}")]);
    format!(
        "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: echo}}
spec:
  host: echo
  trafficPolicy: {policy}
  subsets:
  - {{name: v1, labels: {{version: v1}}}}
---{route}"
    )
}

fn v1(pool: &str) -> String {
    let policy = match pool {
        "{}" => "{loadBalancer: {simple: ROUND_ROBIN}}".to_owned(),
        pool => format!("{{connectionPool: {pool}}}"),
    };
    under(&policy, Some("v1"), "")
}

fn get(path: &str) -> Ask {
    ask(&format!("http://echo{path}"))
}

/// The connections that the answers came by, as the server saw them.
fn connections(answers: &[Answer]) -> usize {
    let peers = answers.iter().map(|a| a.body["peer"].as_str().unwrap_or_default());
    peers.collect::<BTreeSet<_>>().len()
}

fn versions(answers: &[Answer]) -> BTreeSet<&str> {
    answers.iter().map(|a| a.body["version"].as_str().unwrap_or_default()).collect()
}

#[test]
fn connections_are_limited_and_failing_hosts_are_left_out() {
    mesh_case("pool", async |case| {
        world(case).await;
        let t = Traffic::new(case, "client");
        lifetimes(&t).await;
        protocols(&t).await;
        limits(&t).await;
        retries(&t).await;
        plain_connections(&t, case).await;
        outliers(&t).await;
        local_failures(&t, case).await;
        t.done().await;
    });
}

async fn lifetimes(t: &Traffic<'_>) {
    let five = || get("/").times(5).args(&["--keep"]).status(200).version("v1");
    t.behaves(
        "connections are used again",
        &v1("{}"),
        vec![five().all("one", |all| connections(all) == 1)],
    )
    .await;
    t.behaves(
        "maxRequestsPerConnection",
        &v1("{http: {maxRequestsPerConnection: 1}}"),
        vec![five().all("one each", |all| connections(all) == 5)],
    )
    .await;
    let rests = || get("/").times(2).args(&["--keep", "--pause", "1500"]).status(200);
    t.behaves(
        "http idleTimeout",
        &v1("{http: {idleTimeout: 0.3s}}"),
        vec![rests().all("a new one after a rest", |all| connections(all) == 2)],
    )
    .await;
    t.behaves(
        "no idleTimeout so soon",
        &v1("{http: {idleTimeout: 60s}}"),
        vec![rests().all("still the same", |all| connections(all) == 1)],
    )
    .await;
    t.behaves(
        "maxConnectionDuration",
        &v1("{tcp: {maxConnectionDuration: 1s}}"),
        vec![
            get("/")
                .times(3)
                .args(&["--keep", "--pause", "1300"])
                .status(200)
                .all("a new one each time", |all| connections(all) == 3),
        ],
    )
    .await;
}

async fn protocols(t: &Traffic<'_>) {
    t.behaves("h2UpgradePolicy UPGRADE", &v1("{http: {h2UpgradePolicy: UPGRADE, maxConcurrentStreams: 100, http2KeepAlive: {interval: 5s, timeout: 5s}}}"), vec![
        get("/").status(200).reports("/protocol", "HTTP/2.0"),
    ])
    .await;
    t.behaves(
        "h2UpgradePolicy DO_NOT_UPGRADE",
        &v1("{http: {h2UpgradePolicy: DO_NOT_UPGRADE}}"),
        vec![
            get("/").status(200).reports("/protocol", "HTTP/1.1"),
            ask("h2c://echo/").status(200).reports("/protocol", "HTTP/1.1"),
        ],
    )
    .await;
    t.behaves(
        "useClientProtocol",
        &v1("{http: {useClientProtocol: true}}"),
        vec![
            get("/").status(200).reports("/protocol", "HTTP/1.1"),
            ask("h2c://echo/").status(200).reports("/protocol", "HTTP/2.0"),
        ],
    )
    .await;
}

/// Thirty slow requests, ten at a time: how many were answered and how many refused, once that is as
/// wanted; a busy machine may not send them at the same time.
async fn crowd(t: &Traffic<'_>, wanted: impl Fn(u64, u64) -> bool) {
    let args = ["http://echo/?delay=300", "--workers", "10", "--total", "30", "--rate", "3000"];
    eventually("so many of a crowd are served", async || {
        let seen = t.load(&args).await;
        let count = |status: &str| seen["statuses"][status].as_u64().unwrap_or_default();
        let (good, refused) = (count("200"), count("503"));
        if wanted(good, refused) { Ok(()) } else { Err(seen.to_string()) }
    })
    .await;
}

async fn limits(t: &Traffic<'_>) {
    let there = || vec![get("/").status(200).version("v1")];
    t.behaves("no limits", &v1("{}"), there()).await;
    crowd(t, |good, refused| (good, refused) == (30, 0)).await;
    let pool = "{tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1, maxRequestsPerConnection: 1}}";
    t.behaves("maxConnections and http1MaxPendingRequests", &v1(pool), there()).await;
    crowd(t, |good, refused| good >= 1 && refused >= 10).await;
    t.behaves("http2MaxRequests", &v1("{http: {http2MaxRequests: 2}}"), there()).await;
    crowd(t, |good, refused| good >= 1 && refused >= 10).await;
    let overload = get("/").status(200);
    t.still("and it is over when the crowd is gone", vec![overload.times(5)]).await;
}

/// The server is asked so many times when twenty failing requests come at once, each with three retries.
/// Again if not, as a busy machine may not send them at the same time.
async fn tries(t: &Traffic<'_>, key: &str, wanted: Range<u64>) {
    let mut round = 0;
    eventually(&format!("{wanted:?} tries"), async || {
        round += 1;
        let header = format!("x-count: {key}-{round}");
        let args = ["http://echo/?status=503&delay=150", "-H", &header];
        let args = [&args[..], &["--workers", "20", "--total", "20", "--rate", "5000"]].concat();
        t.load(&args).await;
        let answers = t.answers(&get(&format!("/?counted={key}-{round}"))).await;
        let count = answers[0].body["count"].as_u64().unwrap_or_default();
        if wanted.contains(&count) { Ok(()) } else { Err(format!("{count} of 80")) }
    })
    .await;
}

async fn retries(t: &Traffic<'_>) {
    let there = || vec![get("/").status(200).version("v1")];
    let again = "retries: {attempts: 3, retryOn: 5xx, backoff: 1ms}";
    t.behaves(
        "retries without limit",
        &under("{loadBalancer: {simple: RANDOM}}", Some("v1"), again),
        there(),
    )
    .await;
    tries(t, "open", 80..81).await;
    let few = "{connectionPool: {http: {maxRetries: 1}}}";
    t.behaves("maxRetries", &under(few, Some("v1"), again), there()).await;
    tries(t, "few", 20..50).await;
    let budget = "{retryBudget: {percent: 1, minRetryConcurrency: 1}}";
    t.behaves("retryBudget", &under(budget, Some("v1"), again), there()).await;
    tries(t, "budget", 20..50).await;
}

/// Opens a connection, has a line answered, and then does `what` while it is open.
async fn holding(case: &Case, what: &str) -> String {
    let line = format!("exec 3<>/dev/tcp/echo/9000; printf 'hi\\n' >&3; read -r line <&3; {what}");
    case.exec_in("client", "main", &["timeout", "30", "bash", "-c", &line]).await.stdout
}

async fn plain_connections(t: &Traffic<'_>, case: &Case) {
    let tcp = || ask("tcp://echo:9000").works();
    t.behaves("TCP without limits", &v1("{}"), vec![tcp().times(3)]).await;
    eventually("a second connection beside the first", async || {
        let second = holding(case, "env echo call tcp://echo:9000").await;
        if second.contains("version") { Ok(()) } else { Err(second) }
    })
    .await;
    t.behaves("tcp maxConnections", &v1("{tcp: {maxConnections: 1}}"), vec![tcp()]).await;
    eventually("tcp maxConnections refuses a second", async || {
        let second = holding(case, "env echo call tcp://echo:9000").await;
        let answer: Value = serde_json::from_str(&second).map_err(|_| second.clone())?;
        if answer["error"].is_string() { Ok(()) } else { Err(second) }
    })
    .await;
    t.behaves("tcp idleTimeout", &v1("{tcp: {idleTimeout: 0.5s}}"), vec![tcp()]).await;
    eventually("an idle connection is closed", async || {
        let end = holding(case, "timeout 5 cat <&3; printf 'end %s' $?").await;
        if end.contains("end 0") { Ok(()) } else { Err(end) }
    })
    .await;
}

async fn outliers(t: &Traffic<'_>) {
    let rule = |detection: &str| {
        under(
            &format!(
                "{{loadBalancer: {{simple: ROUND_ROBIN}}, outlierDetection: {{interval: 10s, baseEjectionTime: 60s, {detection}}}}}"
            ),
            None,
            "",
        )
    };
    let all = || get("/").times(12).args(&["--keep"]).status(200);
    let three = || vec![all().all("all hosts", |all| versions(all).len() == 3)];
    let failing = |query: &str| get(&format!("/?{query}")).times(12).args(&["--keep"]);
    // It fails again each time: the machine may be busy for longer than a host is left out.
    let without = |version: &'static str, query: &str| {
        let rest = all().all("without the one that fails", move |all| {
            versions(all).len() == 2 && !versions(all).contains(version)
        });
        vec![failing(query), rest]
    };
    let fail = async |query: &str| {
        t.answers(&failing(query)).await;
    };
    t.behaves(
        "outlierDetection consecutive5xxErrors",
        &rule("consecutive5xxErrors: 2, maxEjectionPercent: 100"),
        three(),
    )
    .await;
    t.still("a host that fails is left out", without("v1", "status=500&only=v1")).await;
    t.behaves(
        "outlierDetection consecutiveGatewayErrors",
        &rule("consecutiveGatewayErrors: 2, consecutive5xxErrors: 0, maxEjectionPercent: 100"),
        three(),
    )
    .await;
    fail("status=500&only=v2").await;
    t.still("500 is no error of a gateway", three()).await;
    t.still("503 is", without("v2", "status=503&only=v2")).await;
    t.behaves(
        "maxEjectionPercent",
        &rule("consecutive5xxErrors: 2, maxEjectionPercent: 34"),
        three(),
    )
    .await;
    let mut one_kept = without("v1", "status=500&only=v2");
    one_kept.insert(0, failing("status=500&only=v1"));
    t.still("of two failing hosts one is kept", one_kept).await;
    t.behaves(
        "minHealthPercent",
        &rule("consecutive5xxErrors: 2, maxEjectionPercent: 100, minHealthPercent: 90"),
        three(),
    )
    .await;
    fail("status=500&only=v1").await;
    t.still("too few healthy hosts: all are used", three()).await;
    t.behaves("outlierDetectionHttpErrorCodes", &rule("consecutive5xxErrors: 2, maxEjectionPercent: 100, outlierDetectionHttpErrorCodes: [429]"), three()).await;
    t.still("the codes that count", without("v3", "status=429&only=v3")).await;
    let soon = "{loadBalancer: {simple: ROUND_ROBIN}, outlierDetection: {consecutive5xxErrors: 2, \
        interval: 0.3s, baseEjectionTime: 5s, maxEjectionPercent: 100}}";
    t.behaves("baseEjectionTime", &under(soon, None, ""), three()).await;
    t.still("it is left out for a while", without("v1", "status=500&only=v1")).await;
    t.still("and then comes back", three()).await;
    t.behaves(
        "no outlierDetection",
        &under("{loadBalancer: {simple: ROUND_ROBIN}}", None, ""),
        three(),
    )
    .await;
    fail("status=500&only=v1").await;
    t.still("nobody is left out", three()).await;
}

/// One host that answers, one whose port is closed.
async fn local_failures(t: &Traffic<'_>, case: &Case) {
    let pod = case.wait("pod/echo-v1", "there", |_| true).await;
    let ip = pod["status"]["podIP"].as_str().expect("an address").to_owned();
    let entry = |detection: &str| {
        format!(
            "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: half}}
spec:
  hosts: [half.example]
  ports: [{{name: http, number: 80, protocol: HTTP}}]
  resolution: STATIC
  endpoints:
  - {{address: {ip}, ports: {{http: 8080}}}}
  - {{address: {ip}, ports: {{http: 9}}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: half}}
spec:
  host: half.example
  trafficPolicy:
    loadBalancer: {{simple: ROUND_ROBIN}}
    connectionPool: {{tcp: {{connectTimeout: 0.5s, tcpKeepalive: {{time: 60s, interval: 10s, probes: 3}}}}}}
{detection}---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: half}}
spec:
  hosts: [half.example]
  http: [{{retries: {{attempts: 0}}, route: [{{destination: {{host: half.example}}}}]}}]
"
        )
    };
    let gone = entry("").replace(", ports: {http: 8080}", "").replace(&ip, "192.0.2.1");
    let silent = || get("/").header("Host: half.example").status(503);
    t.behaves(
        "connectTimeout",
        &gone,
        vec![silent().all("long before the default of ten seconds", |all| all[0].millis < 6000)],
    )
    .await;
    let half = || get("/").header("Host: half.example").times(10).args(&["--keep"]);
    t.behaves(
        "a host that refuses connections",
        &entry(""),
        vec![half().all("some fail", |all| {
            all.iter().any(|a| a.status == Some(503)) && all.iter().any(|a| a.status == Some(200))
        })],
    )
    .await;
    let split = "    outlierDetection: {consecutive5xxErrors: 0, splitExternalLocalOriginErrors: true, consecutiveLocalOriginFailures: 2, interval: 10s, baseEjectionTime: 60s, maxEjectionPercent: 100}\n";
    t.behaves("consecutiveLocalOriginFailures", &entry(split), vec![half().status(200)]).await;
}
