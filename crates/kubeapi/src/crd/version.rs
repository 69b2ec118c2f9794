//! One version of a definition, compiled: its schema, columns, paths and fields.

use std::sync::Arc;

use ironsail_patch::TypeInfo;
use ironsail_schema::{FieldError, Schema};
use serde_json::Value;

use super::column::{self, Column};
use super::jsonpath::Path;
use crate::registry::ScalePaths;

/// What is known of a version besides its names.
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
    pub(super) schema: Arc<Shape>,
    pub(super) columns: Vec<Column>,
    pub(super) has_status: bool,
    pub(super) scale: Option<ScalePaths>,
    /// Name for selectors, and where the value is.
    pub(super) selectable: Vec<(String, Path)>,
}

/// A schema and the type made from it. Versions with the same schema share one.
pub(super) struct Shape {
    pub(super) schema: Schema,
    pub(super) info: TypeInfo,
}

/// Compiles all versions. The definition was checked when it was stored.
pub(super) fn compile(definition: &Value) -> Result<Vec<Version>, Vec<FieldError>> {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut out: Vec<Version> = Vec::new();
    for (at, version) in versions.iter().enumerate() {
        let raw = &version["schema"]["openAPIV3Schema"];
        let same =
            versions[..at].iter().position(|other| other["schema"]["openAPIV3Schema"] == *raw);
        let shape = match same {
            Some(same) => out[same].schema.clone(),
            None => {
                let schema =
                    Schema::parse(raw, &format!("spec.versions[{at}].schema.openAPIV3Schema"))?;
                let info = TypeInfo::from_schema(&schema);
                Arc::new(Shape { schema, info })
            }
        };
        out.push(one(version, shape));
    }
    Ok(out)
}

fn one(version: &Value, schema: Arc<Shape>) -> Version {
    let subresources = &version["subresources"];
    let selectable =
        version["selectableFields"].as_array().into_iter().flatten().filter_map(|field| {
            let text = field["jsonPath"].as_str()?;
            Some((text.trim_start_matches('.').to_owned(), Path::parse(text).ok()?))
        });
    Version {
        name: version["name"].as_str().unwrap_or_default().to_owned(),
        served: version["served"] == true,
        storage: version["storage"] == true,
        columns: column::of_version(version),
        has_status: subresources["status"].is_object(),
        scale: scale(&subresources["scale"]),
        selectable: selectable.collect(),
        schema,
    }
}

fn scale(scale: &Value) -> Option<ScalePaths> {
    let pointer = |key: &str| Path::parse(scale[key].as_str()?).ok()?.pointer();
    Some(ScalePaths {
        spec_replicas: pointer("specReplicasPath")?,
        status_replicas: pointer("statusReplicasPath")?,
        selector: pointer("labelSelectorPath"),
    })
}
