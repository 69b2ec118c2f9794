//! DestinationRule: which host is next; subsets, ports, localities, warming up.

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use std::collections::BTreeSet;

use echo::{SERVICE, client, routes, server};
use ironsail_testkit::{Answer, Ask, Case, Traffic, ask, eventually, mesh_case};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::time::Instant;

async fn world(case: &Case) {
    let pods: Vec<String> = ["v1", "v2", "v3"].map(|v| server("echo", v, false)).into();
    let client = client("client", "team: red");
    let parts = [SERVICE, &pods[0], &pods[1], &pods[2], &client];
    echo::start(case, &parts, &["echo-v1", "echo-v2", "echo-v3", "client"]).await;
}

/// A DestinationRule for the service with this policy, and a VirtualService by which it is known when
/// the proxy has both.
fn policy(policy: &str) -> String {
    let route = routes(&["{route: [{destination: {host: echo}}]}"]);
    format!(
        "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: echo}}
spec:
  host: echo
  trafficPolicy: {policy}
---{route}"
    )
}

fn versions(answers: &[Answer]) -> Vec<&str> {
    answers.iter().map(|a| a.body["version"].as_str().unwrap_or_default()).collect()
}

fn distinct(answers: &[Answer]) -> usize {
    versions(answers).into_iter().collect::<BTreeSet<_>>().len()
}

/// Many requests on one connection, which one worker of the proxy serves.
fn many(path: &str) -> Ask {
    ask(&format!("http://echo{path}")).times(30).args(&["--keep"]).status(200)
}

#[test]
fn hosts_are_chosen_as_the_rules_say() {
    mesh_case("balance", async |case| {
        world(case).await;
        let t = Traffic::new(case, "client");
        let since = first_host(&t, case).await;
        simple(&t).await;
        hashes(&t).await;
        levels(&t).await;
        near_and_far(&t).await;
        warm(&t, case, since).await;
        t.done().await;
    });
}

async fn simple(t: &Traffic<'_>) {
    t.behaves(
        "ROUND_ROBIN",
        &policy("{loadBalancer: {simple: ROUND_ROBIN}}"),
        vec![many("/").all("each in its turn", |all| {
            versions(all).windows(3).all(|w| w.iter().collect::<BTreeSet<_>>().len() == 3)
        })],
    )
    .await;
    for kind in ["RANDOM", "LEAST_REQUEST", "LEAST_CONN", "UNSPECIFIED"] {
        let rule = policy(&format!("{{loadBalancer: {{simple: {kind}}}}}"));
        let all = many("/").times(60).all("all of them", |all| distinct(all) == 3);
        let turns = all.all("in no fixed order", |all| {
            !versions(all).windows(3).all(|w| w.iter().collect::<BTreeSet<_>>().len() == 3)
        });
        t.behaves(kind, &rule, vec![turns]).await;
    }
    // The address that the client asked is the service's, so the packet filter chooses the pod, once
    // for each connection that the proxy keeps.
    t.behaves(
        "PASSTHROUGH",
        &policy("{loadBalancer: {simple: PASSTHROUGH}}"),
        vec![ask("http://echo/").times(20).status(200)],
    )
    .await;
}

