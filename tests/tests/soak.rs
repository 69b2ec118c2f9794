//! Everything around the requests is replaced while they go on: the control plane is away, certificates
//! are renewed every five seconds, pods are rolled, Envoy is killed. None but the last may cost a
//! request, and nothing may grow.
//!
//! One short round of it by default; `IRONSAIL_SOAK` is a number of seconds for which rounds go on, with
//! longer steps and with a look at memory (`make soak`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ironsail_sys::env::Env;
use ironsail_testkit::{Case, Codes, Load, SYSTEM, eventually, mesh_case_within};
use serde_json::json;
use tokio::time::Instant;

const HTTPBIN: &str = "http://httpbin:8000/get";
const CLIENT: &str = "deployment/curl";

/// Certificates that are valid for a minute and renewed after five seconds: a slow machine may be late.
/// They run out when the control plane is away for longer, and have to come back with it.
const ROTATING: &str = "{proxyMetadata: {SECRET_TTL: 60s, SECRET_GRACE_PERIOD_RATIO: '0.92'}}";

/// How long each step of a round is.
struct Plan {
    total: Duration,
    away: Duration,
    rolls: u32,
    certificates: usize,
}

impl Plan {
    fn from_environment() -> Self {
        let seconds = Env::of_process().var("IRONSAIL_SOAK").and_then(|text| text.parse().ok());
        match seconds {
            Some(seconds) => Self {
                total: Duration::from_secs(seconds),
                away: Duration::from_secs(60),
                rolls: 10,
                certificates: 12,
            },
            None => Self {
                total: Duration::ZERO,
                away: Duration::from_secs(3),
                rolls: 2,
                certificates: 2,
            },
        }
    }

    fn is_short(&self) -> bool {
        self.total.is_zero()
    }
}

#[test]
fn nothing_is_lost_and_nothing_grows_while_everything_is_replaced() {
    let plan = Plan::from_environment();
    let longest = plan.total + Duration::from_secs(600);
    mesh_case_within(longest, "soak", async |case| {
        start(case).await;
        // Long before the end, because the control plane is another process after it.
        away(case, &plan).await;
        let begin = Instant::now();
        let mut before = None;
        for round in 1.. {
            rotate(case, &plan).await;
            roll(case, &plan).await;
            kill_envoy(case, &plan).await;
            change_configuration(case).await;
            let now = memory(case);
            say(&format!("round {round}, {} s: {now:?}", begin.elapsed().as_secs()));
            // The first rounds fill caches and pools.
            if round == 2 {
                before = Some(now.clone());
            }
            if begin.elapsed() >= plan.total {
                if let Some(before) = &before {
                    compare(before, &now);
                }
                break;
            }
        }
        if !plan.is_short() {
            away(case, &plan).await;
        }
    });
}

fn say(text: &str) {
    eprintln!("soak: {text}");
}

async fn start(case: &Case) {
    let labels = json!({"istio-injection": "enabled"});
    let object = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": case.namespace, "labels": labels}});
    case.try_apply(object).await.unwrap();
    for (app, image, port) in [("rotating", "httpbin", 80), ("sender", "curl", 9999)] {
        let command = if image == "curl" { json!(["sleep", "infinity"]) } else { json!(null) };
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": app,
                "labels": {"app": app}, "annotations": {"proxy.istio.io/config": ROTATING}},
            "spec": {"terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": image, "command": command}]}});
        case.try_apply(pod).await.unwrap();
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": app},
            "spec": {"selector": {"app": app}, "ports": [{"name": "http", "port": port}]}});
        case.try_apply(service).await.unwrap();
    }
    case.sample("httpbin/httpbin.yaml").await;
    stop_late(case);
    case.sample("curl/curl.yaml").await;
    for what in ["deployment/httpbin", CLIENT, "pod/rotating", "pod/sender"] {
        case.ready(what).await;
    }
    answers(case, CLIENT, HTTPBIN).await;
    answers(case, "pod/sender", "http://rotating/get").await;
}

