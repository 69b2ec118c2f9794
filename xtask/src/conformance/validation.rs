//! Family `validation`: objects that must be accepted, and objects that must be refused with a text.
//!
//! Judged by the schemas and their rules alone. What only the control plane's webhook can refuse is
//! listed as such and does not count as passed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use ironsail_schema::Schema;
use serde_json::Value;

use super::{Case, Verdict, crd, read};

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let definitions = folder.parent().context("the data has no folder")?.join("crds");
    let schemas: BTreeMap<String, Schema> = crd::schemas(&definitions)?
        .into_iter()
        .filter_map(|(name, schema)| Some((name, schema.ok()?)))
        .collect();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .with_context(|| format!("listing {}", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut cases = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "yaml")) {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let documents = ironsail_yaml::documents(&read(file)?)
            .with_context(|| format!("in {}", file.display()))?;
        for (index, document) in documents.into_iter().filter(|d| !d.is_null()).enumerate() {
            let name = document["metadata"]["name"].as_str().unwrap_or("unnamed").to_owned();
            let name = format!("{stem} {} {name}", index + 1);
            let verdict = match judge(&schemas, document) {
                Verdict::Failed(said) => on_purpose(&name).unwrap_or(Verdict::Failed(said)),
                verdict => verdict,
            };
            cases.push(Case { name, verdict });
        }
    }
    Ok(cases)
}

/// Cases in which a Kubernetes API server of today says something else, and so do we.
const ON_PURPOSE: &[(&str, &str)] = &[
    (
        "envoyfilter-invalid 1 ",
        "since Kubernetes 1.36 a rule about an object does not show its value",
    ),
    (
        "envoyfilter-invalid 2 ",
        "since Kubernetes 1.36 a rule about an object does not show its value",
    ),
];

fn on_purpose(name: &str) -> Option<Verdict> {
    let known = ON_PURPOSE.iter().find(|(case, _)| name.starts_with(case));
    known.map(|(_, reason)| Verdict::OnPurpose(reason))
}

fn judge(schemas: &BTreeMap<String, Schema>, mut object: Value) -> Verdict {
    let expected = object.as_object_mut().and_then(|fields| fields.remove("_err"));
    let expected = expected.as_ref().and_then(Value::as_str);
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let kind = format!("{} {}", text("apiVersion"), text("kind"));
    let Some(schema) = schemas.get(&kind) else {
        return Verdict::Failed(format!("there is no usable definition of {kind}"));
    };
    // A server would drop nulls before this; the expectations are about the schema alone.
    schema.default_object(&mut object);
    schema.prune(&mut object);
    let errors = schema.validate(&object, None);
    let said = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    match expected {
        None if errors.is_empty() => Verdict::Passed,
        None => Verdict::Failed(format!("is refused: {said}")),
        Some(text) if said.contains(text) => Verdict::Passed,
        Some(_) if errors.is_empty() => Verdict::Needs("the webhook"),
        Some(text) => Verdict::Failed(format!("{said:?} does not contain {text:?}")),
    }
}
