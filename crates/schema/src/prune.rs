//! Removes fields that the schema does not know, and tells which they are.

use serde_json::Value;

use crate::node::{Additional, Schema};

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Removes unknown fields of a whole object. Answers their paths, sorted, as in `spec.a[0].b`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruner = Pruner { path: String::new(), unknown: Vec::new(), keep: false };
        pruner.visit(object, Some(self), true);
        pruner.unknown.sort();
        pruner.unknown
    }

    /// The paths of unknown fields, for strict validation. Nothing is removed.
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut pruner = Pruner { path: String::new(), unknown: Vec::new(), keep: true };
        pruner.visit(&mut object.clone(), Some(self), true);
        pruner.unknown.sort();
        pruner.unknown
    }

    /// The same for a value below the object.
    pub(crate) fn unknown_below(&self, value: &Value) -> Vec<String> {
        let mut pruner = Pruner { path: String::new(), unknown: Vec::new(), keep: true };
        pruner.visit(&mut value.clone(), Some(self), false);
        pruner.unknown
    }
}

struct Pruner {
    path: String,
    unknown: Vec<String>,
    keep: bool,
}

impl Pruner {
    fn visit(&mut self, value: &mut Value, schema: Option<&Schema>, root: bool) {
        let open = schema.is_some_and(|schema| schema.preserve_unknown);
        match value {
            Value::Object(map) => {
                let embedded = root || schema.is_some_and(|schema| schema.embedded_resource);
                let mut gone = Vec::new();
                for (name, member) in map.iter_mut() {
                    if embedded && META.contains(&name.as_str()) {
                        continue;
                    }
                    let known = schema.and_then(|schema| match &schema.additional {
                        _ if schema.properties.contains_key(name) => {
                            Some(schema.properties.get(name))
                        }
                        Additional::Schema(schema) => Some(Some(&**schema)),
                        Additional::Any => Some(None),
                        Additional::Absent => None,
                    });
                    match known {
                        Some(below) => self.within(&format!(".{name}"), |this| {
                            this.visit(member, below, false);
                        }),
                        None if open => {}
                        None => gone.push(name.clone()),
                    }
                }
                for name in gone {
                    self.unknown.push(self.path_to(&name));
                    if !self.keep {
                        map.remove(&name);
                    }
                }
            }
            Value::Array(items) => {
                let below = schema.and_then(|schema| schema.items.as_deref());
                if below.is_none() && open {
                    return;
                }
                for (at, item) in items.iter_mut().enumerate() {
                    self.within(&format!("[{at}]"), |this| this.visit(item, below, false));
                }
            }
            _ => {}
        }
    }

    fn within(&mut self, step: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        let step = if length == 0 { step.trim_start_matches('.') } else { step };
        self.path.push_str(step);
        visit(self);
        self.path.truncate(length);
    }

    fn path_to(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}
