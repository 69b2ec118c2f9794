//! Pods with an injected sidecar, beside pods without: what goes through the mesh, what is seen in a
//! pod, and what a policy refuses.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Case, Executed, eventually, mesh_case};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

/// A test in a namespace whose pods get a sidecar.
fn in_the_mesh(name: &str, test: impl AsyncFnOnce(&Case)) {
    mesh_case(name, async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        test(case).await;
    });
}

async fn httpbin_and_curl(case: &Case) {
    case.sample("httpbin/httpbin.yaml").await;
    case.sample("curl/curl.yaml").await;
    case.ready("deployment/httpbin").await;
    case.ready("deployment/curl").await;
}

/// The one pod with this label `app`.
async fn pod(case: &Case, app: &str) -> Pod {
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
    let found = pods.list(&ListParams::default().labels(&format!("app={app}"))).await.unwrap();
    found.items.into_iter().next().unwrap()
}

/// Status code and body of a request by curl; code 0 if nothing answered.
async fn curl(case: &Case, from: &str, url: &str) -> (u16, String) {
    let run = case.exec(from, &["curl", "-s", "-m", "10", "-w", "\n%{http_code}", url]).await;
    let (body, code) = run.stdout.rsplit_once('\n').unwrap_or(("", "0"));
    (code.parse().unwrap_or(0), body.to_owned())
}

/// The same until the code is the one wanted.
async fn curl_until(case: &Case, from: &str, url: &str, wanted: u16) -> String {
    curl_until_in(case, from, url, wanted, "").await
}

/// The same until a text is in the body too.
async fn curl_until_in(case: &Case, from: &str, url: &str, wanted: u16, text: &str) -> String {
    eventually(&format!("{url} answers {wanted} with {text:?}"), async || {
        let (code, body) = curl(case, from, url).await;
        let good = code == wanted && body.contains(text);
        if good { Ok(body) } else { Err(format!("{code}: {body}")) }
    })
    .await
}

/// A command in the sidecar's container until it prints all of `parts`.
async fn shown(case: &Case, app: &str, command: &[&str], parts: &[&str]) -> String {
    eventually(&format!("{command:?} shows {parts:?}"), async || {
        let seen = in_sidecar(case, app, command).await;
        let all = parts.iter().all(|part| seen.stdout.contains(part));
        if all { Ok(seen.stdout) } else { Err(format!("{seen:?}")) }
    })
    .await
}

/// A command in the sidecar's container.
async fn in_sidecar(case: &Case, app: &str, command: &[&str]) -> Executed {
    let name = pod(case, app).await.metadata.name.unwrap();
    case.exec_in(&name, "istio-proxy", command).await
}

#[test]
fn a_request_between_two_sidecars_shows_who_sent_it() {
    in_the_mesh("headers", async |case| {
        httpbin_and_curl(case).await;
        // Until the two know each other, the client's proxy only passes things on.
        let (url, known) = ("http://httpbin:8000/headers", "X-Forwarded-Client-Cert");
        let body = curl_until_in(case, "deployment/curl", url, 200, known).await;
        let seen: Value = serde_json::from_str(&body).unwrap();
        let header = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
        let client = header("X-Forwarded-Client-Cert");
        let id =
            |account: &str| format!("spiffe://cluster.local/ns/{}/sa/{account}", case.namespace);
        assert!(client.starts_with(&format!("By={};Hash=", id("httpbin"))), "{body}");
        assert!(client.ends_with(&format!(";URI={}", id("curl"))), "{body}");
        assert_eq!(header("X-Envoy-Attempt-Count"), "1", "{body}");
        assert_eq!(header("X-Request-Id").len(), 36, "{body}");
        assert_eq!(header("X-Forwarded-Proto"), "http", "{body}");
        // By the pod's own address the application sees a neighbour, not the client.
        let body = curl_until(case, "deployment/curl", "http://httpbin:8000/ip", 200).await;
        assert!(body.contains("127.0.0.6"), "{body}");
    });
}