async fn hashes(t: &Traffic<'_>) {
    let hash = |key: &str| policy(&format!("{{loadBalancer: {{consistentHash: {{{key}}}}}}}"));
    let same = |all: &[Answer]| distinct(all) == 1;
    let by_header =
        |value: &str| many("/").header(&format!("x-user: {value}")).all("one host", same);
    let users = || ["a", "b", "c", "d", "e", "f", "g", "h"];
    t.behaves(
        "consistentHash by header",
        &hash("httpHeaderName: x-user"),
        users().map(by_header).into(),
    )
    .await;
    let header = |user: &str| ask("http://echo/").header(&format!("x-user: {user}"));
    spread(t, header).await;
    t.behaves(
        "requests without the header go anywhere",
        &hash("httpHeaderName: x-user"),
        vec![many("/").all("several hosts", |all| distinct(all) > 1)],
    )
    .await;
    let by_query = |value: &str| many(&format!("/?user={value}")).all("one host", same);
    t.behaves(
        "consistentHash by query",
        &hash("httpQueryParameterName: user"),
        users().map(by_query).into(),
    )
    .await;
    spread(t, |user| ask(&format!("http://echo/?user={user}"))).await;
    t.behaves(
        "consistentHash by source IP",
        &hash("useSourceIp: true"),
        vec![ask("http://echo/").times(30).status(200).all("one host", same)],
    )
    .await;
    let cookie = "httpCookie: {name: user, path: /here, ttl: 60s, attributes: [{name: SameSite, value: Strict}]}";
    t.behaves(
        "consistentHash by cookie",
        &hash(cookie),
        vec![
            ask("http://echo/")
                .times(30)
                .header("cookie: user=bob")
                .status(200)
                .all("one host", same),
            ask("http://echo/").status(200).all("a cookie is given", |all| {
                all[0].headers.get("set-cookie").is_some_and(|c| {
                    let text = c[0].to_ascii_lowercase();
                    text.starts_with("user=")
                        && ["max-age=60", "path=/here", "httponly", "samesite=strict"]
                            .iter()
                            .all(|p| text.contains(p))
                })
            }),
        ],
    )
    .await;
    let session = "httpCookie: {name: user, ttl: 0s}";
    t.behaves(
        "a cookie for the session",
        &hash(session),
        vec![ask("http://echo/").status(200).all("a cookie without an age", |all| {
            all[0]
                .headers
                .get("set-cookie")
                .is_some_and(|c| !c[0].to_ascii_lowercase().contains("max-age"))
        })],
    )
    .await;
    for algorithm in ["ringHash: {minimumRingSize: 2048}", "maglev: {tableSize: 101}"] {
        let rule = hash(&format!("httpHeaderName: x-user, {algorithm}"));
        t.behaves(
            &format!("consistentHash by {algorithm}"),
            &rule,
            vec![by_header("a"), by_header("z")],
        )
        .await;
        spread(t, header).await;
    }
}

/// Different keys reach different hosts: that thirty lead to one of three is never seen by chance.
async fn spread(t: &Traffic<'_>, ask: impl Fn(&str) -> Ask) {
    let mut seen = BTreeSet::new();
    for number in 0..30 {
        let answers = t.answers(&ask(&format!("user-{number}"))).await;
        let found = versions(&answers).into_iter().filter(|version| !version.is_empty());
        seen.extend(found.map(str::to_owned));
        if seen.len() > 1 {
            return;
        }
    }
    panic!("all keys lead to {seen:?}");
}

async fn levels(t: &Traffic<'_>) {
    let rule = |subset: &str, top: &str| {
        let subset = match subset {
            "" => String::new(),
            policy => format!(", trafficPolicy: {policy}"),
        };
        let route = routes(&["{route: [{destination: {host: echo, subset: two}}]}"]);
        format!(
            "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: echo}}
spec:
  host: echo
  trafficPolicy: {top}
  subsets:
  - {{name: two, labels: {{app: echo}}{subset}}}
---{route}"
        )
    };
    let turns = |all: &[Answer]| {
        versions(all).windows(3).all(|w| w.iter().collect::<BTreeSet<_>>().len() == 3)
    };
    let sticky = "{loadBalancer: {consistentHash: {httpHeaderName: x-user}}}";
    let user = || many("/").header("x-user: a");
    t.behaves(
        "a subset has the rule's policy",
        &rule("", sticky),
        vec![user().all("one host", |all| distinct(all) == 1)],
    )
    .await;
    t.behaves(
        "a subset's policy before the rule's",
        &rule("{loadBalancer: {simple: ROUND_ROBIN}}", sticky),
        vec![user().all("in turns", turns)],
    )
    .await;
    let ports = format!(
        "{{loadBalancer: {{simple: ROUND_ROBIN}}, portLevelSettings: [{{port: {{number: 8000}}, {}}}]}}",
        sticky.trim_start_matches('{').trim_end_matches('}').to_owned() + "}}"
    );
    let plain = format!(
        "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: echo}}
spec:
  host: echo
  trafficPolicy: {ports}
"
    );
    t.behaves(
        "portLevelSettings before the rule's",
        &plain,
        vec![
            many("/").header("x-user: a").all("in turns", turns),
            ask("http://echo:8000/")
                .times(30)
                .header("x-user: a")
                .args(&["--keep"])
                .status(200)
                .all("one host", |all| distinct(all) == 1),
        ],
    )
    .await;
}

