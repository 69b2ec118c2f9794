//! Fills in the defaults of a schema.

use serde_json::Value;

use crate::node::{Additional, Schema};

impl Schema {
    /// Removes members that are null, may not be and have no default: a client that sends them means
    /// that they are not set. Done before defaulting.
    pub fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|name, member| {
                    let below = self.member(name);
                    let unset = member.is_null()
                        && below.is_some_and(|below| !below.nullable && below.default.is_none());
                    if let Some(below) = below {
                        below.drop_nulls(member);
                    }
                    !unset
                });
            }
            Value::Array(items) => {
                let Some(below) = &self.items else { return };
                items.iter_mut().for_each(|item| below.drop_nulls(item));
            }
            _ => {}
        }
    }

    /// Sets missing fields, and null ones that may not be null, to their defaults; then does the same
    /// inside what is there. A field without default below a missing object stays missing.
    pub fn default_object(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, property) in &self.properties {
                    let Some(default) = &property.default else { continue };
                    let unset = match map.get(name) {
                        None => true,
                        Some(value) => value.is_null() && !property.nullable,
                    };
                    if unset {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, member) in map.iter_mut() {
                    if let Some(property) = self.properties.get(name) {
                        property.default_object(member);
                    } else if let Additional::Schema(schema) = &self.additional {
                        schema.default_null(member);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    schema.default_null(item);
                }
            }
            _ => {}
        }
    }

    /// An item or member that is there as null takes the default of its schema.
    fn default_null(&self, value: &mut Value) {
        if value.is_null() && !self.nullable {
            *value = self.default.clone().unwrap_or(Value::Null);
        }
        self.default_object(value);
    }
}
