//! What the API server is answered: the patch, the refusal, or that nothing is to be done.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use base64::Engine;
use ironsail_inject::{Config, Injector, Mesh, Overlay, Settings, Values, review};
use serde_json::{Value, json};

fn injector(settings: Settings) -> Injector {
    let mut values = Values::builtin();
    values.overlay(&json!({ "global": { "hub": "hub", "tag": "1.17.2" } }));
    let config = Config::from_values(&values).unwrap();
    Injector::new(config, values, Mesh::default(), settings).unwrap()
}

fn ask(injector: &Injector, path: &str, version: &str, pod: &Value) -> Value {
    let request = json!({ "apiVersion": version, "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5", "kind": { "group": "", "version": "v1", "kind": "Pod" },
        "namespace": "istio-demo", "operation": "CREATE", "object": pod } });
    serde_json::from_slice(&review(injector, path, request.to_string().as_bytes())).unwrap()
}

fn patched(answer: &Value, pod: &Value) -> Value {
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    let patch = answer["response"]["patch"].as_str().unwrap();
    let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
    ironsail_patch::json_patch(pod, &serde_json::from_slice(&patch).unwrap()).unwrap()
}

fn httpbin() -> Value {
    serde_json::from_str(include_str!("../testdata/httpbin.json")).unwrap()
}

fn proxy(pod: &Value, list: &str) -> Value {
    let containers = pod["spec"][list].as_array().unwrap();
    containers.iter().find(|c| c["name"] == "istio-proxy").unwrap().clone()
}

/// Every environment variable, mount, label, annotation and volume of seed 003's pod.
fn has_all_of_seed_003(pod: &Value, proxy: &Value) {
    let env = |name: &str| {
        let all = proxy["env"].as_array().unwrap();
        all.iter().find(|e| e["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    for (name, value) in [
        ("JWT_POLICY", "third-party-jwt"),
        ("PILOT_CERT_PROVIDER", "istiod"),
        ("CA_ADDR", "istiod.istio-system.svc:15012"),
        ("PROXY_CONFIG", "{}\n"),
        ("ISTIO_META_POD_PORTS", "[\n    {\"containerPort\":80,\"protocol\":\"TCP\"}\n]"),
        ("ISTIO_META_APP_CONTAINERS", "httpbin"),
        ("ISTIO_META_CLUSTER_ID", "Kubernetes"),
        ("ISTIO_META_INTERCEPTION_MODE", "REDIRECT"),
        ("ISTIO_META_WORKLOAD_NAME", "httpbin"),
        ("ISTIO_META_OWNER", "kubernetes://apis/apps/v1/namespaces/istio-demo/deployments/httpbin"),
        ("ISTIO_META_MESH_ID", "cluster.local"),
        ("TRUST_DOMAIN", "cluster.local"),
    ] {
        assert_eq!(env(name)["value"], value, "{name}");
    }
    for (name, field) in [
        ("POD_NAME", "metadata.name"),
        ("POD_NAMESPACE", "metadata.namespace"),
        ("INSTANCE_IP", "status.podIP"),
        ("SERVICE_ACCOUNT", "spec.serviceAccountName"),
        ("HOST_IP", "status.hostIP"),
        ("ISTIO_META_NODE_NAME", "spec.nodeName"),
    ] {
        assert_eq!(env(name)["valueFrom"]["fieldRef"]["fieldPath"], field, "{name}");
    }
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
        assert!(mounts.contains(&json!({ "name": name, "mountPath": path })), "{name}");
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|volume| volume["name"] == name), "{name}");
    }
    for (name, value) in [
        ("app", "httpbin"),
        ("pod-template-hash", "798dbb9f74"),
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
    ] {
        assert_eq!(pod["metadata"]["annotations"][name], value, "{name}");
    }
    assert_eq!(proxy["image"], "hub/proxyv2:1.17.2");
    assert_eq!(proxy["securityContext"]["runAsUser"], 1337);
    assert_eq!(proxy["readinessProbe"]["httpGet"]["port"], 15021);
}

