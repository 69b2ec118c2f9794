//! Injection of objects that are as broken as their annotations, by both roads.

use std::sync::LazyLock;

use crate::{json, sample};
use arbitrary::{Result, Unstructured};
use ironsail_inject::{Config, Injector, Mesh, Settings, Values, manifest, review};
use serde_json::json;

static INJECTOR: LazyLock<Injector> = LazyLock::new(|| {
    let values = Values::builtin();
    let config = Config::from_values(&values).expect("our own values");
    Injector::new(config, values, Mesh::default(), Settings::default()).expect("our own templates")
});

const ANNOTATIONS: &[&str] = &[
    "inject.istio.io/templates",
    "proxy.istio.io/config",
    "proxy.istio.io/overrides",
    "sidecar.istio.io/status",
    "sidecar.istio.io/userVolume",
    "sidecar.istio.io/userVolumeMount",
    "sidecar.istio.io/interceptionMode",
    "sidecar.istio.io/logLevel",
    "prometheus.istio.io/scrape-targets",
    "traffic.sidecar.istio.io/includeOutboundIPRanges",
];

fn inject(u: &mut Unstructured<'_>) -> Result<()> {
    let mut object = sample::broken(u)?;
    for _ in 0..u.int_in_range(0..=3)? {
        let (name, json::Json(value)) = (*u.choose(ANNOTATIONS)?, u.arbitrary()?);
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if object["metadata"]["annotations"].is_object() || object["metadata"].is_object() {
            object["metadata"]["annotations"] = json!({ name: value });
        }
    }
    let request = json!({ "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "u", "namespace": "ns", "object": object } });
    let answer = review(&INJECTOR, "/inject/cluster/a", request.to_string().as_bytes());
    let again = review(&INJECTOR, "/inject/cluster/a", request.to_string().as_bytes());
    assert_eq!(answer, again, "the same pod, the same answer");
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("an answer is JSON");
    assert!(answer["response"]["allowed"].is_boolean(), "an answer says yes or no");
    let _ = manifest(&INJECTOR, &object.to_string());
    // As a template, text is worse than as data.
    let text: &str = u.arbitrary()?;
    let config = Config::from_yaml_or_template(text);
    let templates = Injector::new(config, Values::builtin(), Mesh::default(), Settings::default());
    if let Ok(injector) = templates {
        let _ = manifest(&injector, &object.to_string());
    }
    Ok(())
}

pub(crate) fn target(bytes: &[u8]) {
    let _ = inject(&mut Unstructured::new(bytes));
}
