//! The way from client-side to server-side apply: fields that `kubectl apply` wrote itself before are
//! no conflict for `kubectl apply --server-side`, and its annotation is kept up to date.

use serde_json::Value;

use super::{Conflict, Writer, compare, walk};
use crate::TypeInfo;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations together may have so many bytes; a larger one is left out.
const MAX_BYTES: usize = 256 * 1024;

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|t| !t.is_empty())
}

/// The conflicts that remain when unchanged fields of the last client-side apply are set aside.
pub(super) fn unsettled(
    conflicts: Vec<Conflict>,
    live: &Value,
    writer: &Writer<'_>,
    ty: &TypeInfo,
) -> Vec<Conflict> {
    if writer.manager != "kubectl" {
        return conflicts;
    }
    let Some(last) = annotation(live).and_then(|text| serde_json::from_str::<Value>(text).ok())
    else {
        return conflicts;
    };
    let same_version = last.get("apiVersion").and_then(Value::as_str) == Some(writer.api_version);
    if !same_version || walk::check(ty, ty.root, &last, false).is_err() {
        return conflicts;
    }
    let changes = compare::compare(ty, &last, live);
    let settled = walk::field_set(ty, ty.root, &last)
        .difference(&changes.modified)
        .difference(&changes.added)
        .difference(&changes.removed);
    conflicts.into_iter().filter(|conflict| !settled.contains(conflict.path())).collect()
}

/// Brings the annotation in line with what was applied now, where there is one.
pub(super) fn renew(object: &mut Value, applied: &Value, writer: &Writer<'_>) {
    if writer.manager != "kubectl" || annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) =
        applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
        if annotations.is_empty()
            && let Some(metadata) = applied.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("annotations");
        }
    }
    // Kubernetes ends the text with a line feed.
    let text = format!("{applied}\n");
    let Some(annotations) =
        object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), Value::from(text));
    let bytes: usize =
        annotations.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if bytes > MAX_BYTES {
        annotations.remove(ANNOTATION);
    }
}
