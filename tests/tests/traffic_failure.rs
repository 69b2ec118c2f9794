//! VirtualService: timeouts, retries and faults.

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use std::cell::Cell;
use std::ops::RangeInclusive;

use echo::{SERVICE, SUBSETS, TO_V1, client, routes, server};
use ironsail_testkit::{Ask, Case, Traffic, ask, eventually, mesh_case};

fn get(path: &str) -> Ask {
    ask(&format!("http://echo{path}"))
}

/// All requests to v1.
fn v1(more: &str) -> String {
    routes(&[&format!("{{{more}, {TO_V1}}}")])
}

/// All requests to both versions.
fn both(more: &str) -> String {
    routes(&[&format!("{{{more}, route: [{{destination: {{host: echo}}}}]}}")])
}

async fn world(case: &Case) {
    let (one, two) = (server("echo", "v1", true), server("echo", "v2", false));
    let client = client("client", "team: red");
    let parts = [SERVICE, SUBSETS, &one, &two, &client];
    echo::start(case, &parts, &["echo-v1", "echo-v2", "client"]).await;
}

#[test]
fn requests_are_ended_repeated_delayed_and_aborted() {
    mesh_case("failure", async |case| {
        world(case).await;
        let t = Traffic::new(case, "client");
        timeouts(&t).await;
        attempts(&t).await;
        other_hosts(&t).await;
        faults(&t).await;
        t.done().await;
    });
}

async fn timeouts(t: &Traffic<'_>) {
    let slow = || get("/?delay=3000");
    t.behaves(
        "timeout",
        &v1("timeout: 0.3s, retries: {attempts: 0}"),
        vec![
            slow().status(504).all("soon", |all| all[0].millis < 2500),
            get("/?delay=10").status(200),
        ],
    )
    .await;
    t.behaves(
        "no timeout unless asked for",
        &v1("retries: {attempts: 0}"),
        vec![get("/?delay=1500").status(200).version("v1")],
    )
    .await;
}

/// One request that is answered with `status`; the server was asked for it so many times. Again if not:
/// what a busy machine does not do in time is not asked, or is counted later.
async fn asked(t: &Traffic<'_>, query: &str, status: u16, times: RangeInclusive<u64>) {
    thread_local!(static KEY: Cell<u32> = const { Cell::new(0) });
    eventually(&format!("{query} is asked {times:?} times"), async || {
        let key = KEY.replace(KEY.get() + 1);
        let send = get(&format!("/?{query}")).header(&format!("x-count: k{key}"));
        let answers = t.answers(&send).await;
        let count = t.answers(&get(&format!("/?counted=k{key}"))).await;
        let count = count[0].body["count"].as_u64().unwrap_or_default();
        let good = answers[0].status == Some(status) && times.contains(&count);
        if good { Ok(()) } else { Err(format!("{count} times: {answers:?}")) }
    })
    .await;
}

async fn attempts(t: &Traffic<'_>) {
    let there = || vec![get("/").status(200).version("v1")];
    let rule = v1("retries: {attempts: 3, retryOn: 5xx, backoff: 1ms}");
    t.behaves("retries attempts", &rule, there()).await;
    // The first and three more; 404 is no reason.
    asked(t, "status=500", 500, 4..=4).await;
    asked(t, "status=200", 200, 1..=1).await;
    asked(t, "status=404", 404, 1..=1).await;
    t.behaves("retries attempts 0", &v1("retries: {attempts: 0}"), there()).await;
    asked(t, "status=503", 503, 1..=1).await;
    let rule = v1("retries: {attempts: 2, retryOn: '418,gateway-error', backoff: 1ms}");
    t.behaves("retryOn with a status", &rule, there()).await;
    asked(t, "status=418", 418, 3..=3).await;
    asked(t, "status=502", 502, 3..=3).await;
    asked(t, "status=500", 500, 1..=1).await;
    let rule = v1("retries: {attempts: 2, retryOn: retriable-4xx, backoff: 1ms}");
    t.behaves("retryOn retriable-4xx", &rule, there()).await;
    asked(t, "status=409", 409, 3..=3).await;
    let rule = v1("retries: {attempts: 2, perTryTimeout: 0.2s, retryOn: 5xx, backoff: 1ms}");
    t.behaves("perTryTimeout", &rule, there()).await;
    asked(t, "delay=5000", 504, 3..=3).await;
    let rule = v1(
        "timeout: 0.5s, retries: {attempts: 20, perTryTimeout: 0.2s, retryOn: 5xx, backoff: 1ms}",
    );
    t.behaves("the timeout ends retries too", &rule, there()).await;
    asked(t, "delay=5000", 504, 2..=4).await;
    let rule = v1("retries: {attempts: 2, retryOn: 5xx, backoff: 600ms}");
    t.behaves(
        "retries backoff",
        &rule,
        vec![
            // Two pauses of up to 0.6 and 1.8 s by chance: together hardly ever below 0.05.
            get("/?status=500")
                .times(3)
                .status(500)
                .all("it waits", |all| all.iter().map(|a| a.millis).sum::<u64>() > 150),
        ],
    )
    .await;
    let rule = v1("retries: {attempts: 2, retryOn: 'unavailable', backoff: 1ms}");
    t.behaves(
        "retryOn for gRPC",
        &rule,
        vec![
            ask("grpc://echo:7070/").args(&["--grpc-code", "14"]).status(14),
            ask("grpc://echo:7070/").status(0),
        ],
    )
    .await;
}

