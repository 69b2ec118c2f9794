//! A structural schema, read once and then used for every object of its version.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{cel::Rule, format::Format, pattern::Pattern};

/// The schema of a value and of all below it.
///
/// The same type also holds the partial schemas inside `allOf`, `anyOf`, `oneOf` and `not`, which only
/// restrict values.
#[derive(Debug, Default)]
pub struct Schema {
    pub kind: Option<Type>,
    pub nullable: bool,
    pub default: Option<Value>,
    pub properties: BTreeMap<String, Schema>,
    pub additional: Additional,
    pub items: Option<Box<Schema>>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    pub list_type: ListType,
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type: atomic`.
    pub map_atomic: bool,
    pub(crate) limits: Option<Box<Limits>>,
    /// `x-kubernetes-validations`.
    pub(crate) rules: Vec<Rule>,
    /// How deep the CEL rules of this node and of those below nest; 0 where there are none, which
    /// saves walks through values.
    pub(crate) rule_depth: usize,
}

impl Schema {
    /// Has it a `format` that is known and checked?
    pub fn has_format(&self) -> bool {
        self.limits.as_ref().is_some_and(|limits| limits.format_name.is_some())
    }

    /// Has it, or one below it, a default?
    pub fn has_defaults(&self) -> bool {
        let additional = match &self.additional {
            Additional::Schema(schema) => schema.has_defaults(),
            _ => false,
        };
        self.default.is_some()
            || additional
            || self.properties.values().any(Self::has_defaults)
            || self.items.as_ref().is_some_and(|items| items.has_defaults())
    }

    /// The schema of a member of an object.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Schema(schema) => Some(schema),
            _ => None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// `additionalProperties`.
#[derive(Debug, Default)]
pub enum Additional {
    #[default]
    Absent,
    /// `true`.
    Any,
    Schema(Box<Schema>),
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    Map,
}

/// What a value must fulfil beyond its type.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// As the schema names it; kept where the format is known for the type.
    pub(crate) format_name: Option<String>,
    pub(crate) format: Option<Format>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) one_of_values: Option<Vec<Value>>,
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) required: Vec<String>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
}
