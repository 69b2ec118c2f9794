//! Every port of the control plane and of the agent, tried by a pod of another namespace that is not in
//! the mesh and by one that is: what is open is meant to be, and tells no secrets. What a sidecar may do
//! on its node, and who runs without one though it should not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{AttachParams, DeleteParams};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

/// The one who is attacked: a pod with a sidecar, and a gateway.
const TARGETS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: target}
---
apiVersion: v1
kind: Pod
metadata: {name: target, labels: {app: target, sidecar.istio.io/inject: 'true'}}
spec:
  serviceAccountName: target
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080,9999'], ports: [{containerPort: 8080}]}]
---
apiVersion: v1
kind: Pod
metadata:
  name: edge
  labels: {istio: edge, sidecar.istio.io/inject: 'true'}
  annotations: {inject.istio.io/templates: gateway}
spec:
  serviceAccountName: target
  terminationGracePeriodSeconds: 0
  containers: [{name: istio-proxy, image: auto}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict}
spec: {mtls: {mode: STRICT}}
";

/// Those who try: eve outside of the mesh, carol in it, both with a token of their own.
fn attackers(namespace: &str) -> String {
    let pod = |name: &str, inject: bool| {
        format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}, sidecar.istio.io/inject: '{inject}'}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: echo
    command: [sleep, infinity]
    volumeMounts: [{{name: token, mountPath: /var/run/secrets/own}}]
  volumes:
  - name: token
    projected: {{sources: [{{serviceAccountToken: {{audience: istio-ca, path: token}}}}]}}
---"
        )
    };
    pod("eve", false) + &pod("carol", true)
}

/// Words for scripts: a status, `000` if there is no answer.
const WORDS: &str = r#"
get() { curl -sk -o /dev/null -m 20 -w '%{http_code}\n' --path-as-is "$@"; }
own() { get -H "Authorization: Bearer $(cat /var/run/secrets/own/token)" "$@"; }
udp() { exec 3<>/dev/udp/$1/$2; printf '\1\2\1\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1' >&3; timeout 2 head -c 1 <&3 | wc -c; exec 3>&-; }
"#;

struct Attack<'a> {
    case: &'a Case,
    /// The attackers' namespace.
    other: String,
}

impl Attack<'_> {
    async fn script(&self, namespace: &str, pod: &str, container: &str, script: &str) -> String {
        let pods: Api<Pod> = Api::namespaced(self.case.client.clone(), namespace);
        let how = AttachParams::default().container(container).stdout(true).stderr(false);
        let script = format!("{WORDS}\n{script}");
        let mut process = pods.exec(pod, ["bash", "-c", &script], &how).await.unwrap();
        let mut said = String::new();
        process.stdout().unwrap().read_to_string(&mut said).await.unwrap();
        said
    }

    /// Every line of `table`, a question and the answer, as seen by an attacker.
    async fn table(&self, attacker: &str, ip: &str, table: &[(&str, &str)]) {
        let lines: Vec<String> = table.iter().map(|(ask, _)| ask.replace("IP", ip)).collect();
        let said = self.script(&self.other, attacker, "main", &lines.join("\n")).await;
        let got: Vec<&str> = said.lines().map(str::trim).collect();
        let wrong: Vec<String> = table
            .iter()
            .enumerate()
            .filter(|(i, (_, wanted))| !got.get(*i).is_some_and(|got| wanted.contains(*got)))
            .map(|(i, (ask, wanted))| format!("{attacker}: {ask}: {:?}, not {wanted}", got.get(i)))
            .collect();
        assert!(wrong.is_empty() && got.len() == table.len(), "{}\n{said}", wrong.join("\n"));
    }

    async fn ip(&self, namespace: &str, pod: &str) -> String {
        let pods: Api<Pod> = Api::namespaced(self.case.client.clone(), namespace);
        pods.get(pod).await.unwrap().status.unwrap().pod_ip.unwrap()
    }
}

