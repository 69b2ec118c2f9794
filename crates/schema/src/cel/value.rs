//! JSON values as CEL sees them, by their schema.

use std::{collections::HashMap, sync::Arc};

use base64::Engine;
use kube_cel::cel::{
    Value as CelValue,
    objects::{Key, Map},
};
use serde_json::Value;

use crate::{
    format::Format,
    listtype::key_of,
    node::{ListType, Schema, Type},
};

/// `root`: the object itself, whose metadata the rules may see.
pub(super) fn convert(schema: &Schema, value: &Value, root: bool) -> CelValue {
    with_schema(Some(schema), value, root)
}

fn with_schema(schema: Option<&Schema>, value: &Value, root: bool) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => {
            let real = schema.is_some_and(|schema| schema.kind == Some(Type::Number));
            match number.as_i64() {
                Some(whole) if !real => CelValue::Int(whole),
                _ => match number.as_u64() {
                    Some(whole) if !real => CelValue::UInt(whole),
                    _ => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
                },
            }
        }
        Value::String(text) => formatted(schema, text),
        Value::Array(items) => {
            let below = schema.and_then(|schema| schema.items.as_deref());
            CelValue::List(Arc::new(
                items.iter().map(|item| with_schema(below, item, false)).collect(),
            ))
        }
        Value::Object(map) => {
            // Names that data chose, as in maps of labels, stand as they are; field names are written
            // so that CEL can read them.
            let is_struct = root
                || schema.is_none_or(|schema| {
                    !schema.properties.is_empty()
                        || schema.preserve_unknown
                        || schema.embedded_resource
                });
            let mut out = HashMap::with_capacity(map.len());
            for (name, member) in map {
                let below = schema.and_then(|schema| schema.member(name));
                let key = if is_struct { escape(name) } else { name.clone() };
                out.insert(Key::String(Arc::new(key)), with_schema(below, member, false));
            }
            CelValue::Map(Map { map: Arc::new(out) })
        }
    }
}

fn formatted(schema: Option<&Schema>, text: &str) -> CelValue {
    let format = schema.and_then(|schema| schema.limits.as_ref()).and_then(|limits| limits.format);
    let parsed = match format {
        Some(Format::DateTime) => {
            chrono::DateTime::parse_from_rfc3339(text).ok().map(CelValue::Timestamp)
        }
        Some(Format::Date) => chrono::DateTime::parse_from_rfc3339(&format!("{text}T00:00:00Z"))
            .ok()
            .map(CelValue::Timestamp),
        Some(Format::Duration) => duration(text).map(CelValue::Duration),
        Some(Format::Byte) => base64::engine::general_purpose::STANDARD
            .decode(text)
            .ok()
            .map(|bytes| CelValue::Bytes(Arc::new(bytes))),
        _ => None,
    };
    parsed.unwrap_or_else(|| CelValue::String(Arc::new(text.to_owned())))
}

/// A Go duration like `1h2m3.5s`.
fn duration(text: &str) -> Option<chrono::Duration> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut nanos = 0.0f64;
    while !rest.is_empty() && rest != "0" {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let units = [
            ("ns", 1.0),
            ("us", 1e3),
            ("µs", 1e3),
            ("ms", 1e6),
            ("s", 1e9),
            ("m", 6e10),
            ("h", 3.6e12),
        ];
        let (unit, factor) = units.iter().find(|(unit, _)| {
            rest.starts_with(unit) && !(*unit == "m" && rest.starts_with("ms"))
        })?;
        nanos += number * factor;
        rest = &rest[unit.len()..];
    }
    let nanos = sign * nanos;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be in range on the same line")]
    (nanos.abs() < 9.2e18).then(|| chrono::Duration::nanoseconds(nanos as i64))
}

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A field name as an identifier of CEL.
fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

/// The old value with the items of sets and list maps in the order of the new one, so that `==` sees
/// them as equal whatever their order.
pub(super) fn align(schema: &Schema, old: &Value, new: &Value) -> Value {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) => {
            let id = |item: &Value| match schema.list_type {
                ListType::Map => key_of(schema, item),
                _ => item.clone(),
            };
            let mut items = old.clone();
            if schema.list_type != ListType::Atomic && items.len() < 1000 {
                let order: Vec<Value> = new.iter().map(id).collect();
                items.sort_by_key(|item| {
                    let id = id(item);
                    order.iter().position(|other| *other == id).unwrap_or(usize::MAX)
                });
            }
            if let (Some(below), ListType::Map) = (&schema.items, schema.list_type) {
                items = items
                    .iter()
                    .map(|item| {
                        let id = id(item);
                        match new.iter().find(|new| key_of(schema, new) == id) {
                            Some(new) => align(below, item, new),
                            None => item.clone(),
                        }
                    })
                    .collect();
            }
            Value::Array(items)
        }
        (Value::Object(old), Value::Object(new)) => old
            .iter()
            .map(|(name, value)| {
                let aligned = match (schema.member(name), new.get(name)) {
                    (Some(below), Some(new)) => align(below, value, new),
                    _ => value.clone(),
                };
                (name.clone(), aligned)
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
        _ => old.clone(),
    }
}
