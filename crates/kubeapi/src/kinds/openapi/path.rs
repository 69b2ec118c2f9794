//! The paths of one kind, with the operations that `kubectl` inspects.

use serde_json::{Map, Value, json};

use super::{PATCH, gvk, reference, schema_name};
use crate::kinds::Kind;

/// Adds the paths of a kind and its subresources.
pub(super) fn of(kind: &Kind, paths: &mut Map<String, Value>) {
    let root = match kind.group {
        "" => format!("/api/{}", kind.version),
        group => format!("/apis/{group}/{}", kind.version),
    };
    let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", kind.plural);
    let schema = schema_name(kind.package, kind.kind);
    let list = if kind.is_stored() { format!("{schema}List") } else { schema.clone() };
    let mut operations = Map::new();
    for verb in kind.verbs {
        match *verb {
            "list" => operations.insert("get".to_owned(), read(kind, "list", &list)),
            "create" => operations.insert("post".to_owned(), write(kind, "post", &schema)),
            "deletecollection" => {
                operations.insert("delete".to_owned(), read(kind, "deletecollection", &schema))
            }
            _ => None,
        };
    }
    operations.insert("parameters".to_owned(), place(kind, false));
    paths.insert(collection.clone(), Value::Object(operations));
    if kind.namespaced && kind.verbs.contains(&"list") {
        let everywhere = json!({"get": read(kind, "list", &list)});
        paths.insert(format!("{root}/{}", kind.plural), everywhere);
    }
    if !kind.is_stored() {
        return;
    }
    paths.insert(format!("{collection}/{{name}}"), item(kind, kind.verbs, &schema, gvk(kind, "")));
    for name in kind.subresources {
        let Some(part) = kind.subresource(name) else { continue };
        let body = crate::kinds::by_kind(part.group, part.version, part.kind);
        let schema = body.map_or(schema.clone(), |b| schema_name(b.package, b.kind));
        let named = json!({"group": part.group, "version": part.version, "kind": part.kind});
        let path = format!("{collection}/{{name}}/{name}");
        paths.insert(path, item(kind, part.verbs, &schema, named));
    }
}

fn item(kind: &Kind, verbs: &[&str], schema: &str, named: Value) -> Value {
    let mut operations = Map::new();
    for verb in verbs {
        let (method, mut operation) = match *verb {
            "get" => ("get", read(kind, "get", schema)),
            "update" => ("put", write(kind, "put", schema)),
            "patch" => ("patch", patch(kind, schema)),
            "delete" => ("delete", read(kind, "delete", schema)),
            "create" if verbs.len() < 3 => ("post", write(kind, "connect", schema)),
            _ => continue,
        };
        operation["x-kubernetes-group-version-kind"] = named.clone();
        operations.insert(method.to_owned(), operation);
    }
    operations.insert("parameters".to_owned(), place(kind, true));
    Value::Object(operations)
}

fn read(kind: &Kind, action: &str, schema: &str) -> Value {
    json!({
        "operationId": operation_id(kind, action),
        "responses": answers(schema),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk(kind, ""),
    })
}

fn write(kind: &Kind, action: &str, schema: &str) -> Value {
    json!({
        "operationId": operation_id(kind, action),
        "parameters": query(&["dryRun", "fieldManager", "fieldValidation"]),
        "requestBody": {"content": {"*/*": {"schema": reference(schema)}}, "required": true},
        "responses": answers(schema),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk(kind, ""),
    })
}

fn patch(kind: &Kind, schema: &str) -> Value {
    let mut operation = write(kind, "patch", schema);
    operation["parameters"] = query(&["dryRun", "fieldManager", "fieldValidation", "force"]);
    let mut content = Map::new();
    for media in [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ] {
        content.insert(media.to_owned(), json!({"schema": reference(PATCH)}));
    }
    operation["requestBody"]["content"] = Value::Object(content);
    operation
}

fn answers(schema: &str) -> Value {
    json!({"200": {
        "description": "OK",
        "content": {"application/json": {"schema": reference(schema)}},
    }})
}

fn query(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| {
            let kind = if *name == "force" { "boolean" } else { "string" };
            json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
        })
        .collect()
}

fn place(kind: &Kind, named: bool) -> Value {
    let names = [("name", named), ("namespace", kind.namespaced)];
    names
        .iter()
        .filter(|(_, wanted)| *wanted)
        .map(|(name, _)| {
            json!({
                "name": name, "in": "path", "required": true,
                "schema": {"type": "string", "uniqueItems": true},
            })
        })
        .collect()
}

fn operation_id(kind: &Kind, action: &str) -> String {
    let group = kind.group.split('.').next().unwrap_or_default();
    format!("{action}_{group}_{}_{}", kind.version, kind.plural)
}