#[test]
fn what_is_open_is_meant_to_be() {
    mesh_case("attack-ports", async |case| {
        let other = format!("{}-other", case.namespace);
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}});
        case.try_apply(space).await.unwrap();
        case.apply(TARGETS).await;
        case.apply(&attackers(&other)).await;
        let attack = Attack { case, other };
        let beside = case.beside(&attack.other);
        for pod in ["eve", "carol"] {
            beside.ready(&format!("pod/{pod}")).await;
        }
        for pod in ["target", "edge"] {
            case.ready(&format!("pod/{pod}")).await;
        }
        at_the_control_plane(&attack).await;
        at_a_sidecar(&attack).await;
        at_a_gateway(&attack).await;
        pages_tell_no_secrets(&attack).await;
        a_sidecar_has_no_rights(&attack).await;
        strays_are_told_of(&attack).await;
        case.kubectl_says(&["delete", "namespace", &attack.other, "--wait=false"]);
    });
}

async fn at_the_control_plane(attack: &Attack<'_>) {
    let istiod = attack.case.istiod().await;
    let ip = attack.ip(SYSTEM, &istiod).await;
    let table = [
        // Discovery without proof, and the page that can end the program: not from here.
        ("get http://IP:15010/", CLOSED),
        ("get --http2-prior-knowledge http://IP:15010/", CLOSED),
        ("get http://IP:9876/", CLOSED),
        ("get -X PUT http://IP:9876/scopej/ads", CLOSED),
        // TLS or nothing.
        ("get http://IP:15012/", CLOSED),
        ("get http://IP:15017/inject", CLOSED),
        // Readiness is for the kubelet; nothing else is on that port, whoever asks.
        ("get http://IP:8080/ready", "200"),
        ("get http://IP:8080/debug/syncz", "403"),
        ("own http://IP:8080/debug/syncz", "403"),
        ("own http://IP:8080/debug/pprof/heap", "403"),
        // Metrics are for Prometheus; debug data is for identities, of their own namespace.
        ("get http://IP:15014/metrics", "200"),
        ("get http://IP:15014/debug/syncz", "401"),
        ("get http://IP:15014/debug/configz", "401"),
        ("get http://IP:15014/debug/outsidez", "401"),
        ("get http://IP:15014/debug/pprof/heap", "401"),
        ("get http://IP:15014//debug/configz", "401 404"),
        ("get http://IP:15014/metrics/../debug/configz", "401 404"),
        ("get -H 'X-Forwarded-For: 127.0.0.1' http://IP:15014/debug/configz", "401"),
        ("get -H 'Host: localhost' http://IP:15014/debug/configz", "401"),
        ("get -H 'Authorization: Bearer no.to.ken' http://IP:15014/debug/configz", "401"),
        ("own http://IP:15014/debug/syncz", "200"),
        ("own http://IP:15014/debug/configz", "404"),
        ("own http://IP:15014/debug/registryz", "404"),
        ("own http://IP:15014/debug/inject", "404"),
        ("own http://IP:15014/debug/mesh", "404"),
        ("own http://IP:15014/debug/pprof/heap", "401"),
        ("own 'http://IP:15014/debug/config_dump?proxyID=target.NS'", "404"),
        ("own 'http://IP:15014/debug/force_disconnect?proxyID=target.NS'", "404"),
        // Webhooks answer questions, and say no to what is none.
        ("get https://IP:15017/", "404"),
        ("get https://IP:15017/debug/configz", "404"),
        ("get https://IP:15017/inject", "405"),
        (
            "curl -sk -m 20 -d garbage https://IP:15017/validate | grep -o '\"allowed\":[a-z]*'",
            "\"allowed\":false",
        ),
        ("curl -sk -m 20 -d garbage https://IP:15017/inject | grep -c '\"allowed\":true'", "0"),
        ("head -c 9000000 /dev/zero | get --data-binary @- https://IP:15017/validate", "413 000"),
    ];
    let table: Vec<(String, &str)> =
        table.iter().map(|(a, b)| (a.replace("NS", &attack.case.namespace), *b)).collect();
    let table: Vec<(&str, &str)> = table.iter().map(|(a, b)| (a.as_str(), *b)).collect();
    for attacker in ["eve", "carol"] {
        attack.table(attacker, &ip, &table).await;
    }
    // What a caller of another namespace sees is its own.
    let ask = format!(
        "curl -s -m 20 -H \"Authorization: Bearer $(cat /var/run/secrets/own/token)\" http://{ip}:15014/debug/syncz"
    );
    let seen = attack.script(&attack.other, "eve", "main", &ask).await;
    let seen: Value = serde_json::from_str(&seen).unwrap();
    let own = format!(".{}", attack.other);
    let proxies: Vec<&str> =
        seen.as_array().unwrap().iter().filter_map(|row| row["proxy"].as_str()).collect();
    assert!(proxies.iter().all(|proxy| proxy.ends_with(&own)), "{proxies:?}");
    assert!(proxies.iter().any(|proxy| proxy.starts_with("carol.")), "{proxies:?}");
}

