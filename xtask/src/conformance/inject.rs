//! Family `inject`: workloads and values in, injected workloads out, by both roads.
//!
//! A case passes when `kube-inject` gives the expected document and the webhook, asked about the pod
//! that the workload would make, gives the pod of that document.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use base64::Engine;
use ironsail_inject::{Config, Injector, Mesh, Settings, Values, manifest, review};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Case, Verdict, read};

#[derive(Deserialize)]
struct Data {
    r#in: String,
    want: String,
    set: Vec<String>,
}

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let data: Vec<Data> = serde_json::from_str(&read(&folder.join("cases.json"))?)?;
    let hub = hub(folder)?;
    let mut cases = Vec::new();
    for case in data {
        let injector = injector(&hub, &case.set).with_context(|| case.want.clone())?;
        let given = read(&folder.join(&case.r#in))?;
        let want = read(&folder.join(&case.want))?;
        let judged = judge(&injector, &given, &want);
        let name = format!("{} with {:?}", case.want, case.set);
        cases.push(match on_purpose(&case.want) {
            Some(reason) if judged.is_err() => Case { name, verdict: Verdict::OnPurpose(reason) },
            _ => Case::judged(name, judged),
        });
    }
    Ok(cases)
}

/// Cases in which we differ and mean to.
const ON_PURPOSE: &[(&str, &str)] = &[];

fn on_purpose(want: &str) -> Option<&'static str> {
    ON_PURPOSE.iter().find(|(case, _)| *case == want).map(|(_, reason)| *reason)
}

/// Where the expected images come from: a setting of the one who made the data.
pub(super) fn hub(folder: &Path) -> anyhow::Result<String> {
    let text = read(&folder.join("hello.yaml.injected"))?;
    let image =
        text.lines().find_map(|line| line.trim().strip_prefix("image: ")?.split_once("/proxyv2:"));
    Ok(image.context("no image of a proxy in hello.yaml.injected")?.0.to_owned())
}

fn injector(hub: &str, set: &[String]) -> anyhow::Result<Injector> {
    let mut values = Values::builtin();
    values.set("global.hub", hub.into());
    // The expectations are of a version that no longer says which tokens it uses.
    values.set("global.jwtPolicy", "".into());
    for assignment in set {
        let (path, value) = assignment.split_once('=').context("no = in a setting")?;
        let value = ironsail_yaml::parse::<Value>(value).unwrap_or_else(|_| value.into());
        let value = if value.is_null() { "".into() } else { value };
        match path {
            "components.cni.enabled" => values.set("pilot.cni.enabled", value),
            "values.cni.provider" => values.set("pilot.cni.provider", value),
            other => values.set(other.strip_prefix("values.").context("not a value")?, value),
        }
    }
    let config = Config::from_values(&values)?;
    Ok(Injector::new(config, values, Mesh::default(), Settings::default())?)
}

fn judge(injector: &Injector, given: &str, want: &str) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let wanted = ironsail_yaml::documents(want).map_err(|e| text(&e))?;
    let got = manifest(injector, given).map_err(|e| text(&e))?;
    let got = ironsail_yaml::documents(&got.yaml).map_err(|e| text(&e))?;
    if got.len() != wanted.len() {
        return Err(format!("{} documents instead of {}", got.len(), wanted.len()));
    }
    for (got, want) in got.iter().zip(&wanted) {
        same("kube-inject", got, want)?;
    }
    for (given, want) in ironsail_yaml::documents(given).map_err(|e| text(&e))?.iter().zip(&wanted)
    {
        for (given, want) in pods(given).into_iter().zip(pods(want)) {
            same("webhook", &by_webhook(injector, &given)?, &want)?;
        }
    }
    Ok(())
}

