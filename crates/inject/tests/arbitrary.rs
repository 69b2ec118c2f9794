//! Pods and annotations that no user would write: an answer, never a panic, and the same each time.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use ironsail_inject::{
    Config, Injector, Mesh, Outcome, Owner, Settings, Subject, Values, manifest,
};
use ironsail_inject::{json_patch_between, review};
use proptest::prelude::*;
use serde_json::{Value, json};

fn injector() -> Injector {
    let values = Values::builtin();
    let config = Config::from_values(&values).unwrap();
    Injector::new(config, values, Mesh::default(), Settings::default()).unwrap()
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[ -~\\n\\t]{0,20}".prop_map(Value::from),
    ]
}

fn any_tree() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z$]{0,8}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

const ANNOTATIONS: &[&str] = &[
    "inject.istio.io/templates",
    "proxy.istio.io/config",
    "proxy.istio.io/overrides",
    "sidecar.istio.io/status",
    "sidecar.istio.io/userVolume",
    "sidecar.istio.io/userVolumeMount",
    "sidecar.istio.io/interceptionMode",
    "sidecar.istio.io/nativeSidecar",
    "sidecar.istio.io/proxyImage",
    "sidecar.istio.io/logLevel",
    "sidecar.istio.io/proxyCPU",
    "sidecar.istio.io/bootstrapOverride",
    "sidecar.istio.io/init-containers-before-proxy",
    "sidecar.istio.io/rewriteAppHTTPProbers",
    "status.sidecar.istio.io/port",
    "traffic.sidecar.istio.io/includeInboundPorts",
    "traffic.sidecar.istio.io/kubevirtInterfaces",
    "prometheus.io/port",
    "prometheus.istio.io/scrape-targets",
    "kubectl.kubernetes.io/default-container",
];

const WORDS: &[&str] = &[
    "sidecar",
    "gateway",
    "grpc-agent,sidecar",
    "grpc-simple",
    "true",
    "false",
    "0",
    "80,81",
    "*",
    "NONE",
    "TPROXY",
    "{}",
    "[]",
    "{\"containers\":[{\"name\":\"istio-proxy\"}]}",
    "{\"containers\":3}",
    "{\"a\":{\"emptyDir\":{}}}",
    "concurrency: 2",
    "a\n- b: \"{{",
    "8080:/m",
    "{\"initContainers\":[\"istio-init\",\"\"],\"containers\":[\"istio-proxy\"]}",
];

fn annotations() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        4 => prop::sample::select(WORDS).prop_map(str::to_owned),
        1 => "\\PC{0,12}",
        1 => "[ -~\\n]{0,24}",
    ];
    prop::collection::btree_map(prop::sample::select(ANNOTATIONS), value, 0..5)
        .prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), Value::from(v))).collect())
}

fn probe() -> impl Strategy<Value = Value> {
    let port = prop_oneof![any::<i32>().prop_map(Value::from), "[a-z]{1,3}".prop_map(Value::from)];
    (prop::sample::select(&["httpGet", "tcpSocket", "grpc", "exec"][..]), port, any_tree())
        .prop_map(|(kind, port, rest)| json!({ kind: { "port": port, "path": rest } }))
}

fn container() -> impl Strategy<Value = Value> {
    let name =
        prop_oneof!["[a-z]{1,3}", Just("istio-proxy".to_owned()), Just("istio-init".to_owned())];
    (name, probe(), any_tree(), any_tree()).prop_map(|(name, probe, env, ports)| {
        json!({ "name": name, "image": "auto", "livenessProbe": probe, "env": env, "ports": ports,
                "lifecycle": { "preStop": probe },
                "securityContext": { "runAsUser": 5 } })
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = || {
        prop_oneof![
            4 => prop::collection::vec(container(), 0..3).prop_map(Value::from),
            1 => any_tree(),
        ]
    };
    let labels = prop_oneof![3 => Just(json!({ "app": "a" })), 1 => any_tree()];
    let annotations = prop_oneof![6 => annotations(), 1 => any_tree()];
    (labels, annotations, containers(), containers(), any_tree()).prop_map(
        |(labels, annotations, containers, init, volumes)| {
            json!({ "apiVersion": "v1", "kind": "Pod",
                    "metadata": { "name": "p", "labels": labels, "annotations": annotations },
                    "spec": { "containers": containers, "initContainers": init,
                              "volumes": volumes } })
        },
    )
}

fn outcome(injector: &Injector, pod: &Value) -> Result<Outcome, String> {
    let subject =
        Subject { pod, owner: Owner::of_pod(pod), namespace: "ns", env: [].into_iter().collect() };
    injector.inject(&subject).map_err(|error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_pod_is_injected_or_refused_and_the_same_each_time(pod in pod()) {
        let injector = injector();
        let first = outcome(&injector, &pod);
        prop_assert_eq!(&first, &outcome(&injector, &pod));
        if let Ok(Outcome::Injected(injected)) = first {
            let patch = json_patch_between(&pod, &injected);
            prop_assert_eq!(ironsail_patch::json_patch(&pod, &patch).unwrap(), injected);
        }
    }

    #[test]
    fn any_tree_is_answered(tree in any_tree()) {
        let injector = injector();
        let _ = outcome(&injector, &tree);
        let _ = manifest(&injector, &tree.to_string());
        let request = json!({ "apiVersion": "admission.k8s.io/v1", "request": { "object": tree } });
        prop_assert!(!review(&injector, "/inject", request.to_string().as_bytes()).is_empty());
    }

    #[test]
    fn any_text_is_no_reason_to_panic(text in "\\PC{0,80}|[ -~\\n]{0,80}", path in "[/a-z:=]{0,20}") {
        let injector = injector();
        let _ = manifest(&injector, &text);
        let _ = review(&injector, &path, text.as_bytes());
        let _ = Config::from_yaml_or_template(&text);
        let _ = Values::from_yaml(&text);
        let _ = Mesh::from_yaml(&text);
    }
}