#[test]
fn a_pod_with_a_sidecar_has_what_people_look_for() {
    in_the_mesh("pod", async |case| {
        httpbin_and_curl(case).await;
        let found = pod(case, "httpbin").await;
        let spec = found.spec.as_ref().unwrap();
        let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let names: Vec<_> = all.map(|container| container.name.as_str()).collect();
        assert!(names.contains(&"istio-proxy") && names.contains(&"istio-init"), "{names:?}");
        let parts =
            ["virtualInbound", "virtualOutbound", "outbound|8000||httpbin.", "inbound|80||"];
        let command = ["curl", "-s", "localhost:15000/config_dump"];
        let dump = shown(case, "httpbin", &command, &parts).await;
        let dump: Value = serde_json::from_str(&dump).unwrap();
        assert!(dump["configs"].as_array().unwrap().len() >= 5);
        let parts = ["envoy_server_live", "process_resident_memory_bytes"];
        let command = ["curl", "-s", "localhost:15020/stats/prometheus"];
        shown(case, "httpbin", &command, &parts).await;
        let ready = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"];
        for port in [15020, 15021] {
            let url = format!("localhost:{port}/healthz/ready");
            shown(case, "httpbin", &[&ready[..], &[&url]].concat(), &["200"]).await;
        }
        let command = ["pilot-agent", "request", "GET", "server_info"];
        shown(case, "httpbin", &command, &["\"state\": \"LIVE\""]).await;
        let command = ["curl", "-s", "localhost:15004/debug/syncz"];
        shown(case, "httpbin", &command, &[found.metadata.name.as_deref().unwrap()]).await;
        let waited = in_sidecar(case, "httpbin", &["pilot-agent", "wait"]).await;
        assert_eq!(waited.code, 0, "{waited:?}");
    });
}

const TOOLS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: tools, labels: {app: tools}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: busybox
    command: [sleep, infinity]
    securityContext: {capabilities: {add: [NET_ADMIN]}}
";

#[test]
fn the_packet_rules_of_the_pod_are_the_ones_people_know() {
    in_the_mesh("rules", async |case| {
        case.apply(TOOLS).await;
        case.ready("pod/tools").await;
        let rules = case.exec("pod/tools", &["iptables", "-t", "nat", "-S"]).await;
        for line in [
            "-N ISTIO_INBOUND",
            "-N ISTIO_IN_REDIRECT",
            "-N ISTIO_OUTPUT",
            "-N ISTIO_REDIRECT",
            "-A PREROUTING -p tcp -j ISTIO_INBOUND",
            "-A OUTPUT -j ISTIO_OUTPUT",
            "-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15006",
            "-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001",
        ] {
            assert!(rules.stdout.lines().any(|l| l == line), "{line}: {rules:?}");
        }
    });
}

/// Not in the mesh, though its namespace is.
const OUTSIDER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: outsider, labels: {app: outsider, sidecar.istio.io/inject: 'false'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: curl, command: [sleep, infinity]}]
";

#[test]
fn plaintext_is_taken_until_a_policy_refuses_it() {
    in_the_mesh("strict", async |case| {
        case.apply(OUTSIDER).await;
        httpbin_and_curl(case).await;
        case.ready("pod/outsider").await;
        let url = "http://httpbin:8000/headers";
        let body = curl_until(case, "pod/outsider", url, 200).await;
        assert!(!body.contains("X-Forwarded-Client-Cert"), "{body}");
        curl_until(case, "deployment/curl", url, 200).await;
        case.apply(
            "{apiVersion: security.istio.io/v1, kind: PeerAuthentication, \
             metadata: {name: default}, spec: {mtls: {mode: STRICT}}}",
        )
        .await;
        curl_until(case, "pod/outsider", url, 0).await;
        curl_until_in(case, "deployment/curl", url, 200, "X-Forwarded-Client-Cert").await;
        // The application's probe still works: the pod stays ready.
        case.ready("deployment/httpbin").await;
    });
}

#[test]
fn every_protocol_passes_through_two_sidecars() {
    in_the_mesh("protocols", async |case| {
        case.sample("echo/echo.yaml").await;
        case.ready("deployment/echo").await;
        let client = OUTSIDER.replace("'false'", "'true'").replace("image: curl", "image: echo");
        case.apply(&client).await;
        case.ready("pod/outsider").await;
        for (url, status) in [
            ("http://echo/", Some(200)),
            ("h2c://echo:85/", Some(200)),
            ("grpc://echo:7070/", Some(0)),
            ("ws://echo/", None),
            ("https://echo/", Some(200)),
            ("tcp://echo:9000/", None),
            ("tls://echo:9443/", None),
            ("http://echo:8081/", Some(200)),
        ] {
            eventually(url, async || {
                let seen = case.call("pod/outsider", url).await;
                let good = seen.error.is_none() && (status.is_none() || seen.status == status);
                if good { Ok(()) } else { Err(format!("{seen:?}")) }
            })
            .await;
        }
        // A server that speaks first.
        let line = "exec 3<>/dev/tcp/echo/9001; head -n 1 <&3";
        eventually("a server that speaks first is heard", async || {
            let seen = case.exec("pod/outsider", &["timeout", "10", "bash", "-c", line]).await;
            if seen.stdout.trim().is_empty() { Err(format!("{seen:?}")) } else { Ok(()) }
        })
        .await;
    });
}

#[test]
fn a_pod_reaches_itself_by_every_name() {
    in_the_mesh("itself", async |case| {
        case.sample("httpbin/httpbin.yaml").await;
        case.ready("deployment/httpbin").await;
        let ip = pod(case, "httpbin").await.status.unwrap().pod_ip.unwrap();
        for url in ["http://httpbin:8000/get", "http://localhost/get", &format!("http://{ip}/get")]
        {
            curl_until(case, "deployment/httpbin", url, 200).await;
        }
    });
}