/// Kubernetes stops an application and tells its clients at the same time, so pods that must not lose
/// requests serve on until their clients know.
fn stop_late(case: &Case) {
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "httpbin",
        "lifecycle": {"preStop": {"sleep": {"seconds": 3}}}}]}}}});
    case.kubectl_says(&["patch", "deployment/httpbin", "--patch", &patch.to_string()]);
}

/// Waits until the client's proxy knows the one pod that stays: without a control plane it would not hear
/// of the end of another one.
async fn settled(case: &Case) {
    eventually("the client knows the last pod only", async || {
        let pods = case.kubectl_says(&["get", "pods", "-l", "app=httpbin", "-o", "json"]);
        let pods: serde_json::Value = serde_json::from_str(&pods).unwrap();
        let stays = |pod: &&serde_json::Value| pod["metadata"]["deletionTimestamp"].is_null();
        let pods: Vec<_> = pods["items"].as_array().unwrap().iter().filter(stays).collect();
        let addresses: Vec<_> = pods.iter().map(|pod| pod["status"]["podIP"].as_str()).collect();
        let [Some(address)] = addresses[..] else { return Err(format!("{addresses:?}")) };
        let wanted = format!("{address}:80");
        let seen = case.exec(CLIENT, &["curl", "-s", "localhost:15000/clusters"]).await;
        let hosts: BTreeSet<&str> = seen
            .stdout
            .lines()
            .filter(|line| line.starts_with("outbound|8000||httpbin."))
            .filter_map(|line| line.split("::").nth(1).filter(|host| host.ends_with(":80")))
            .collect();
        if hosts.iter().eq([&wanted.as_str()]) { Ok(()) } else { Err(format!("{hosts:?}")) }
    })
    .await;
}

