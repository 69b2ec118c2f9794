//! Family `validation`: objects that must be accepted, and objects that must be refused with a text.
//!
//! Judged as a cluster does: by the schemas of our own CRDs with their rules, then by what the control
//! plane's webhook says.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use ironsail_schema::{FieldError, Reason, Schema};
use serde_json::Value;

use super::{Case, crd, read};

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let schemas: BTreeMap<String, Schema> = crd::schemas()
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
            cases.push(Case::judged(name, judge(&schemas, document)));
        }
    }
    Ok(cases)
}

fn judge(schemas: &BTreeMap<String, Schema>, mut object: Value) -> Result<(), String> {
    let expected = object.as_object_mut().and_then(|fields| fields.remove("_err"));
    let expected = expected.as_ref().and_then(Value::as_str);
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let kind = format!("{} {}", text("apiVersion"), text("kind"));
    let Some(schema) = schemas.get(&kind) else {
        return Err(format!("there is no usable definition of {kind}"));
    };
    // A server would drop nulls before this; the expectations are about the schema alone.
    schema.default_object(&mut object);
    schema.prune(&mut object);
    let mut errors: Vec<_> = schema.validate(&object, None).iter().map(said).collect();
    if errors.is_empty() {
        errors = webhook(&object);
    }
    let said = errors.join("; ");
    match expected {
        None if errors.is_empty() => Ok(()),
        None => Err(format!("is refused: {said}")),
        Some(text) if said.contains(text) => Ok(()),
        Some(text) => Err(format!("{said:?} does not contain {text:?}")),
    }
}

/// The text of an error as the expectations have it: until Kubernetes 1.36 a rule about a whole object
/// was followed by the word "object", since then by nothing, as our text has it.
fn said(error: &FieldError) -> String {
    match error.reason {
        Reason::RuleInvalid => {
            format!("{}: Invalid value: \"object\": {}", error.path, error.detail)
        }
        _ => error.to_string(),
    }
}

/// The errors that the webhook would name.
fn webhook(object: &Value) -> Vec<String> {
    let Some(decoded) = ironsail_api::decode_any(object) else {
        return vec!["the kind is not known".to_owned()];
    };
    let mut found = decoded.diagnostics;
    if let Ok(object) = &decoded.object {
        found.extend(ironsail_api::validate(object));
    }
    found.iter().filter(|one| one.is_error()).map(ToString::to_string).collect()
}
