//! Family `crds`: the custom resources of the mesh.
//!
//! One case a definition: ours, generated from the types, must say the same as the published one. What
//! is only for people (descriptions) or for Helm (labels, annotations) is not compared.

use std::path::Path;

use anyhow::Context;
use ironsail_schema::Schema;
use serde_json::{Map, Value};

use super::{Case, read};

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let text = read(&folder.join("crd-all.gen.yaml"))?;
    let published = ironsail_yaml::documents(&text).context("crd-all.gen.yaml")?;
    let ours = ironsail_api::crd::all();
    let judge = |published: Value| {
        let name = published["metadata"]["name"].as_str().unwrap_or("unnamed").to_owned();
        let own = ours.iter().find(|own| own["metadata"]["name"] == published["metadata"]["name"]);
        let result = own.ok_or_else(|| "we have none".to_owned()).and_then(|own| {
            let (own, published) = (essence(&own["spec"]), essence(&published["spec"]));
            difference("spec", &own, &published).map_or(Ok(()), Err)
        });
        Case::judged(name, result)
    };
    Ok(published.into_iter().map(judge).collect())
}

/// Kind and schema of every version that we serve.
pub(super) fn schemas() -> Vec<(String, Result<Schema, String>)> {
    let mut schemas = Vec::new();
    for definition in ironsail_api::crd::all() {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for version in spec["versions"].as_array().into_iter().flatten() {
            let schema = Schema::parse(&version["schema"]["openAPIV3Schema"], "schema")
                .map_err(|errors| ironsail_schema::field::aggregate(&errors));
            let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
            schemas.push((format!("{group}/{} {kind}", text(&version["name"])), schema));
        }
    }
    schemas
}

/// Without descriptions, and with lists whose order means nothing in order.
fn essence(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            // A property may be called "description"; its schema is an object, not text.
            let keep =
                |(key, value): &(&String, &Value)| *key != "description" || !value.is_string();
            let kept: Map<_, _> =
                map.iter().filter(keep).map(|(key, value)| (key.clone(), essence(value))).collect();
            Value::Object(kept)
        }
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(essence).collect();
            if items.iter().all(Value::is_string) {
                items.sort_by_key(ToString::to_string);
            }
            Value::Array(items)
        }
        other => other.clone(),
    }
}

/// The first place where two values differ.
fn difference(path: &str, own: &Value, published: &Value) -> Option<String> {
    match (own, published) {
        (Value::Object(own), Value::Object(published)) => {
            let extra = own.keys().find(|key| !published.contains_key(*key));
            if let Some(key) = extra {
                return Some(format!("{path}.{key} is only in ours"));
            }
            published.iter().find_map(|(key, value)| match own.get(key) {
                Some(own) => difference(&format!("{path}.{key}"), own, value),
                None => Some(format!("{path}.{key} is missing in ours")),
            })
        }
        (Value::Array(own), Value::Array(published)) if own.len() == published.len() => {
            own.iter().zip(published).enumerate().find_map(|(i, (own, published))| {
                difference(&format!("{path}[{i}]"), own, published)
            })
        }
        // `100` and `100.0` are the same limit.
        (Value::Number(own), Value::Number(published)) if own.as_f64() == published.as_f64() => {
            None
        }
        _ if own == published => None,
        _ => Some(format!("{path}: {own} instead of {published}")),
    }
}
