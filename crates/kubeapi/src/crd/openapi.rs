//! The OpenAPI v3 schemas of a custom resource, for `kubectl explain` and checks by clients.

use serde_json::{Map, Value, json};

use crate::kinds;
use crate::registry::Names;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The schemas of one version of a definition: the kind, its list, and what they refer to.
pub(super) fn schemas(definition: &Value, names: &Names) -> Vec<(String, Value)> {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let version = versions.into_iter().find(|version| version["name"] == *names.version);
    let mut schema =
        version.map_or(Value::Null, |version| version["schema"]["openAPIV3Schema"].clone());
    complete(&mut schema);
    let gvk =
        |kind: &str| json!([{"group": &*names.group, "version": &*names.version, "kind": kind}]);
    schema["x-kubernetes-group-version-kind"] = gvk(&names.kind);
    let name = component(names, &names.kind);
    let list = json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": reference(&format!("{META}.ListMeta")),
            "items": {"type": "array", "items": reference(&name)},
        },
        "x-kubernetes-group-version-kind": gvk(&names.list_kind),
    });
    let mut out: Vec<_> = metadata_schemas().into_iter().collect();
    out.push((component(names, &names.list_kind), list));
    out.push((name, schema));
    out
}

/// `networking.istio.io` and `Gateway` give `io.istio.networking.v1.Gateway`.
fn component(names: &Names, kind: &str) -> String {
    let mut parts: Vec<&str> = names.group.split('.').collect();
    parts.reverse();
    format!("{}.{}.{kind}", parts.join("."), names.version)
}

fn reference(name: &str) -> Value {
    json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]})
}

/// Adds the fields that every object has, where an object is or is embedded.
fn complete(schema: &mut Value) {
    let Value::Object(map) = schema else {
        *schema = json!({"type": "object"});
        complete(schema);
        return;
    };
    add_object_fields(map);
    embedded(schema);
}

fn add_object_fields(map: &mut Map<String, Value>) {
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    for (name, description) in [
        ("apiVersion", "The version of the schema that this object follows."),
        ("kind", "The kind of this object."),
    ] {
        if properties[name].is_null() {
            properties[name] = json!({"type": "string", "description": description});
        }
    }
    let mut metadata = reference(&format!("{META}.ObjectMeta"));
    metadata["description"] = "The metadata that every object has.".into();
    properties["metadata"] = metadata;
}

fn embedded(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if map.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        add_object_fields(map);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(below) = map.get_mut(name) {
            embedded(below);
        }
    }
    for below in map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        embedded(below.1);
    }
}

/// The schemas of metadata are those of any built-in group.
fn metadata_schemas() -> Map<String, Value> {
    let document = kinds::openapi("coordination.k8s.io", "v1");
    let all = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    all.into_iter().filter(|(name, _)| name.starts_with(META)).collect()
}