async fn other_hosts(t: &Traffic<'_>) {
    let failing = "/?status=503&only=v2";
    let rule = both("retries: {attempts: 2, retryOn: 5xx, backoff: 1ms}");
    t.behaves(
        "a retry goes to another host",
        &rule,
        vec![get(failing).times(40).args(&["--keep"]).status(200).version("v1")],
    )
    .await;
    let rule =
        both("retries: {attempts: 1, retryOn: 5xx, backoff: 1ms, retryIgnorePreviousHosts: false}");
    t.behaves(
        "retryIgnorePreviousHosts false",
        &rule,
        vec![get(failing).times(100).args(&["--keep"]).all(
            "some meet the same host twice",
            |all| {
                all.iter().any(|a| a.status == Some(503))
                    && all.iter().any(|a| a.status == Some(200))
            },
        )],
    )
    .await;
    // Version 2 comes first for everybody; only retries are let elsewhere.
    let near = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: near}
spec:
  host: echo
  trafficPolicy:
    outlierDetection: {consecutive5xxErrors: 0, consecutiveGatewayErrors: 0}
    loadBalancer: {localityLbSetting: {enabled: true, failoverPriority: [version=v2]}}
";
    let rule =
        both("retries: {attempts: 4, retryOn: 5xx, backoff: 1ms, retryRemoteLocalities: true}");
    t.behaves(
        "retryRemoteLocalities",
        &format!("{rule}---{near}"),
        vec![
            get("/").times(20).args(&["--keep"]).status(200).version("v2"),
            get(failing).times(20).args(&["--keep"]).status(200).version("v1"),
        ],
    )
    .await;
    let rule = both("retries: {attempts: 4, retryOn: 5xx, backoff: 1ms}");
    t.behaves(
        "without retryRemoteLocalities",
        &format!("{rule}---{near}"),
        vec![get(failing).times(20).args(&["--keep"]).status(503)],
    )
    .await;
}

async fn faults(t: &Traffic<'_>) {
    t.behaves(
        "fault delay",
        &v1("fault: {delay: {fixedDelay: 0.7s, percentage: {value: 100}}}"),
        vec![get("/").status(200).version("v1").all("late", |all| all[0].millis >= 700)],
    )
    .await;
    t.behaves(
        "fault delay of no requests",
        &v1("fault: {delay: {fixedDelay: 5s, percentage: {value: 0}}}"),
        vec![
            get("/")
                .times(10)
                .status(200)
                .all("at once", |all| all.iter().all(|a| a.millis < 4000)),
        ],
    )
    .await;
    t.behaves(
        "fault abort",
        &v1("fault: {abort: {httpStatus: 418, percentage: {value: 100}}}"),
        vec![get("/").status(418).all("by the proxy", |all| all[0].body == "fault filter abort")],
    )
    .await;
    t.behaves(
        "fault abort of half",
        &v1("fault: {abort: {httpStatus: 500, percentage: {value: 50}}}"),
        vec![get("/").times(100).args(&["--keep"]).share("v1", 20..=80)],
    )
    .await;
    t.behaves(
        "fault abort with a status of gRPC",
        &v1("fault: {abort: {grpcStatus: RESOURCE_EXHAUSTED, percentage: {value: 100}}}"),
        vec![ask("grpc://echo:7070/").status(8)],
    )
    .await;
    let rule = v1(
        "fault: {delay: {fixedDelay: 0.5s, percentage: {value: 100}}, abort: {httpStatus: 503, percentage: {value: 100}}}",
    );
    t.behaves(
        "fault delay, then abort",
        &rule,
        vec![get("/").status(503).all("late", |all| all[0].millis >= 500)],
    )
    .await;
    let rule = routes(&[
        &format!(
            "{{match: [{{headers: {{end-user: {{exact: jason}}}}}}], fault: {{abort: {{httpStatus: 500, percentage: {{value: 100}}}}}}, {TO_V1}}}"
        ),
        &format!("{{{TO_V1}}}"),
    ]);
    t.behaves(
        "fault for some requests",
        &rule,
        vec![get("/").header("end-user: jason").status(500), get("/").status(200).version("v1")],
    )
    .await;
    let rule = v1(
        "fault: {abort: {httpStatus: 503, percentage: {value: 100}}}, retries: {attempts: 5, retryOn: 5xx}",
    );
    t.behaves("an abort is not retried", &rule, vec![get("/").status(503)]).await;
}
