//! The generated CRDs against the code that reads objects.

use ironsail_schema::Schema;

use super::*;
use crate::{Object, decode};

fn schema(kind: Kind) -> Value {
    let crd = definition(kind).expect("it has a CRD");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

#[test]
fn every_schema_is_structural() {
    for kind in Kind::istio() {
        if let Err(errors) = Schema::parse(&schema(kind), "schema") {
            panic!("{kind}: {}", ironsail_schema::field::aggregate(&errors));
        }
    }
}

#[test]
fn exactly_one_version_is_kept() {
    for crd in all() {
        let versions = crd["spec"]["versions"].as_array().unwrap();
        assert_eq!(versions.iter().filter(|v| v["storage"] == true).count(), 1, "{crd}");
    }
}

#[test]
fn descriptions_are_everywhere() {
    fn check(path: &str, node: &Value) {
        for (name, property) in node["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            assert!(property["description"].is_string(), "{path}");
            check(&path, property);
            check(&path, &property["items"]);
        }
    }
    for kind in Kind::istio() {
        check(kind.name(), &schema(kind)["properties"]["spec"]);
    }
}

/// A value that has every property of a schema, or nearly: of alternatives, the `pick`th.
fn sample(node: &Value, pick: usize) -> Value {
    if node["x-kubernetes-int-or-string"] == true {
        return json!(1);
    }
    match node["type"].as_str() {
        Some("string") if node["enum"].is_array() => node["enum"][pick % 2].clone(),
        Some("string") if node["format"] == "byte" => json!("YQ=="),
        Some("string") => json!("1s"),
        Some("integer") => json!(1),
        Some("number") => json!(1.5),
        Some("boolean") => json!(true),
        Some("array") => json!([sample(&node["items"], pick), sample(&node["items"], pick + 1)]),
        _ if node["additionalProperties"].is_object() => {
            json!({"1": sample(&node["additionalProperties"], pick)})
        }
        _ => {
            let mut object = serde_json::Map::new();
            for (name, property) in node["properties"].as_object().into_iter().flatten() {
                // The second spelling of a field that is there already.
                if !name.contains('_') {
                    object.insert(name.clone(), sample(property, pick));
                }
            }
            let groups = [&node["oneOf"], &node["allOf"][0]["oneOf"], &node["allOf"][1]["oneOf"]];
            for group in groups {
                let fields: Vec<_> = (group.as_array().into_iter().flatten())
                    .filter_map(|one| one["required"][0].as_str())
                    .collect();
                for (index, field) in fields.iter().enumerate() {
                    if index != pick % fields.len() {
                        object.remove(*field);
                    }
                }
            }
            Value::Object(object)
        }
    }
}

/// Every field of the schema is read, kept, and written again.
#[test]
fn no_field_of_a_schema_is_lost_in_reading() {
    for kind in Kind::istio() {
        let node = &schema(kind)["properties"]["spec"];
        for pick in 0..6 {
            let spec = sample(node, pick);
            let object = json!({"metadata": {"name": "x"}, "spec": spec});
            let decoded = decode(kind, &object);
            assert_eq!(decoded.diagnostics, [], "{kind} {pick}");
            let written = decoded.object.as_ref().map(Object::spec).unwrap();
            let again = decode(kind, &json!({"metadata": {"name": "x"}, "spec": written}));
            assert_eq!(again.object, decoded.object, "{kind} {pick}");
            let lost = lost("spec", &spec, &written);
            assert!(lost.is_empty(), "{kind} {pick}: {lost:?}");
        }
    }
}

/// Paths in `before` that `after` lacks, apart from defaults, which need not be written.
fn lost(path: &str, before: &Value, after: &Value) -> Vec<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => before
            .iter()
            .flat_map(|(name, value)| match after.get(name) {
                Some(after) => lost(&format!("{path}.{name}"), value, after),
                None if value.is_string() && value != "1s" => vec![],
                None => vec![format!("{path}.{name}")],
            })
            .collect(),
        (Value::Array(before), Value::Array(after)) => (before.iter().zip(after).enumerate())
            .flat_map(|(i, (before, after))| lost(&format!("{path}[{i}]"), before, after))
            .collect(),
        _ if before == after => vec![],
        _ => vec![format!("{path}: {before} became {after}")],
    }
}