/// One injector answers many requests at once.
#[test]
fn an_injector_can_be_shared() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&injector(Settings::default()));
}

#[test]
fn httpbin_of_seed_003_gets_its_sidecar() {
    let injector = injector(Settings::default());
    let pod = httpbin();
    let answer = ask(&injector, "/inject", "admission.k8s.io/v1", &pod);
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["response"]["uid"], "705ab4f5");
    let native = patched(&answer, &pod);
    has_all_of_seed_003(&native, &proxy(&native, "initContainers"));
    assert_eq!(native["spec"]["containers"].as_array().unwrap().len(), 1);
    let status = native["metadata"]["annotations"]["sidecar.istio.io/status"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(status).unwrap()["initContainers"],
        json!(["istio-init", "istio-proxy"])
    );
}

#[test]
fn httpbin_of_seed_003_gets_a_classic_sidecar_from_an_old_cluster() {
    let kubernetes = Some("v1.26.3".parse().unwrap());
    let injector = injector(Settings { kubernetes, ..Settings::default() });
    let pod = httpbin();
    let answer = ask(&injector, "/inject", "admission.k8s.io/v1beta1", &pod);
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1beta1");
    let classic = patched(&answer, &pod);
    has_all_of_seed_003(&classic, &proxy(&classic, "containers"));
    assert_eq!(
        classic["metadata"]["annotations"]["sidecar.istio.io/status"],
        "{\"initContainers\":[\"istio-init\"],\"containers\":[\"istio-proxy\"],\"volumes\":\
         [\"workload-socket\",\"credential-socket\",\"workload-certs\",\"istio-envoy\",\
         \"istio-data\",\"istio-podinfo\",\"istio-token\",\"istiod-ca-cert\",\"istio-ca-crl\"],\
         \"imagePullSecrets\":null,\"revision\":\"default\"}"
    );
    let init = &classic["spec"]["initContainers"][0];
    assert_eq!(
        init["args"],
        json!([
            "istio-iptables",
            "-p",
            "15001",
            "-z",
            "15006",
            "-u",
            "1337",
            "-m",
            "REDIRECT",
            "-i",
            "*",
            "-x",
            "",
            "-b",
            "*",
            "-d",
            "15090,15021,15020",
            "--log_output_level=default:info"
        ])
    );
}

#[test]
fn an_injected_pod_is_patched_to_itself() {
    let injector = injector(Settings::default());
    let pod = httpbin();
    let mut once = patched(&ask(&injector, "/inject", "admission.k8s.io/v1", &pod), &pod);
    once["metadata"].as_object_mut().unwrap().remove("managedFields");
    once["metadata"]["namespace"] = "istio-demo".into();
    let twice = patched(&ask(&injector, "/inject", "admission.k8s.io/v1", &once), &once);
    assert_eq!(once, twice);
}

#[test]
fn the_address_of_the_webhook_says_where_the_pod_is() {
    let injector = injector(Settings::default());
    let pod = httpbin();
    let path = "/inject/cluster/east--slash--1/net/net1/proxy_extra/x";
    let injected = patched(&ask(&injector, path, "admission.k8s.io/v1", &pod), &pod);
    let proxy = proxy(&injected, "initContainers");
    let env = proxy["env"].as_array().unwrap();
    for (name, value) in
        [("ISTIO_META_CLUSTER_ID", "east/1"), ("ISTIO_META_NETWORK", "net1"), ("PROXY_EXTRA", "x")]
    {
        assert!(env.contains(&json!({ "name": name, "value": value })), "{name}");
    }
    assert_eq!(injected["metadata"]["labels"]["topology.istio.io/network"], "net1");
}

