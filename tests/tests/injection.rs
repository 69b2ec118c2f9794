//! A namespace that asks for it: pods get their sidecar from the control plane's webhook.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Case, eventually, mesh_case, repository};
use serde_json::{Value, json};

/// The pods of an app, as they are stored.
async fn pod_of(case: &Case, app: &str) -> Value {
    let label = format!("app={app}");
    eventually("a pod", async || {
        let said = case.kubectl_says(&["get", "pods", "-l", &label, "-o", "json"]);
        let list: Value = serde_json::from_str(&said).unwrap();
        let pod = list["items"][0].clone();
        if pod.is_null() {
            let events = case.kubectl_says(&["get", "events"]);
            return Err(format!("no pod yet: {events}"));
        }
        Ok(pod)
    })
    .await
}

fn apply_httpbin(case: &Case) {
    let file = repository().join("samples/httpbin/httpbin.yaml").display().to_string();
    case.kubectl_says(&["apply", "-f", &file]);
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

/// Every variable, mount, volume, label and annotation that users of Istio find.
fn check(pod: &Value, namespace: &str) {
    let proxy = &pod["spec"]["initContainers"][1];
    let env = proxy["env"].as_array().unwrap();
    let variable = |name: &str| {
        env.iter().find(|e| e["name"] == name).unwrap_or_else(|| panic!("no {name}: {proxy}"))
    };
    let owner = format!("kubernetes://apis/apps/v1/namespaces/{namespace}/deployments/httpbin");
    for (name, value) in [
        ("JWT_POLICY", "third-party-jwt"),
        ("PILOT_CERT_PROVIDER", "istiod"),
        ("CA_ADDR", "istiod.istio-system.svc:15012"),
        ("ISTIO_META_POD_PORTS", "[\n    {\"containerPort\":80,\"protocol\":\"TCP\"}\n]"),
        ("ISTIO_META_APP_CONTAINERS", "httpbin"),
        ("ISTIO_META_CLUSTER_ID", "Kubernetes"),
        ("ISTIO_META_INTERCEPTION_MODE", "REDIRECT"),
        ("ISTIO_META_WORKLOAD_NAME", "httpbin"),
        ("ISTIO_META_OWNER", &owner),
        ("ISTIO_META_MESH_ID", "cluster.local"),
        ("TRUST_DOMAIN", "cluster.local"),
    ] {
        assert_eq!(variable(name)["value"], value, "{name}");
    }
    for (name, field) in [
        ("POD_NAME", "metadata.name"),
        ("POD_NAMESPACE", "metadata.namespace"),
        ("INSTANCE_IP", "status.podIP"),
        ("SERVICE_ACCOUNT", "spec.serviceAccountName"),
        ("HOST_IP", "status.hostIP"),
        ("ISTIO_META_NODE_NAME", "spec.nodeName"),
    ] {
        assert_eq!(variable(name)["valueFrom"]["fieldRef"]["fieldPath"], field, "{name}");
    }
    variable("PROXY_CONFIG");
    let mounts = proxy["volumeMounts"].as_array().unwrap();
    for (name, path) in [
        ("workload-socket", "/var/run/secrets/workload-spiffe-uds"),
        ("credential-socket", "/var/run/secrets/credential-uds"),
        ("workload-certs", "/var/run/secrets/workload-spiffe-credentials"),
        ("istiod-ca-cert", "/var/run/secrets/istio"),
        ("istio-data", "/var/lib/istio/data"),
        ("istio-envoy", "/etc/istio/proxy"),
        ("istio-token", "/var/run/secrets/tokens"),
        ("istio-podinfo", "/etc/istio/pod"),
    ] {
        let mounted = mounts.iter().any(|m| m["name"] == name && m["mountPath"] == path);
        assert!(mounted, "{name}: {mounts:?}");
        assert!(names(&pod["spec"]["volumes"]).contains(&name), "{name}");
    }
    for (name, value) in [
        ("app", "httpbin"),
        ("security.istio.io/tlsMode", "istio"),
        ("service.istio.io/canonical-name", "httpbin"),
        ("service.istio.io/canonical-revision", "v1"),
        ("version", "v1"),
    ] {
        assert_eq!(pod["metadata"]["labels"][name], value, "{name}");
    }
    for (name, value) in [
        ("kubectl.kubernetes.io/default-container", "httpbin"),
        ("kubectl.kubernetes.io/default-logs-container", "httpbin"),
        ("prometheus.io/path", "/stats/prometheus"),
        ("prometheus.io/port", "15020"),
        ("prometheus.io/scrape", "true"),
        ("istio.io/rev", "default"),
    ] {
        assert_eq!(pod["metadata"]["annotations"][name], value, "{name}");
    }
}

#[test]
fn a_labelled_namespace_gets_native_sidecars() {
    mesh_case("inject", async |case| {
        let ns = case.namespace.clone();
        case.kubectl_says(&["label", "namespace", &ns, "istio-injection=enabled"]);
        apply_httpbin(case);
        let pod = pod_of(case, "httpbin").await;
        let spec = &pod["spec"];
        assert_eq!(names(&spec["initContainers"]), ["istio-init", "istio-proxy"]);
        assert_eq!(names(&spec["containers"]), ["httpbin"]);
        assert_eq!(spec["initContainers"][1]["restartPolicy"], "Always");
        let init = spec["initContainers"][0]["args"].as_array().unwrap();
        let start: Vec<_> = init.iter().take(5).filter_map(Value::as_str).collect();
        assert_eq!(start, ["istio-iptables", "-p", "15001", "-z", "15006"]);
        let args = spec["initContainers"][1]["args"].as_array().unwrap();
        assert_eq!(args[..2], [json!("proxy"), json!("sidecar")]);
        check(&pod, &ns);
        let status = pod["metadata"]["annotations"]["sidecar.istio.io/status"].as_str().unwrap();
        let status: Value = serde_json::from_str(status).unwrap();
        assert_eq!(status["initContainers"], json!(["istio-init", "istio-proxy"]), "{status}");
        assert_eq!(status["revision"], "default", "{status}");
    });
}

#[test]
fn pods_without_the_label_and_pods_that_decline_are_left_alone() {
    mesh_case("alone", async |case| {
        apply_httpbin(case);
        let pod = pod_of(case, "httpbin").await;
        assert_eq!(names(&pod["spec"]["containers"]), ["httpbin"]);
        assert!(pod["spec"]["initContainers"].is_null(), "{pod}");
        let ns = case.namespace.clone();
        case.kubectl_says(&["label", "namespace", &ns, "istio-injection=enabled"]);
        case.apply(
            "{apiVersion: v1, kind: Pod, metadata: {name: declines, labels: {sidecar.istio.io/inject: 'false'}},
              spec: {containers: [{name: main, image: busybox, command: [sleep, '1000']}]}}",
        )
        .await;
        case.ready("pod/declines").await;
    });
}

#[test]
fn a_bad_annotation_is_refused_in_plain_words() {
    mesh_case("refuse", async |case| {
        let ns = case.namespace.clone();
        case.kubectl_says(&["label", "namespace", &ns, "istio-injection=enabled"]);
        let pod = "
apiVersion: v1
kind: Pod
metadata: {name: bad, annotations: {traffic.sidecar.istio.io/excludeInboundPorts: many}}
spec: {containers: [{name: main, image: busybox}]}
";
        let output = case.kubectl_output(&["apply", "-f", "-"], pod);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{said}");
        assert!(
            said.contains("sidecar-injector.istio.io") && said.contains("excludeInboundPorts"),
            "{said}"
        );
    });
}
