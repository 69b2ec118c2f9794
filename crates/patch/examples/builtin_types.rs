//! Makes `src/builtin/types.txt`: OpenAPI v3 documents of a kube-apiserver (files named as arguments)
//! come in, the type table goes out on standard output. The form of the table is described in
//! `src/builtin.rs`.
//!
//! ```text
//! for g in api/v1 apis/apps/v1 …; do kubectl get --raw /openapi/v3/$g > …; done
//! cargo run -p ironsail-patch --example builtin_types -- *.json > crates/patch/src/builtin/types.txt
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

fn main() {
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    for file in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&file).expect("the named file can be read");
        let doc: Value = serde_json::from_str(&text).expect("the named file is JSON");
        if let Some(all) = doc["components"]["schemas"].as_object() {
            schemas.extend(all.iter().map(|(name, schema)| (name.clone(), schema.clone())));
        }
    }
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let mut wanted: Vec<String> = Vec::new();
    for (name, schema) in &schemas {
        for gvk in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let [group, version, kind] =
                ["group", "version", "kind"].map(|key| gvk[key].as_str().unwrap_or_default());
            // DeleteOptions and WatchEvent carry the kinds of every group; they are never stored.
            let is_meta = name.contains("apimachinery");
            if !is_meta && !kind.ends_with("List") {
                kinds.insert(format!("@{group}/{version}/{kind}"), short(name));
                wanted.push(name.clone());
            }
        }
    }
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if seen.insert(name.clone()) {
            lines.insert(short(&name), definition(&name, &schemas[&name], &mut wanted));
        }
    }
    for (kind, name) in kinds {
        println!("{kind} {name}");
    }
    for (name, line) in lines {
        println!("{name} {line}");
    }
}

/// `io.k8s.api.core.v1.Pod` → `core.v1.Pod`.
fn short(name: &str) -> String {
    let parts: Vec<_> = name.split('.').collect();
    parts[parts.len().saturating_sub(3)..].join(".")
}

fn definition(name: &str, schema: &Value, wanted: &mut Vec<String>) -> String {
    let atomic = schema["x-kubernetes-map-type"] == "atomic";
    if name.ends_with(".Quantity") {
        return "= x".to_owned();
    }
    if name.ends_with(".RawExtension") {
        return "= ?".to_owned();
    }
    let Some(fields) = schema["properties"].as_object() else {
        return format!("= {}", expression(schema, wanted));
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut line = String::from(if atomic { "!" } else { ":" });
    for (field, schema) in fields {
        line.push_str(&format!(" {field}={}", expression(schema, wanted)));
        let required = required.iter().any(|name| name.as_str() == Some(field));
        if let Some(default) = schema.get("default").filter(|d| !d.is_array()) {
            line.push_str(&format!("^{default}"));
        } else if required {
            line.push_str("^null");
        }
        let strategy = schema["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
        if strategy.contains("merge") || strategy.contains("retainKeys") {
            line.push('%');
            line.push_str(if strategy.contains("merge") { "m" } else { "" });
            line.push_str(if strategy.contains("retainKeys") { "r" } else { "" });
            if let Some(key) = schema["x-kubernetes-patch-merge-key"].as_str() {
                line.push_str(&format!(":{key}"));
            }
        }
    }
    line
}

fn expression(schema: &Value, wanted: &mut Vec<String>) -> String {
    let reference = schema["$ref"].as_str().or_else(|| match schema["allOf"].as_array() {
        Some(all) if all.len() == 1 => all[0]["$ref"].as_str(),
        _ => None,
    });
    if let Some(reference) = reference {
        let name = reference.rsplit('/').next().expect("rsplit gives at least one part").to_owned();
        let relation = match schema["x-kubernetes-map-type"].as_str() {
            Some("atomic") => "!",
            Some("granular") => "+",
            _ => "",
        };
        let out = format!("{}{relation}", short(&name));
        wanted.push(name);
        return out;
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => "n".to_owned(),
        Some("boolean") => "b".to_owned(),
        Some("string") => match schema["format"].as_str() {
            None | Some("" | "byte") => "s".to_owned(),
            _ => "x".to_owned(),
        },
        Some("array") => {
            let element = expression(&schema["items"], wanted);
            let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            match schema["x-kubernetes-list-type"].as_str() {
                Some("map") => format!("[{element};{}]", keys.join(",")),
                Some("set") => format!("[{element};]"),
                _ => format!("[{element}]"),
            }
        }
        Some("object") => {
            let element = match &schema["additionalProperties"] {
                Value::Object(_) => expression(&schema["additionalProperties"], wanted),
                _ => "~".to_owned(),
            };
            let atomic = schema["x-kubernetes-map-type"] == "atomic";
            format!("{{{element}}}{}", if atomic { "!" } else { "" })
        }
        _ => "~".to_owned(),
    }
}
