//! Manifests of users: YAML documents in, the same with proxies out, for `kube-inject`.
//!
//! Documents of kinds that make no pods go out as they came, letter for letter.

use serde_json::Value;

use crate::error::Error;
use crate::injector::{Injector, Outcome, Subject};
use crate::object::{at, list_mut, section, text};
use crate::owner::Owner;
use crate::policy::Skip;

/// More output than this is no manifest.
const LONGEST: usize = 64 << 20;
/// Lists in lists.
const DEEPEST_LIST: usize = 4;

/// What became of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub yaml: String,
    /// What was left alone, and why.
    pub warnings: Vec<String>,
}

/// Where an object keeps the metadata and the spec of its pods.
struct Place {
    metadata: &'static [&'static str],
    spec: &'static [&'static str],
    shown: &'static str,
}

const TEMPLATE: Place = Place {
    metadata: &["spec", "template", "metadata"],
    spec: &["spec", "template", "spec"],
    shown: "spec.template.spec",
};
// Users of `kube-inject` know the annotations on the Job that a CronJob makes.
const CRON_JOB: Place = Place {
    metadata: &["spec", "jobTemplate", "metadata"],
    spec: &["spec", "jobTemplate", "spec", "template", "spec"],
    shown: "spec.jobTemplate.spec.template.spec",
};
const POD: Place = Place { metadata: &["metadata"], spec: &["spec"], shown: "spec" };

/// Injects every document of the text.
pub fn manifest(injector: &Injector, yaml: &str) -> Result<Manifest, Error> {
    let mut out = Manifest { yaml: String::new(), warnings: Vec::new() };
    for (index, raw) in split(yaml).into_iter().enumerate() {
        let wrong = |reason: String| Error::Document { index: index + 1, reason };
        let documents = ironsail_yaml::documents(raw).map_err(|error| wrong(error.to_string()))?;
        let Some(mut document) = documents.into_iter().next() else { continue };
        if object(injector, &mut document, &mut out.warnings, 0)? {
            let text = ironsail_gotemplate::to_yaml(&document, LONGEST);
            out.yaml.push_str(&text.map_err(|error| wrong(error.to_string()))?);
        } else {
            out.yaml.push_str(raw);
            if !raw.ends_with('\n') {
                out.yaml.push('\n');
            }
        }
        out.yaml.push_str("---\n");
    }
    Ok(out)
}

/// The documents as text. A document ends at a line that starts with `---`.
fn split(yaml: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in yaml.split_inclusive('\n') {
        if line.starts_with("---") {
            documents.push(&yaml[start..at]);
            start = at + line.len();
        }
        at += line.len();
    }
    documents.push(&yaml[start..]);
    documents
}

/// Injects an object in place; whether it was of a kind that has pods.
fn object(
    injector: &Injector,
    object: &mut Value,
    warnings: &mut Vec<String>,
    depth: usize,
) -> Result<bool, Error> {
    if is_list(object) && depth < DEEPEST_LIST {
        for item in list_mut(object, &["items"]).into_iter().flatten() {
            self::object(injector, item, warnings, depth + 1)?;
        }
        return Ok(true);
    }
    let Some(place) = place(object) else { return Ok(false) };
    let owner = match place.shown == POD.shown {
        true => Owner::of_pod(object),
        false => Owner {
            api_version: text(object, &["apiVersion"]).to_owned(),
            kind: text(object, &["kind"]).to_owned(),
            name: text(object, &["metadata", "name"]).to_owned(),
            namespace: text(object, &["metadata", "namespace"]).to_owned(),
        },
    };
    let spec = at(object, place.spec);
    if !spec.is_object() {
        let (kind, name) = (owner.kind, owner.name);
        return Err(Error::NoTemplate { kind, name, path: place.shown });
    }
    let mut pod = serde_json::json!({ "spec": spec });
    let metadata = at(object, place.metadata);
    if metadata.is_object() {
        pod["metadata"] = metadata.clone();
    }
    let namespace = match text(metadata, &["namespace"]) {
        "" => owner.namespace.clone(),
        namespace => namespace.to_owned(),
    };
    let full_name = match owner.namespace.as_str() {
        "" => owner.name.clone(),
        namespace => format!("{namespace}/{}", owner.name),
    };
    let kind = owner.kind.clone();
    let subject =
        Subject { pod: &pod, owner, namespace: &namespace, env: std::collections::BTreeMap::new() };
    match injector.inject(&subject)? {
        Outcome::Skipped(skip) => warnings.push(warning(&kind, &full_name, &skip)),
        Outcome::Injected(mut injected) => {
            *section(object, place.metadata) = section(&mut injected, &["metadata"]).clone();
            *section(object, place.spec) = section(&mut injected, &["spec"]).clone();
        }
    }
    Ok(true)
}

fn warning(kind: &str, name: &str, skip: &Skip) -> String {
    format!("===> Skipping injection because {kind} {name:?} {skip}")
}

fn is_list(object: &Value) -> bool {
    text(object, &["apiVersion"]) == "v1" && text(object, &["kind"]) == "List"
}

/// The kinds that have pods.
fn place(object: &Value) -> Option<Place> {
    let (api_version, kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
    match (api_version, kind) {
        ("v1", "Pod") => Some(POD),
        ("batch/v1" | "batch/v1beta1", "CronJob") => Some(CRON_JOB),
        ("v1", "ReplicationController")
        | ("batch/v1", "Job")
        | ("apps/v1", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("apps.openshift.io/v1" | "v1", "DeploymentConfig") => Some(TEMPLATE),
        _ => None,
    }
}