/// The pods that a workload makes, as far as injection cares.
fn pods(object: &Value) -> Vec<Value> {
    if object["kind"] == "List" {
        return object["items"].as_array().into_iter().flatten().flat_map(pods).collect();
    }
    let spec = &object["spec"];
    let (metadata, spec) = match object["kind"].as_str() {
        Some("Pod") => return vec![object.clone()],
        Some("CronJob") => {
            (&spec["jobTemplate"]["metadata"], &spec["jobTemplate"]["spec"]["template"]["spec"])
        }
        Some(
            "Deployment"
            | "StatefulSet"
            | "DaemonSet"
            | "ReplicaSet"
            | "Job"
            | "DeploymentConfig"
            | "ReplicationController",
        ) => (&spec["template"]["metadata"], &spec["template"]["spec"]),
        _ => return Vec::new(),
    };
    let mut metadata = metadata.clone();
    if metadata.is_null() {
        metadata = json!({});
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    metadata["generateName"] = format!("{name}-").into();
    if metadata["namespace"].is_null() {
        metadata["namespace"] = object["metadata"]["namespace"].clone();
    }
    metadata["ownerReferences"] = json!([{ "apiVersion": object["apiVersion"],
        "kind": object["kind"], "name": name, "controller": true }]);
    vec![json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })]
}

fn by_webhook(injector: &Injector, pod: &Value) -> Result<Value, String> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default");
    let request = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": { "uid": "u", "kind": { "kind": "Pod" }, "namespace": namespace,
                     "object": pod } });
    let answer = review(injector, "/inject", request.to_string().as_bytes());
    let answer: Value = serde_json::from_slice(&answer).map_err(|e| e.to_string())?;
    let response = &answer["response"];
    if response["allowed"] != true {
        return Err(format!("the webhook refuses: {}", response["status"]["message"]));
    }
    let Some(patch) = response["patch"].as_str() else { return Ok(pod.clone()) };
    let patch =
        base64::engine::general_purpose::STANDARD.decode(patch).map_err(|e| e.to_string())?;
    let patch: Value = serde_json::from_slice(&patch).map_err(|e| e.to_string())?;
    // A namespace that the request knew is in the patch's pod too.
    let mut pod = pod.clone();
    pod["metadata"]["namespace"] = namespace.into();
    let mut patched = ironsail_patch::json_patch(&pod, &patch).map_err(|e| e.to_string())?;
    if namespace == "default"
        && let Some(metadata) = patched["metadata"].as_object_mut()
    {
        metadata.remove("namespace");
    }
    Ok(patched)
}

fn same(road: &str, got: &Value, want: &Value) -> Result<(), String> {
    let (got, want) = (normal(got), normal(want));
    match difference(&got, &want, "") {
        None => Ok(()),
        Some(difference) => Err(format!("{road}: {difference}")),
    }
}

/// Without what says nothing, and with the JSON inside texts as trees.
pub(super) fn normal(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter_map(|(key, value)| {
                let value = normal(value);
                (!says_nothing(key, &value)).then(|| (key.clone(), value))
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            serde_json::from_str::<Value>(text).map_or_else(|_| value.clone(), |tree| normal(&tree))
        }
        other => other.clone(),
    }
}

/// Whether Go's types write the field although nothing is in it, or leave it out although it is there.
fn says_nothing(key: &str, value: &Value) -> bool {
    let empty = value.as_object().is_some_and(|fields| fields.values().all(|v| *v == 0));
    match key {
        _ if value.is_null() => true,
        "status" | "strategy" | "updateStrategy" | "resources" | "metadata" => empty,
        "minReadySeconds" => *value == 0,
        "paused" | "test" => *value == false,
        _ => false,
    }
}

/// The first place where two trees differ.
fn difference(got: &Value, want: &Value, path: &str) -> Option<String> {
    match (got, want) {
        (Value::Object(got), Value::Object(want)) => {
            let keys: BTreeMap<&String, ()> =
                got.keys().chain(want.keys()).map(|k| (k, ())).collect();
            keys.into_keys().find_map(|key| {
                let (got, want) = (got.get(key), want.get(key));
                let path = format!("{path}/{key}");
                match (got, want) {
                    (Some(got), Some(want)) => difference(got, want, &path),
                    (Some(got), None) => Some(format!("{path}: {got} is too much")),
                    (None, Some(want)) => Some(format!("{path}: {want} is missing")),
                    (None, None) => None,
                }
            })
        }
        (Value::Array(got), Value::Array(want)) if got.len() == want.len() => (0..got.len())
            .find_map(|index| difference(&got[index], &want[index], &format!("{path}/{index}"))),
        _ if got == want => None,
        _ => Some(format!("{path}: {got} instead of {want}")),
    }
}