async fn near_and_far(t: &Traffic<'_>) {
    let outliers = "outlierDetection: {consecutive5xxErrors: 2, interval: 100ms, baseEjectionTime: 60s, maxEjectionPercent: 100}";
    let first = policy(&format!(
        "{{{outliers}, loadBalancer: {{simple: ROUND_ROBIN, localityLbSetting: {{enabled: true, failoverPriority: [version=v2]}}}}}}"
    ));
    t.behaves("failoverPriority by a label", &first, vec![many("/").version("v2")]).await;
    let fail = ask("http://echo/?status=500&only=v2").times(5).args(&["--keep"]);
    t.still(
        "and elsewhere when that host fails",
        vec![fail, many("/").all("the others", |all| versions(all).iter().all(|v| *v != "v2"))],
    )
    .await;
    let off = policy(&format!(
        "{{{outliers}, loadBalancer: {{localityLbSetting: {{enabled: false, failoverPriority: [version=v2]}}}}}}"
    ));
    t.behaves(
        "localityLbSetting that is off",
        &off,
        vec![many("/").times(60).all("all", |all| distinct(all) == 3)],
    )
    .await;
    let blind = policy(
        "{loadBalancer: {localityLbSetting: {enabled: true, failoverPriority: [version=v2]}}}",
    );
    t.behaves(
        "failoverPriority without outlierDetection",
        &blind,
        vec![many("/").times(60).all("all", |all| distinct(all) == 3)],
    )
    .await;
}

/// A service of addresses, to which a host can be added by a line.
fn entry(addresses: &[&str]) -> String {
    let list: String = addresses
        .iter()
        .map(|ip| format!("  - {{address: {ip}, ports: {{http: 8080}}}}\n"))
        .collect();
    format!(
        "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: warm}}
spec:
  hosts: [warm.example]
  ports: [{{name: http, number: 80, protocol: HTTP}}]
  resolution: STATIC
  endpoints:
{list}---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: warm}}
spec:
  host: warm.example
  trafficPolicy: {{loadBalancer: {{simple: ROUND_ROBIN, warmup: {{duration: 40s, minimumPercent: 5, aggression: 1.0}}}}}}
"
    )
}

fn to_warm(times: u32) -> Ask {
    ask("http://echo/").header("Host: warm.example").times(times).args(&["--keep"])
}

async fn address(case: &Case, pod: &str) -> String {
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
    let pod = pods.get(pod).await.expect("the pod is there");
    pod.status.and_then(|s| s.pod_ip).expect("a ready pod has an address")
}

/// One host, which warms up while other things are tested; since when.
async fn first_host(t: &Traffic<'_>, case: &Case) -> Instant {
    case.apply(&entry(&[&address(case, "echo-v1").await])).await;
    t.still("one host", vec![to_warm(3).status(200).version("v1")]).await;
    Instant::now()
}

async fn warm(t: &Traffic<'_>, case: &Case, since: Instant) {
    let (old, new) = (address(case, "echo-v1").await, address(case, "echo-v2").await);
    eventually("the first host is warm", async || match since.elapsed().as_secs() {
        41.. => Ok(()),
        so_far => Err(format!("{so_far} s")),
    })
    .await;
    // A machine that is too busy may take longer than warming up does; then it is tried again.
    for _ in 0..5 {
        let start = Instant::now();
        case.apply(&entry(&[&old, &new])).await;
        let mut seen: Vec<String> = Vec::new();
        while !seen.iter().any(|v| v == "v2") && start.elapsed().as_secs() < 30 {
            let answers = t.answers(&to_warm(60)).await;
            seen = versions(&answers).into_iter().map(str::to_owned).collect();
        }
        let fresh = seen.iter().filter(|v| *v == "v2").count();
        if start.elapsed().as_secs() < 20 && fresh > 0 {
            assert!(fresh < 26, "a new host has {fresh} of 60 requests at once");
            return;
        }
        case.apply(&entry(&[&old])).await;
        t.still("one host again", vec![to_warm(5).status(200).version("v1")]).await;
    }
    panic!("the machine is too busy to see a host warm up");
}
