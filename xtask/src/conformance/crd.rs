//! Family `crds`: the custom resources of the mesh.
//!
//! Until our own are generated, a case passes if its definition is a structural schema that ours can
//! hold: every version parses, and its object survives defaulting and pruning of an empty spec.

use std::path::Path;

use anyhow::Context;
use ironsail_schema::Schema;
use serde_json::{Value, json};

use super::{Case, read};

/// Kind, version and schema of every version that is served.
pub(super) fn schemas(folder: &Path) -> anyhow::Result<Vec<(String, Result<Schema, String>)>> {
    let text = read(&folder.join("crd-all.gen.yaml"))?;
    let documents = ironsail_yaml::documents(&text).context("crd-all.gen.yaml")?;
    let mut schemas = Vec::new();
    for definition in documents {
        let spec = &definition["spec"];
        let kind = spec["names"]["kind"].as_str().context("a definition without a kind")?;
        let group = spec["group"].as_str().context("a definition without a group")?;
        for version in spec["versions"].as_array().into_iter().flatten() {
            let name = version["name"].as_str().context("a version without a name")?;
            let schema = Schema::parse(&version["schema"]["openAPIV3Schema"], "schema")
                .map_err(|errors| ironsail_schema::field::aggregate(&errors));
            schemas.push((format!("{group}/{name} {kind}"), schema));
        }
    }
    Ok(schemas)
}

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let judged = schemas(folder)?.into_iter().map(|(name, schema)| {
        let result = schema.and_then(|schema| holds_an_object(&schema));
        Case::judged(name, result)
    });
    Ok(judged.collect())
}

fn holds_an_object(schema: &Schema) -> Result<(), String> {
    let mut object: Value = json!({"metadata": {"name": "x"}, "spec": {}, "no-such-field": 1});
    schema.default_object(&mut object);
    let dropped = schema.prune(&mut object);
    if dropped.len() == 1 && object.get("spec").is_some() {
        Ok(())
    } else {
        Err(format!("pruning dropped {dropped:?}"))
    }
}