/// Closed means that nothing of what is behind the port is heard: refused, reset, or the proxy's own no.
const CLOSED: &str = "000 404 502 503";

/// What agents serve to anybody, and what they do not.
const AGENT: [(&str, &str); 20] = [
    ("get http://IP:15020/healthz/ready", "200"),
    ("get http://IP:15020/stats/prometheus", "200"),
    ("get -X POST http://IP:15020/quitquitquit", "403"),
    ("get -X POST http://IP:15020/drain", "403"),
    ("get http://IP:15020/debug/ndsz", "403"),
    ("get http://IP:15020/debug/pprof/heap", "403"),
    ("get http://IP:15020/config_dump", "403 404"),
    ("get http://IP:15020/app-health/none/livez", "404"),
    ("get http://IP:15020/app-health/../../config_dump", "403 404"),
    ("get http://IP:15021/healthz/ready", "200"),
    ("get http://IP:15021/config_dump", "404"),
    ("get -X POST http://IP:15021/quitquitquit", "404"),
    ("get http://IP:15090/stats/prometheus", "200"),
    ("get http://IP:15090/config_dump", "404"),
    ("get http://IP:15090/stats/prometheus/../../config_dump", "404"),
    ("get http://IP:15090/stats/prometheus%2f..%2f..%2fconfig_dump", "404"),
    ("get http://IP:15090/stats/prometheus/%2e%2e/%2e%2e/config_dump", "404"),
    ("get -X POST http://IP:15090/stats/prometheus/../../quitquitquit", "404"),
    ("get -X POST http://IP:15021/healthz/ready/../../quitquitquit", "404"),
    ("udp IP 15053", "0"),
];

/// What is behind the sidecar's own port for traffic, or on loopback.
const INSIDE: [(&str, &str); 8] = [
    ("get http://IP:15000/config_dump", CLOSED),
    ("get -X POST http://IP:15000/quitquitquit", CLOSED),
    ("get http://IP:15004/debug/syncz", CLOSED),
    ("get http://IP:15001/", CLOSED),
    ("get http://IP:15006/", CLOSED),
    ("get http://IP:15053/", CLOSED),
    ("get -H 'Host: localhost:15000' http://IP:15006/config_dump", CLOSED),
    ("get -x http://IP:15001 http://localhost:15000/config_dump", CLOSED),
];

async fn at_a_sidecar(attack: &Attack<'_>) {
    let ip = attack.ip(&attack.case.namespace, "target").await;
    // The application without its proxy: on a port that the pod declares, and on one that it does not.
    let application = [("get http://IP:8080/", "000"), ("get http://IP:9999/", "000")];
    eventually("plaintext is refused", async || {
        let ask = format!("get http://{ip}:8080/");
        let said = attack.script(&attack.other, "eve", "main", &ask).await;
        if said.trim() == "000" { Ok(()) } else { Err(said) }
    })
    .await;
    for attacker in ["eve", "carol"] {
        attack.table(attacker, &ip, &AGENT).await;
        attack.table(attacker, &ip, &INSIDE).await;
    }
    attack.table("eve", &ip, &application).await;
}

async fn at_a_gateway(attack: &Attack<'_>) {
    let ip = attack.ip(&attack.case.namespace, "edge").await;
    attack.table("eve", &ip, &AGENT).await;
    attack.table("eve", &ip, &INSIDE).await;
}

