//! Sidecars in pods that have an address of each family: both are intercepted, and both carry mutual
//! TLS.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;

use ironsail_testkit::{Answer, Case, SYSTEM, Shared, case_on, eventually, mesh_on};
use serde_json::{Value, json};

static DUAL: Shared = Shared::new(|_| ["--dual-stack", "--nodes", "2"].map(str::to_owned).to_vec());

/// As the mesh is told that its pods have both.
const MESH: &str = "
defaultConfig:
  discoveryAddress: istiod.istio-system.svc:15012
  proxyMetadata: {ISTIO_DUAL_STACK: 'true'}
rootNamespace: istio-system
trustDomain: cluster.local
";

async fn start(case: &Case) {
    let patch = json!({"data": {"mesh": MESH}}).to_string();
    case.kubectl_says(&["-n", SYSTEM, "patch", "configmap", "istio", "-p", &patch]);
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": case.namespace, "labels": {"istio-injection": "enabled"}}});
    case.try_apply(object).await.unwrap();
    case.injects("ISTIO_DUAL_STACK").await;
    for (name, node) in [("server", "node-1"), ("client", "node-2")] {
        let args = ["serve", "--http", "8080", "--tcp", "9000"];
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "echo", "args": args,
                    "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}]}});
        case.try_apply(pod).await.unwrap();
    }
    for (name, families) in [("v4", json!(["IPv4"])), ("v6", json!(["IPv6"]))] {
        service(case, name, &json!({"ipFamilies": families, "ipFamilyPolicy": "SingleStack"}))
            .await;
    }
    service(case, "both", &json!({"ipFamilyPolicy": "RequireDualStack"})).await;
    for what in ["pod/server", "pod/client"] {
        case.ready(what).await;
    }
}

async fn service(case: &Case, name: &str, more: &Value) {
    let mut spec = json!({"selector": {"app": "server"}, "ports": [
        {"name": "http", "port": 80, "targetPort": 8080}, {"name": "tcp", "port": 9000}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let object =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    case.try_apply(object).await.unwrap();
}

/// Asks until the answer is one from behind the sidecar.
async fn ask(case: &Case, url: &str, test: impl Fn(&Answer) -> bool) -> Answer {
    eventually(url, async || {
        let seen = case.call_with("pod/client", url, &["--timeout", "5000"]).await.pop().unwrap();
        if seen.error.is_none() && test(&seen) { Ok(seen) } else { Err(format!("{seen:?}")) }
    })
    .await
}

fn vouched(seen: &Answer) -> bool {
    seen.status == Some(200) && seen.body["headers"]["x-forwarded-client-cert"].is_array()
}

/// From where the application was asked.
fn peer(seen: &Answer) -> IpAddr {
    let peer: std::net::SocketAddr = seen.body["peer"].as_str().unwrap().parse().unwrap();
    peer.ip().to_canonical()
}

fn addresses(list: &Value) -> Vec<IpAddr> {
    let one = |item: &Value| item["ip"].as_str().or(item.as_str()).unwrap().parse().unwrap();
    list.as_array().into_iter().flatten().map(one).collect()
}

#[test]
fn both_families_pass_through_sidecars() {
    case_on(mesh_on(&DUAL), "dual", async |case| {
        start(case).await;
        for name in ["v4", "v6", "both"] {
            let seen = ask(case, &format!("http://{name}/"), vouched).await;
            assert!(["127.0.0.6", "::6"].contains(&&*peer(&seen).to_string()), "{name}: {seen:?}");
            ask(case, &format!("tcp://{name}:9000/"), |_| true).await;
        }
        // By every address of a service, and of the pod itself.
        let both = case.wait("service/both", "there", |_| true).await;
        let ips = addresses(&both["spec"]["clusterIPs"]);
        assert_eq!(ips.len(), 2, "{both}");
        for ip in ips {
            let url = format!("http://{}/", std::net::SocketAddr::new(ip, 80));
            ask(case, &url, vouched).await;
        }
        let server =
            case.wait("pod/server", "addressed", |p| p["status"]["podIPs"].is_array()).await;
        for ip in addresses(&server["status"]["podIPs"]) {
            let url = format!("http://{}/", std::net::SocketAddr::new(ip, 8080));
            let passthrough = if ip.is_ipv6() { "::6" } else { "127.0.0.6" };
            let seen = ask(case, &url, |seen| seen.status == Some(200)).await;
            assert_eq!(peer(&seen).to_string(), passthrough, "{url}: {seen:?}");
        }
        intercepted(case).await;
        strict(case).await;
    });
}

/// The rules of both families, and Envoy on both.
async fn intercepted(case: &Case) {
    for program in ["iptables", "ip6tables"] {
        let rules = case.exec("pod/server", &[program, "-t", "nat", "-S"]).await;
        for line in ["-A PREROUTING -p tcp -j ISTIO_INBOUND", "-A OUTPUT -j ISTIO_OUTPUT"] {
            assert!(rules.stdout.lines().any(|l| l == line), "{program}: {line}: {rules:?}");
        }
    }
    let listening = case.exec("pod/server", &["ss", "-ntl"]).await.stdout;
    for port in [15001, 15006] {
        let ends = format!(":{port}");
        let v6 = |line: &&str| {
            let at = line.split_whitespace().nth(3).unwrap_or_default();
            at.ends_with(&ends) && (at.starts_with('[') || at.starts_with('*'))
        };
        assert!(listening.lines().any(|line| v6(&line)), "{port}: {listening}");
    }
}

/// Plaintext is refused on both.
async fn strict(case: &Case) {
    let outsider = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger",
            "labels": {"sidecar.istio.io/inject": "false"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [
            {"name": "main", "image": "echo", "command": ["sleep", "infinity"]}]}});
    case.try_apply(outsider).await.unwrap();
    case.ready("pod/stranger").await;
    case.apply(
        "{apiVersion: security.istio.io/v1, kind: PeerAuthentication, \
         metadata: {name: default}, spec: {mtls: {mode: STRICT}}}",
    )
    .await;
    for name in ["v4", "v6"] {
        let url = format!("http://{name}/");
        eventually(&format!("{url} is refused"), async || {
            let seen = case.call("pod/stranger", &url).await;
            if seen.error.is_some() { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        ask(case, &url, vouched).await;
    }
}
