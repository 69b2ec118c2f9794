//! What turns one JSON value into another, as a JSON patch.

use serde_json::{Value, json};

/// Applied to `from`, the patch gives `to`.
pub fn json_patch_between(from: &Value, to: &Value) -> Value {
    let mut operations = Vec::new();
    compare(from, to, &mut String::new(), &mut operations);
    Value::Array(operations)
}

fn compare(from: &Value, to: &Value, path: &mut String, out: &mut Vec<Value>) {
    if from == to {
        return;
    }
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for key in from.keys().filter(|key| !to.contains_key(*key)) {
                out.push(json!({ "op": "remove", "path": member(path, key) }));
            }
            for (key, value) in to {
                let length = path.len();
                path.push_str(&member("", key));
                match from.get(key) {
                    Some(before) => compare(before, value, path, out),
                    None => out.push(json!({ "op": "add", "path": &*path, "value": value })),
                }
                path.truncate(length);
            }
        }
        (Value::Array(from), Value::Array(to)) if is_grown(from, to) => {
            for (index, value) in to.iter().enumerate() {
                let length = path.len();
                path.push_str(&format!("/{index}"));
                match from.get(index) {
                    Some(before) => compare(before, value, path, out),
                    None => out.push(json!({ "op": "add", "path": &*path, "value": value })),
                }
                path.truncate(length);
            }
        }
        _ => out.push(json!({ "op": "replace", "path": &*path, "value": to })),
    }
}

/// Whether the items of the old list are those at the start of the new one, changed at most inside.
/// Any other change is clearer as a whole new list.
fn is_grown(from: &[Value], to: &[Value]) -> bool {
    let same =
        |(a, b): (&Value, &Value)| a == b || (a.is_object() && a.get("name") == b.get("name"));
    from.len() <= to.len() && from.iter().zip(to).all(same)
}

fn member(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c~/]{0,2}|name", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_leads_from_one_value_to_the_other(from in tree(), to in tree()) {
            let patch = json_patch_between(&from, &to);
            let patched = ironsail_patch::json_patch(&from, &patch).unwrap();
            prop_assert_eq!(patched, to, "{}", patch);
        }
    }

    #[test]
    fn only_what_changed_is_said() {
        let from = json!({ "a": [{ "name": "x", "v": 1 }], "b/c": 1, "gone": 1 });
        let to = json!({ "a": [{ "name": "x", "v": 2 }, { "name": "y" }], "b/c": 2 });
        assert_eq!(
            json_patch_between(&from, &to),
            json!([
                { "op": "remove", "path": "/gone" },
                { "op": "replace", "path": "/a/0/v", "value": 2 },
                { "op": "add", "path": "/a/1", "value": { "name": "y" } },
                { "op": "replace", "path": "/b~1c", "value": 2 },
            ])
        );
    }
}