#[test]
fn a_namespace_outside_the_mesh_is_as_it_was() {
    mesh_case("outside", async |case| {
        httpbin_and_curl(case).await;
        assert_eq!(pod(case, "httpbin").await.spec.unwrap().containers.len(), 1);
        let body = curl_until(case, "deployment/curl", "http://httpbin:8000/headers", 200).await;
        assert!(!body.contains("X-Envoy"), "{body}");
    });
}

#[test]
fn an_envoy_that_is_killed_is_back_at_once() {
    in_the_mesh("killed", async |case| {
        httpbin_and_curl(case).await;
        let find =
            "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = envoy ] && kill -9 ${p#/proc/}; done";
        let killed = in_sidecar(case, "httpbin", &["sh", "-c", find]).await;
        curl_until(case, "deployment/curl", "http://httpbin:8000/get", 200).await;
        let name = pod(case, "httpbin").await.metadata.name.unwrap();
        println!("{killed:?}");
        let told = |log: &str| log.contains("Envoy ended: killed (SIGKILL)");
        case.log_until(&name, "istio-proxy", told).await;
    });
}

#[test]
fn a_job_with_a_sidecar_completes() {
    in_the_mesh("job", async |case| {
        case.sample("httpbin/httpbin.yaml").await;
        case.ready("deployment/httpbin").await;
        case.apply(
            "
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec:
      restartPolicy: OnFailure
      containers:
      - {name: main, image: curl, args: [-sf, -m, '10', 'http://httpbin:8000/get']}
",
        )
        .await;
        case.ready("job/once").await;
    });
}

const SPECIAL: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: special
  labels: {app: special}
  annotations:
    proxy.istio.io/config: '{proxyMetadata: {SECRET_TTL: 10s, ISTIO_META_DNS_CAPTURE: \"true\"}}'
    prometheus.io/scrape: 'true'
    prometheus.io/port: '80'
    prometheus.io/path: /robots.txt
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: httpbin}]
";

#[test]
fn a_pod_may_have_short_certificates_names_by_the_agent_and_metrics_of_its_own() {
    in_the_mesh("special", async |case| {
        case.sample("httpbin/httpbin.yaml").await;
        case.apply(SPECIAL).await;
        case.ready("deployment/httpbin").await;
        case.ready("pod/special").await;
        let full = format!("httpbin.{}.svc.cluster.local", case.namespace);
        let command = ["curl", "-s", "localhost:15020/debug/ndsz"];
        let names = shown(case, "special", &command, &["\"httpbin\"", &full]).await;
        let names: Value = serde_json::from_str(&names).unwrap();
        assert!(names["httpbin"].is_array() && names["httpbin"] == names[&*full], "{names}");
        curl_until(case, "pod/special", "http://httpbin:8000/get", 200).await;
        let command = ["curl", "-s", "localhost:15020/stats/prometheus"];
        shown(case, "special", &command, &["User-agent: *"]).await;
        eventually("the certificate is renewed again and again", async || {
            let log = case.logs("special", "istio-proxy").await;
            let made = log.matches("generated new workload certificate").count();
            if made >= 3 { Ok(()) } else { Err(log) }
        })
        .await;
        curl_until(case, "pod/special", "http://httpbin:8000/get", 200).await;
    });
}

#[test]
fn garbage_on_every_port_harms_nothing() {
    in_the_mesh("garbage", async |case| {
        case.apply(SPECIAL).await;
        case.ready("pod/special").await;
        let line = "for port in 15000 15001 15004 15006 15020 15021 15053 15090; do \
            head -c 3000 /dev/urandom | timeout 3 bash -c \"cat > /dev/tcp/127.0.0.1/$port\"; done; \
            head -c 500 /dev/urandom > /dev/udp/127.0.0.1/15053; true";
        let sent = in_sidecar(case, "special", &["bash", "-c", line]).await;
        assert_eq!(sent.code, 0, "{sent:?}");
        for url in ["localhost:15021/healthz/ready", "localhost:15020/stats/prometheus"] {
            eventually(&format!("{url} answers"), async || {
                let seen = in_sidecar(case, "special", &["curl", "-sf", "-m", "10", url]).await;
                if seen.code == 0 { Ok(()) } else { Err(format!("{seen:?}")) }
            })
            .await;
        }
        let status = pod(case, "special").await.status.unwrap();
        let statuses = status.container_statuses.into_iter().flatten();
        let all = statuses.chain(status.init_container_statuses.into_iter().flatten());
        assert!(all.into_iter().all(|s| s.restart_count == 0));
    });
}
