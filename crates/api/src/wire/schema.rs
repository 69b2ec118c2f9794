//! A node of a structural schema, as it is built up by the declarations of the types.

use serde_json::{Map, Value, json};

/// One node; becomes JSON by [`Node::into_json`].
#[derive(Clone, Debug, Default)]
pub struct Node {
    map: Map<String, Value>,
    properties: Map<String, Value>,
    required: Vec<String>,
    /// Sets of fields of which at most one may be set.
    exclusive: Vec<Vec<String>>,
    /// As a field: must be there.
    must: bool,
    /// As a field: stands in the schema under this name as well.
    also: Option<&'static str>,
}

impl Node {
    #[must_use]
    pub fn of(kind: &str) -> Self {
        Self::default().set("type", kind)
    }

    pub(crate) fn int_or_string() -> Self {
        Self::default()
            .set("anyOf", json!([{"type": "integer"}, {"type": "string"}]))
            .set("x-kubernetes-int-or-string", true)
    }

    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.map.insert(key.to_owned(), value.into());
        self
    }

    /// The text of `kubectl explain`; the lines of a doc comment come in.
    #[must_use]
    pub(crate) fn describe(self, lines: &[&str]) -> Self {
        let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        if text.is_empty() { self } else { self.set("description", text.trim()) }
    }

    #[must_use]
    pub(crate) fn items(self, node: Self) -> Self {
        self.set("items", node.into_json())
    }

    #[must_use]
    pub(crate) fn values(self, node: Self) -> Self {
        self.set("additionalProperties", node.into_json())
    }

    /// Changes the schema of each item of a list or each value of a map.
    #[must_use]
    pub(crate) fn each(mut self, change: impl FnOnce(Self) -> Self) -> Self {
        for key in ["items", "additionalProperties"] {
            if let Some(Value::Object(map)) = self.map.remove(key) {
                self.map
                    .insert(key.to_owned(), change(Self { map, ..Self::default() }).into_json());
                break;
            }
        }
        self
    }

    #[must_use]
    pub(crate) fn required(mut self) -> Self {
        self.must = true;
        self
    }

    #[must_use]
    pub(crate) fn also(mut self, name: &'static str) -> Self {
        self.also = Some(name);
        self
    }

    /// A rule in CEL, and what to say when it is broken.
    #[must_use]
    pub(crate) fn rule(mut self, message: &str, rule: &str) -> Self {
        let rules = self.map.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            rules.push(json!({"message": message, "rule": rule}));
        }
        self
    }

    #[must_use]
    pub(crate) fn min(self, least: i64) -> Self {
        self.set("minimum", least)
    }

    #[must_use]
    pub(crate) fn max(self, most: i64) -> Self {
        self.set("maximum", most)
    }

    #[must_use]
    pub(crate) fn min_len(self, least: u32) -> Self {
        self.set("minLength", least)
    }

    #[must_use]
    pub(crate) fn max_len(self, most: u32) -> Self {
        self.set("maxLength", most)
    }

    #[must_use]
    pub(crate) fn pattern(self, pattern: &str) -> Self {
        self.set("pattern", pattern)
    }

    #[must_use]
    pub(crate) fn min_items(self, least: u32) -> Self {
        self.set("minItems", least)
    }

    #[must_use]
    pub(crate) fn max_items(self, most: u32) -> Self {
        self.set("maxItems", most)
    }

    #[must_use]
    pub(crate) fn min_keys(self, least: u32) -> Self {
        self.set("minProperties", least)
    }

    #[must_use]
    pub(crate) fn max_keys(self, most: u32) -> Self {
        self.set("maxProperties", most)
    }

    /// A list whose items are told apart by one of their fields.
    #[must_use]
    pub(crate) fn keyed_by(self, field: &str) -> Self {
        self.set("x-kubernetes-list-type", "map").set("x-kubernetes-list-map-keys", json!([field]))
    }

    /// Without `keys` that the type would give.
    #[must_use]
    pub(crate) fn without(mut self, keys: &[&str]) -> Self {
        for key in keys {
            self.map.remove(*key);
        }
        self
    }

    /// A duration of at least a millisecond.
    #[must_use]
    pub(crate) fn positive(self) -> Self {
        self.rule("must be a valid duration greater than 1ms", "duration(self) >= duration('1ms')")
    }

    /// A port number, checked by a rule.
    #[must_use]
    pub(crate) fn port(self) -> Self {
        self.rule("port must be between 1-65535", "0 < self && self <= 65535")
    }

    /// At most one of these fields may be set.
    #[must_use]
    pub(crate) fn one_of(mut self, fields: &[&str]) -> Self {
        self.exclusive.push(fields.iter().map(|&field| field.to_owned()).collect());
        self
    }

    pub(crate) fn property(&mut self, name: &str, mut node: Self) {
        if std::mem::take(&mut node.must) {
            self.required.push(name.to_owned());
        }
        let also = node.also.take();
        let json = node.into_json();
        if let Some(also) = also {
            self.properties.insert(also.to_owned(), json.clone());
        }
        self.properties.insert(name.to_owned(), json);
    }

    pub(crate) fn exclusive(&mut self, fields: Vec<String>) {
        self.exclusive.push(fields);
    }

    #[must_use]
    pub fn into_json(self) -> Value {
        let Self { mut map, properties, required, exclusive, .. } = self;
        if !properties.is_empty() {
            map.insert("properties".to_owned(), Value::Object(properties));
        }
        if !required.is_empty() {
            map.insert("required".to_owned(), json!(required));
        }
        let mut groups: Vec<Value> = exclusive.iter().map(|fields| at_most_one(fields)).collect();
        if groups.len() == 1 {
            map.insert("oneOf".to_owned(), groups.remove(0));
        } else if groups.len() > 1 {
            let all = groups.into_iter().map(|group| json!({"oneOf": group})).collect();
            map.insert("allOf".to_owned(), all);
        }
        Value::Object(map)
    }
}

/// The alternatives of a proto `oneof`: none of the fields, or exactly one.
fn at_most_one(fields: &[String]) -> Value {
    let each = || fields.iter().map(|field| json!({"required": [field]}));
    let none = json!({"not": {"anyOf": each().collect::<Vec<_>>()}});
    std::iter::once(none).chain(each()).collect()
}