/// No page that anybody can read holds a key, a certificate or a token.
async fn pages_tell_no_secrets(attack: &Attack<'_>) {
    let istiod = attack.ip(SYSTEM, &attack.case.istiod().await).await;
    let target = attack.ip(&attack.case.namespace, "target").await;
    for url in [
        format!("http://{istiod}:15014/metrics"),
        format!("http://{istiod}:15014/version"),
        format!("http://{target}:15020/stats/prometheus"),
        format!("http://{target}:15090/stats/prometheus"),
    ] {
        let ask = format!("curl -s -m 20 {url}");
        let page = attack.script(&attack.other, "eve", "main", &ask).await;
        assert!(!page.trim().is_empty(), "{url}");
        for secret in ["-----BEGIN", "LS0tLS1CRUdJTi", "eyJhbGciOi"] {
            assert!(!page.contains(secret), "{url} tells {secret}");
        }
    }
    // Neither does the proxy's own dump, which its pod can read.
    let dump = "curl -s -m 20 localhost:15000/config_dump";
    let dump = attack.script(&attack.case.namespace, "target", "istio-proxy", dump).await;
    // That is base64 of [redacted].
    assert!(dump.contains("W3JlZGFjdGVkXQ"), "secrets are in the dump, without their content");
    for key in ["PRIVATE KEY", "UFJJVkFURSBLRVk", "eyJhbGciOi"] {
        assert!(!dump.contains(key), "the dump tells {key}");
    }
}

async fn a_sidecar_has_no_rights(attack: &Attack<'_>) {
    let pods: Api<Pod> = Api::namespaced(attack.case.client.clone(), &attack.case.namespace);
    let pod = serde_json::to_value(pods.get("target").await.unwrap()).unwrap();
    let container = |name: &str| {
        let spec = &pod["spec"];
        let all = ["containers", "initContainers"].into_iter().filter_map(|l| spec[l].as_array());
        all.flatten().find(|c| c["name"] == name).unwrap()["securityContext"].clone()
    };
    assert_eq!(
        container("istio-proxy"),
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            "privileged": false, "readOnlyRootFilesystem": true, "runAsGroup": 1337,
            "runAsNonRoot": true, "runAsUser": 1337})
    );
    assert_eq!(
        container("istio-init"),
        json!({"allowPrivilegeEscalation": false,
            "capabilities": {"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]},
            "privileged": false, "readOnlyRootFilesystem": false, "runAsGroup": 0,
            "runAsNonRoot": false, "runAsUser": 0})
    );
    // As the kernel sees it.
    let look = "grep -E '^(Uid|Gid|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs):' /proc/$(pgrep -x envoy | head -n 1)/status; \
        touch /from-eve 2>/dev/null && echo written; id -u";
    let said = attack.script(&attack.case.namespace, "target", "istio-proxy", look).await;
    for (name, wanted) in [
        ("Uid", "1337"),
        ("Gid", "1337"),
        ("CapPrm", "0000000000000000"),
        ("CapEff", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
        ("NoNewPrivs", "1"),
    ] {
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        assert_eq!(line.and_then(|l| l.split_whitespace().next()), Some(wanted), "{name}: {said}");
    }
    assert!(!said.contains("written") && said.trim().ends_with("1337"), "{said}");
}

/// A pod that was there before its namespace was labelled runs without a proxy, and that is told.
async fn strays_are_told_of(attack: &Attack<'_>) {
    let (case, other) = (attack.case, &attack.other);
    let row = format!("ironsail_pods_outside_mesh{{namespace=\"{other}\"}} ");
    let count = async || {
        let metrics = case.page(15014, "/metrics").await.body;
        metrics.lines().find_map(|line| line.strip_prefix(&row).map(str::to_owned))
    };
    assert_eq!(count().await, None);
    let line = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "stray", "namespace": other},
        "spec": {"terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "busybox", "command": ["sleep", "1000"]}]}});
    case.try_apply(line).await.unwrap();
    case.beside(other).ready("pod/stray").await;
    case.kubectl_says(&["label", "namespace", other, "istio-injection=enabled"]);
    eventually("the pod is counted", async || match count().await.as_deref() {
        Some("1.0" | "1") => Ok(()),
        seen => Err(format!("{seen:?}")),
    })
    .await;
    // Neither eve, who declined, nor carol, who has one.
    let page = case.page(15014, "/debug/outsidez").await.json();
    assert_eq!(page[other.as_str()], json!(["stray"]), "{page}");
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), other);
    pods.delete("stray", &DeleteParams::default().grace_period(0)).await.unwrap();
    eventually("it is forgotten with the pod", async || match count().await {
        None => Ok(()),
        seen => Err(format!("{seen:?}")),
    })
    .await;
}