async fn answers(case: &Case, from: &str, url: &str) {
    eventually(&format!("{url} answers"), async || {
        let seen = case.exec(from, &["curl", "-sf", "-m", "10", "-o", "/dev/null", url]).await;
        if seen.code == 0 { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

#[track_caller]
fn all_answered(what: &str, codes: &Codes) {
    say(&format!("{what}: {codes:?}"));
    assert!(codes.keys().eq([&200]), "{what}: {codes:?}");
}

fn scale_control_plane(case: &Case, replicas: u32) {
    let replicas = format!("--replicas={replicas}");
    case.kubectl_says(&["-n", SYSTEM, "scale", "deployment/istiod", &replicas]);
}

/// The control plane is gone, and then another one is there.
async fn away(case: &Case, plan: &Plan) {
    settled(case).await;
    let codes = case
        .under_load(CLIENT, HTTPBIN, async |load: &Load<'_>| {
            scale_control_plane(case, 0);
            eventually("the control plane is gone", async || {
                let args = ["-n", SYSTEM, "get", "pods", "-l", "app=istiod", "-o", "name"];
                let left = case.kubectl_says(&args);
                if left.is_empty() { Ok(()) } else { Err(left) }
            })
            .await;
            let gone = Instant::now();
            while gone.elapsed() < plan.away {
                load.goes_on(100).await;
            }
            scale_control_plane(case, 1);
            case.istiod().await;
            load.goes_on(100).await;
        })
        .await;
    all_answered("the control plane is away", &codes);
}

/// How often a pod's agent got a certificate.
async fn certificates(case: &Case, pod: &str) -> usize {
    let log = case.logs(pod, "istio-proxy").await;
    log.matches("generated new workload certificate").count()
}

async fn rotate(case: &Case, plan: &Plan) {
    // What ran out while the control plane was away is there again.
    answers(case, "pod/sender", "http://rotating/get").await;
    let codes = case
        .under_load("pod/sender", "http://rotating/get", async |_: &Load<'_>| {
            let count =
                async || (certificates(case, "rotating").await, certificates(case, "sender").await);
            let (server, client) = count().await;
            let begin = Instant::now();
            loop {
                let now = count().await;
                if now.0 >= server + plan.certificates && now.1 >= client + plan.certificates {
                    break;
                }
                let late = begin.elapsed() > Duration::from_secs(180);
                assert!(!late, "certificates so far: {now:?} after {:?}", (server, client));
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
        .await;
    all_answered("certificates are renewed", &codes);
}

async fn roll(case: &Case, plan: &Plan) {
    let codes = case
        .under_load(CLIENT, HTTPBIN, async |_: &Load<'_>| {
            for number in 0..plan.rolls {
                // `kubectl rollout restart` refuses a second one within a second.
                let annotations = json!({"rolled": format!("{number} {:?}", Instant::now())});
                let patch =
                    json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
                case.kubectl_says(&["patch", "deployment/httpbin", "-p", &patch.to_string()]);
                case.ready("deployment/httpbin").await;
            }
        })
        .await;
    all_answered("the pod is rolled", &codes);
}

/// Kills Envoy and prints how many milliseconds later it is ready again.
const KILL: &str = "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = envoy ] && old=${p#/proc/}; done; \
    begin=$(date +%s%N); kill -9 $old; \
    while kill -0 $old 2>/dev/null; do :; done; \
    until curl -sf -m 1 -o /dev/null localhost:15021/healthz/ready; do sleep 0.02; done; \
    echo $(( ($(date +%s%N) - begin) / 1000000 ))";

async fn kill_envoy(case: &Case, plan: &Plan) {
    // Of the rotating pod: the others are watched for growing.
    let killed = case.exec_in("rotating", "istio-proxy", &["bash", "-c", KILL]).await;
    say(&format!("Envoy is back after {} ms", killed.stdout.trim()));
    let took: u64 = killed.stdout.trim().parse().unwrap_or_else(|_| panic!("{killed:?}"));
    let log = case.logs("rotating", "istio-proxy").await;
    assert!(log.contains("Envoy ended: killed (SIGKILL)"), "{log}");
    // A machine that compiles or tests beside this has no clock to go by.
    assert!(plan.is_short() || took < 2_000, "Envoy was back after {took} ms only");
    answers(case, "pod/sender", "http://rotating/get").await;
}

/// Routes come and go, so that the control plane and all proxies have something to keep and to free.
async fn change_configuration(case: &Case) {
    let codes = case
        .under_load(CLIENT, HTTPBIN, async |load: &Load<'_>| {
            for number in 0..20 {
                let object = json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
                    "metadata": {"name": "churn"}, "spec": {"hosts": ["httpbin"], "http": [{
                        "name": format!("churn-{number}"), "timeout": format!("{}s", 30 + number),
                        "route": [{"destination": {"host": "httpbin"}}]}]}});
                case.try_apply(object).await.unwrap();
                load.goes_on(10).await;
            }
            case.kubectl_says(&["delete", "virtualservice", "churn"]);
        })
        .await;
    all_answered("routes change", &codes);
}

/// Resident memory in MiB by program: of the client's sidecar, which lives through all rounds, and of
/// the control plane.
fn memory(case: &Case) -> BTreeMap<String, u64> {
    let list = "for p in /proc/[0-9]*; do [ -r $p/status ] && \
        echo $(cat $p/comm) $(sed -n 's/^VmRSS:[[:space:]]*//p' $p/status); done; true";
    let sidecar = ["exec", CLIENT, "-c", "istio-proxy", "--", "sh", "-c", list];
    let control = ["-n", SYSTEM, "exec", "deployment/istiod", "--", "sh", "-c", list];
    let mut found = BTreeMap::new();
    for args in [&sidecar[..], &control[..]] {
        for line in case.kubectl_says(args).lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [
                name @ ("envoy" | "pilot-agent" | "pilot-discovery" | "pilot-discover"),
                size,
                "kB",
            ] = words[..]
            else {
                continue;
            };
            found.insert(name.to_owned(), size.parse::<u64>().unwrap() / 1024);
        }
    }
    assert_eq!(found.len(), 3, "Envoy, the agent and the control plane: {found:?}");
    found
}

fn compare(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) {
    for (name, size) in now {
        let most = before[name] + before[name] / 5 + 4;
        assert!(*size <= most, "{name} grew from {} to {size} MiB", before[name]);
    }
}