#[test]
fn proxy_config_objects_reach_the_pods_they_select() {
    let overlay = Overlay {
        namespace: "istio-demo".to_owned(),
        selector: [("app".to_owned(), "httpbin".to_owned())].into(),
        concurrency: Some(7),
        environment: [("DEBUG".to_owned(), "yes".to_owned())].into(),
        image_type: Some("distroless".to_owned()),
    };
    let injector = injector(Settings::default()).with_overlays(vec![overlay]);
    let pod = httpbin();
    let injected = patched(&ask(&injector, "/inject", "admission.k8s.io/v1", &pod), &pod);
    let proxy = proxy(&injected, "initContainers");
    assert_eq!(proxy["image"], "hub/proxyv2:1.17.2-distroless");
    let env = proxy["env"].as_array().unwrap();
    assert!(env.contains(&json!({ "name": "DEBUG", "value": "yes" })));
    let config = env.iter().find(|e| e["name"] == "PROXY_CONFIG").unwrap();
    let config: Value = serde_json::from_str(config["value"].as_str().unwrap()).unwrap();
    assert_eq!(config["concurrency"], 7);
}

#[test]
fn bad_annotations_are_refused_with_the_reason() {
    let injector = injector(Settings::default());
    let mut pod = httpbin();
    pod["metadata"]["annotations"] = json!({
        "traffic.sidecar.istio.io/excludeOutboundIPRanges": "everything",
        "sidecar.istio.io/proxyCPU": "lots",
    });
    let answer = ask(&injector, "/inject", "admission.k8s.io/v1", &pod);
    assert_eq!(answer["response"]["allowed"], false);
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    for part in ["excludeOutboundIPRanges", "'everything'", "proxyCPU", "'lots'"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn an_unknown_template_is_refused_with_those_there_are() {
    let injector = injector(Settings::default());
    let mut pod = httpbin();
    pod["metadata"]["annotations"] = json!({ "inject.istio.io/templates": "sidecar,mine" });
    let answer = ask(&injector, "/inject", "admission.k8s.io/v1", &pod);
    assert_eq!(
        answer["response"]["status"]["message"],
        "requested template \"mine\" not found; have gateway, grpc-agent, grpc-simple, sidecar"
    );
}

#[test]
fn pods_that_want_none_are_let_through() {
    let injector = injector(Settings::default());
    for change in [
        |pod: &mut Value| pod["spec"]["hostNetwork"] = true.into(),
        |pod: &mut Value| pod["metadata"]["labels"]["sidecar.istio.io/inject"] = "false".into(),
        |pod: &mut Value| pod["metadata"]["namespace"] = "kube-system".into(),
    ] {
        let mut pod = httpbin();
        change(&mut pod);
        let answer = ask(&injector, "/inject", "admission.k8s.io/v1", &pod);
        assert_eq!(answer["response"], json!({ "uid": "705ab4f5", "allowed": true }));
    }
}

#[test]
fn every_body_gets_an_answer() {
    let injector = injector(Settings::default());
    for body in [
        "",
        "nonsense",
        "[]",
        "{}",
        r#"{"apiVersion":"admission.k8s.io/v9"}"#,
        r#"{"apiVersion":"admission.k8s.io/v1"}"#,
        r#"{"apiVersion":"admission.k8s.io/v1","request":{"object":3}}"#,
        r#"{"apiVersion":"admission.k8s.io/v1","request":{"object":{"spec":[]}}}"#,
    ] {
        let answer: Value =
            serde_json::from_slice(&review(&injector, "/inject", body.as_bytes())).unwrap();
        assert_eq!(answer["kind"], "AdmissionReview", "{body}");
        assert_eq!(answer["response"]["allowed"], false, "{body}");
        assert!(answer["response"]["status"]["message"].is_string(), "{body}");
    }
    let deletion = r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"d","object":null}}"#;
    let answer = review(&injector, "/inject", deletion.as_bytes());
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["response"], json!({ "uid": "d", "allowed": true }));
}
