//! OpenAPI v3 documents of the built-in groups, made from the wire types on request.
//!
//! In: a group and version. Out: the schemas of its kinds with everything they refer to; the paths
//! are added by the caller, who knows what is served. Nothing is kept: a document is large and rarely
//! asked for.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::wire::{Field, StructId, Type, types};
use super::{Kind, all, embedded};

mod about;

const SCHEMAS: &str = "#/components/schemas/";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";

/// The document for one group and version; without schemas if there is no such.
pub fn openapi(group: &str, version: &str) -> Value {
    let mut schemas = Schemas { done: Map::new(), open: Vec::new(), seen: BTreeSet::new() };
    for kind in all().iter().filter(|k| k.group == group && k.version == version) {
        schemas.kind(kind);
        if kind.is_stored() {
            schemas.list(kind);
        }
        for name in kind.subresources {
            if let Some(body) = kind.subresource(name)
                && let Some(body) = super::by_kind(&body.group, &body.version, &body.kind)
            {
                schemas.kind(body);
            }
        }
    }
    for kind in embedded().iter().filter(|k| k.group == group && k.version == version) {
        schemas.kind(kind);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": {},
        "components": {"schemas": schemas.finish()},
    })
}

/// As in `io.k8s.api.core.v1.Pod`.
fn schema_name(package: &str, name: &str) -> String {
    match package {
        "meta.v1" => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
        "apiextensions.v1" => {
            format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}")
        }
        _ => format!("io.k8s.api.{package}.{name}"),
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{SCHEMAS}{name}")})
}

struct Schemas {
    done: Map<String, Value>,
    open: Vec<StructId>,
    seen: BTreeSet<(&'static str, &'static str)>,
}

impl Schemas {
    fn kind(&mut self, kind: &Kind) {
        let Some(id) = types().find(kind.package, kind.kind) else { return };
        self.need(id);
        self.drain();
        if let Some(schema) = self.done.get_mut(&schema_name(kind.package, kind.kind)) {
            schema["x-kubernetes-group-version-kind"] = json!([gvk(kind, "")]);
            schema["description"] = json!(about::kind(kind.kind));
        }
    }

    fn list(&mut self, kind: &Kind) {
        let item = schema_name(kind.package, kind.kind);
        let meta = types().find("meta.v1", "ListMeta").expect("lists have metadata (tested)");
        self.need(meta);
        let list = json!({
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"default": {}, "allOf": [reference(&schema_name("meta.v1", "ListMeta"))]},
                "items": {"type": "array", "items": {"default": {}, "allOf": [reference(&item)]}},
            },
            "x-kubernetes-group-version-kind": [gvk(kind, "List")],
        });
        self.done.insert(format!("{item}List"), list);
    }

    fn need(&mut self, id: StructId) {
        let shape = types().get(id);
        if self.seen.insert((shape.package, shape.name)) {
            self.open.push(id);
        }
    }

    fn drain(&mut self) {
        while let Some(id) = self.open.pop() {
            let shape = types().get(id);
            let mut properties = Map::new();
            let mut required = Vec::new();
            for field in &shape.fields {
                properties.insert(field.name.to_owned(), self.property(field));
                if field.required {
                    required.push(field.name);
                }
            }
            let mut schema = json!({"type": "object"});
            if !properties.is_empty() {
                schema["properties"] = Value::Object(properties);
            }
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            if shape.atomic {
                schema["x-kubernetes-map-type"] = json!("atomic");
            }
            self.done.insert(schema_name(shape.package, shape.name), schema);
        }
    }

    fn property(&mut self, field: &Field) -> Value {
        let mut schema = self.value(&field.kind, !field.pointer);
        match field.merge.map(|m| m.split_once(':').unwrap_or((m, ""))) {
            Some((kind, keys)) if matches!(field.kind.plain(), Type::List(_)) => {
                schema["x-kubernetes-list-type"] = json!(kind);
                if !keys.is_empty() {
                    schema["x-kubernetes-list-map-keys"] = keys.split(',').collect();
                }
            }
            Some((kind, _)) => schema["x-kubernetes-map-type"] = json!(kind),
            None => {}
        }
        if let Some(strategy) = field.patch_strategy {
            schema["x-kubernetes-patch-strategy"] = json!(strategy);
        }
        if let Some(key) = field.patch_key {
            schema["x-kubernetes-patch-merge-key"] = json!(key);
        }
        schema
    }

    fn value(&mut self, kind: &Type, defaults: bool) -> Value {
        match kind.plain() {
            Type::String | Type::Duration => json!({"type": "string"}),
            Type::Bool => json!({"type": "boolean"}),
            Type::Int { bits, .. } => json!({"type": "integer", "format": format!("int{bits}")}),
            Type::Float => json!({"type": "number", "format": "double"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Quantity => wrapped(QUANTITY, false),
            Type::IntOrString => wrapped(INT_OR_STRING, false),
            Type::Time => wrapped(TIME, false),
            Type::MicroTime => wrapped(MICRO_TIME, false),
            Type::Any | Type::OrBool(_) | Type::OrArray(_) | Type::OrStrings(_) => {
                if let Type::OrBool(id) | Type::OrArray(id) | Type::OrStrings(id) = kind.plain() {
                    self.need(*id);
                }
                json!({"x-kubernetes-preserve-unknown-fields": true})
            }
            Type::List(item) => json!({"type": "array", "items": self.value(item, true)}),
            Type::Map(item) => {
                json!({"type": "object", "additionalProperties": self.value(item, true)})
            }
            Type::Struct(id) => {
                self.need(*id);
                let shape = types().get(*id);
                wrapped(&schema_name(shape.package, shape.name), defaults)
            }
            Type::Named(..) => json!({}),
        }
    }

    fn finish(mut self) -> Value {
        self.drain();
        let mut add = |name: &str, schema: Value| self.done.insert(name.to_owned(), schema);
        add(QUANTITY, json!({"oneOf": [{"type": "string"}, {"type": "number"}]}));
        add(
            INT_OR_STRING,
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
        );
        add(TIME, json!({"type": "string", "format": "date-time"}));
        add(MICRO_TIME, json!({"type": "string", "format": "date-time"}));
        Value::Object(self.done)
    }
}

/// A reference beside which other keys may stand.
fn wrapped(name: &str, defaults: bool) -> Value {
    let mut schema = json!({"allOf": [reference(name)]});
    if defaults {
        schema["default"] = json!({});
    }
    schema
}

fn gvk(kind: &Kind, suffix: &str) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": format!("{}{suffix}", kind.kind)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_in_every_document_resolves() {
        let groups: BTreeSet<_> =
            all().iter().chain(embedded()).map(|k| (k.group, k.version)).collect();
        assert!(groups.len() > 15);
        for (group, version) in groups {
            let document = openapi(group, version);
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let text = document.to_string();
            for part in text.split("\"#/components/schemas/").skip(1) {
                let name = part.split('"').next().unwrap();
                assert!(schemas.contains_key(name), "{group}/{version}: {name}");
            }
        }
    }

    #[test]
    fn every_kind_is_described() {
        for kind in all().iter().chain(embedded()) {
            assert!(!about::kind(kind.kind).is_empty(), "{}", kind.kind);
        }
    }

    #[test]
    fn kubectl_finds_what_it_looks_for() {
        let document = openapi("apps", "v1");
        let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
        let containers = &spec["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        let deployment = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
        assert!(deployment["description"].as_str().unwrap().contains("rolling"));
        let nothing = openapi("nope", "v1");
        assert_eq!(nothing["components"]["schemas"].get("io.k8s.api.core.v1.Pod"), None);
    }
}
