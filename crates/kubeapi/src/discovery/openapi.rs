//! OpenAPI v3: an index of documents, one per group and version.
//!
//! The schemas come from the kinds and custom resources; the paths are made here, because clients
//! read from them which query parameters each resource understands.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::of_version;
use crate::kinds;
use crate::registry::{Definition, Registry};

/// `GET /openapi/v3`. Kept, because the hashes in it need every document.
pub(crate) fn index(registry: &Registry) -> Arc<Value> {
    registry.index(|| make_index(registry))
}

fn make_index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in super::groups(registry) {
        for version in versions {
            let path = match group.as_str() {
                "" => format!("api/{version}"),
                group => format!("apis/{group}/{version}"),
            };
            // The hash lets clients keep a document until it changes.
            let text = document(registry, &group, &version).map(|d| d.to_string());
            let hash = Sha256::digest(text.unwrap_or_default());
            let hash: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// `GET /openapi/v3/api/v1` and `GET /openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    if !registry.has_version(group, version) {
        return None;
    }
    let mut document = kinds::openapi(group, version);
    if !document.is_object() {
        document = json!({});
    }
    document["openapi"] = "3.0.0".into();
    document["info"] = json!({"title": "Kubernetes", "version": "v1.36.0"});
    for part in ["schemas"] {
        if !document["components"][part].is_object() {
            document["components"][part] = json!({});
        }
    }
    let mut paths = Map::new();
    for one in of_version(registry, group, version) {
        for (name, schema) in one.openapi() {
            document["components"]["schemas"][name] = schema;
        }
        add_paths(&mut paths, &*one);
    }
    document["paths"] = paths.into();
    Some(document)
}

fn add_paths(paths: &mut Map<String, Value>, one: &dyn Definition) {
    let names = one.names();
    let root = match &*names.group {
        "" => format!("/api/{}", names.version),
        group => format!("/apis/{group}/{}", names.version),
    };
    let scope = if names.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", names.plural);
    let object = format!("{collection}/{{name}}");
    let verbs = one.verbs();
    let mut add = |path: &str, method: &str, action: &str, write: bool| {
        let entry = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
        entry[method] = operation(one, action, write);
    };
    for verb in &verbs {
        match verb.as_str() {
            "list" => {
                add(&collection, "get", "list", false);
                if names.namespaced {
                    add(&format!("{root}/{}", names.plural), "get", "list", false);
                }
            }
            "create" => add(&collection, "post", "post", true),
            "deletecollection" => add(&collection, "delete", "deletecollection", false),
            "get" => add(&object, "get", "get", false),
            "update" => add(&object, "put", "put", true),
            "patch" => add(&object, "patch", "patch", true),
            "delete" => add(&object, "delete", "delete", false),
            _ => {}
        }
    }
    for name in one.subresources() {
        let Some(sub) = one.subresource(&name) else { continue };
        let path = format!("{object}/{name}");
        for verb in sub.verbs {
            match *verb {
                "get" => add(&path, "get", "get", false),
                "update" => add(&path, "put", "put", true),
                "patch" => add(&path, "patch", "patch", true),
                "create" => add(&path, "post", "post", true),
                _ => {}
            }
        }
    }
}

fn operation(one: &dyn Definition, action: &str, write: bool) -> Value {
    let names = one.names();
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters: Vec<_> = if write {
        ["dryRun", "fieldManager", "fieldValidation"].map(parameter).into()
    } else {
        Vec::new()
    };
    json!({
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": &*names.group,
            "version": &*names.version,
            "kind": &*names.kind,
        },
    })
}
