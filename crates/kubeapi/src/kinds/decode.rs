//! A JSON value becomes an object of a wire type: types are checked, unknown fields pruned and
//! reported, zeros, quantities and times written the way Kubernetes writes them.
//!
//! In: any value. Out: [`Decoded`], or the first error with the text a Go client would see. It must
//! not look at what the fields mean.

use base64::Engine as _;
use serde_json::{Map, Number, Value};

use super::quantity;
use super::wire::{Field, Struct, StructId, Type, types};

/// An object in the shape of its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// Paths of the fields that were dropped, as in `spec.containers[0].foo`.
    pub unknown: Vec<String>,
}

/// A value that does not have the shape of its kind; answered with 400 BadRequest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} in version \"{version}\" cannot be handled as a {kind}: {text}")]
pub struct DecodeError {
    kind: &'static str,
    version: &'static str,
    text: String,
}

impl DecodeError {
    /// What is wrong, without the sentence about the kind, as answers to patches show it.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn new(kind: &super::Kind, text: &str) -> Self {
        Self { kind: kind.kind, version: kind.version, text: text.to_owned() }
    }
}

pub(super) fn decode(kind: &super::Kind, value: Value) -> Result<Decoded, DecodeError> {
    let id = types().find(kind.package, kind.kind).expect("every kind has a wire type (tested)");
    let mut walk = Walk { unknown: Vec::new(), path: Vec::new(), depth: 0 };
    if !value.is_object() {
        let text = format!(
            "json: cannot unmarshal {} into Go value of type v1.{}",
            word(&value),
            kind.kind
        );
        return Err(DecodeError::new(kind, &text));
    }
    let value = walk.structure(id, value, None).map_err(|text| DecodeError::new(kind, &text))?;
    Ok(Decoded { value, unknown: walk.unknown })
}

/// Decodes `metadata` alone, for objects of kinds that are not built in.
pub(super) fn metadata(value: Value) -> Result<(Value, Vec<String>), String> {
    let id = types().find("meta.v1", "ObjectMeta").expect("ObjectMeta has a wire type");
    let mut walk = Walk { unknown: Vec::new(), path: Vec::new(), depth: 0 };
    let value = walk.structure(id, value, None)?;
    Ok((value, walk.unknown.iter().map(|path| format!("metadata.{path}")).collect()))
}

/// Deeper values than this are refused; only JSON schemas nest by themselves.
const MAX_DEPTH: usize = 128;

enum Step {
    Field(&'static str),
    Item(usize),
    Key(String),
}

struct Walk {
    unknown: Vec<String>,
    path: Vec<Step>,
    depth: usize,
}

type Place<'a> = Option<&'a Struct>;

impl Walk {
    fn structure(&mut self, id: StructId, value: Value, place: Place<'_>) -> Result<Value, String> {
        let shape = types().get(id);
        let given = match value {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            other => return Err(self.mismatch(&other, &Type::Struct(id), place)),
        };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        let mut out = Map::new();
        for (name, value) in given {
            match shape.field(&name) {
                Some(field) => {
                    self.path.push(Step::Field(field.name));
                    let value = self.value(&field.kind, value, Some(shape))?;
                    self.path.pop();
                    if keeps(field, &value) {
                        out.insert(name, value);
                    }
                }
                None => self.unknown(&name),
            }
        }
        for field in &shape.fields {
            if !out.contains_key(field.name)
                && let Some(zero) = zero(field)
            {
                out.insert(field.name.to_owned(), zero);
            }
        }
        self.depth -= 1;
        Ok(Value::Object(out))
    }

    fn value(&mut self, kind: &Type, value: Value, place: Place<'_>) -> Result<Value, String> {
        if value.is_null() && !matches!(kind.plain(), Type::Any) {
            return Ok(Value::Null);
        }
        match (kind.plain(), value) {
            (Type::Any, value) => Ok(value),
            (Type::String | Type::IntOrString | Type::Duration, value @ Value::String(_))
            | (Type::Bool, value @ Value::Bool(_))
            | (Type::Float, value @ Value::Number(_))
            | (Type::OrBool(_), value @ Value::Bool(_)) => Ok(value),
            (Type::Int { bits, signed }, Value::Number(n)) => {
                if fits(&n, *bits, *signed) {
                    Ok(Value::Number(n))
                } else {
                    Err(self.bad_number(&n, kind, place))
                }
            }
            (Type::IntOrString, Value::Number(n)) => {
                if fits(&n, 32, true) {
                    Ok(Value::Number(n))
                } else {
                    Err(self.bad_number(&n, &Type::Int { bits: 32, signed: true }, place))
                }
            }
            (Type::Bytes, Value::String(text)) => bytes(&text).map(Value::String),
            (Type::Quantity, Value::String(text)) => quantity::canonical(&text).map(Value::String),
            (Type::Quantity, Value::Number(n)) => {
                quantity::canonical(&n.to_string()).map(Value::String)
            }
            (Type::Time, Value::String(text)) => time(&text, false).map(Value::String),
            (Type::MicroTime, Value::String(text)) => time(&text, true).map(Value::String),
            (Type::List(item), Value::Array(values)) => self.list(item, values, place),
            (Type::Map(item), Value::Object(values)) => self.map(item, values, place),
            (Type::Struct(id), value @ Value::Object(_)) => self.structure(*id, value, place),
            (
                Type::OrBool(id) | Type::OrArray(id) | Type::OrStrings(id),
                value @ Value::Object(_),
            ) => self.structure(*id, value, place),
            (Type::OrArray(id), Value::Array(values)) => {
                self.list(&Type::Struct(*id), values, place)
            }
            (Type::OrStrings(_), Value::Array(values)) => self.list(&Type::String, values, place),
            (_, other) => Err(self.mismatch(&other, kind, place)),
        }
    }

    fn list(&mut self, item: &Type, values: Vec<Value>, place: Place<'_>) -> Result<Value, String> {
        let mut out = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            self.path.push(Step::Item(index));
            let value = self.value(item, value, place)?;
            out.push(self.filled(item, value)?);
            self.path.pop();
        }
        Ok(Value::Array(out))
    }

    fn map(
        &mut self,
        item: &Type,
        values: Map<String, Value>,
        place: Place<'_>,
    ) -> Result<Value, String> {
        let mut out = Map::new();
        for (key, value) in values {
            self.path.push(Step::Key(key.clone()));
            let value = self.value(item, value, place)?;
            out.insert(key, self.filled(item, value)?);
            self.path.pop();
        }
        Ok(Value::Object(out))
    }

    /// A null inside a list or map is the zero of its type.
    fn filled(&mut self, item: &Type, value: Value) -> Result<Value, String> {
        if !value.is_null() {
            return Ok(value);
        }
        Ok(match item.plain() {
            Type::String | Type::Bytes => Value::String(String::new()),
            Type::Struct(id) => self.structure(*id, Value::Null, None)?,
            Type::Quantity => Value::String("0".to_owned()),
            Type::Bool => Value::Bool(false),
            Type::Int { .. } | Type::Float => Value::from(0),
            _ => Value::Null,
        })
    }

    fn unknown(&mut self, name: &str) {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) => dotted(&mut path, name),
                Step::Key(name) => dotted(&mut path, name),
                Step::Item(index) => path.push_str(&format!("[{index}]")),
            }
        }
        dotted(&mut path, name);
        self.unknown.push(path);
    }

    /// `DeploymentSpec.spec.replicas`: the struct, then the fields from the root without indexes.
    fn go_field(&self, place: Place<'_>) -> String {
        let mut path = place.map(|s| s.name.to_owned()).unwrap_or_default();
        for step in &self.path {
            if let Step::Field(name) = step {
                dotted(&mut path, name);
            }
        }
        path
    }

    fn mismatch(&self, value: &Value, kind: &Type, place: Place<'_>) -> String {
        format!(
            "json: cannot unmarshal {} into Go struct field {} of type {}",
            word(value),
            self.go_field(place),
            go_name(if *kind == Type::IntOrString { &INT32 } else { kind })
        )
    }

    fn bad_number(&self, number: &Number, kind: &Type, place: Place<'_>) -> String {
        format!(
            "json: cannot unmarshal number {number} into Go struct field {} of type {}",
            self.go_field(place),
            go_name(kind)
        )
    }
}

const INT32: Type = Type::Int { bits: 32, signed: true };

fn dotted(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Whether Go would write this value of the field.
fn keeps(field: &Field, value: &Value) -> bool {
    if value.is_null() {
        return false;
    }
    if !field.omit || field.pointer {
        return true;
    }
    match (field.kind.plain(), value) {
        (Type::Struct(_) | Type::Any | Type::Quantity | Type::IntOrString, _) => true,
        (_, Value::String(s)) => !s.is_empty(),
        (_, Value::Bool(b)) => *b || matches!(field.kind.plain(), Type::OrBool(_)),
        (_, Value::Number(n)) => n.as_f64() != Some(0.0),
        (_, Value::Array(a)) => !a.is_empty(),
        (_, Value::Object(o)) => !o.is_empty(),
        (_, Value::Null) => false,
    }
}

/// What Go writes for a field that is not there. Lists, maps and times would be `null`; we leave
/// them out, because clients treat the two alike and `null` only gets in the way of patches.
fn zero(field: &Field) -> Option<Value> {
    if field.pointer {
        return None;
    }
    match field.kind.plain() {
        Type::Struct(id) => {
            let mut out = Map::new();
            for field in &types().get(*id).fields {
                if let Some(zero) = zero(field) {
                    out.insert(field.name.to_owned(), zero);
                }
            }
            Some(Value::Object(out))
        }
        // Go leaves out an empty one of these only behind a pointer.
        Type::Quantity => Some(Value::String("0".to_owned())),
        Type::IntOrString => Some(Value::from(0)),
        _ if field.omit => None,
        Type::String | Type::Duration => Some(Value::String(String::new())),
        Type::Bool => Some(Value::Bool(false)),
        Type::Int { .. } | Type::Float => Some(Value::from(0)),
        _ => None,
    }
}

fn fits(n: &Number, bits: u8, signed: bool) -> bool {
    match (n.as_i64(), bits, signed) {
        (Some(n), 32, true) => i32::try_from(n).is_ok(),
        (Some(n), 32, false) => u32::try_from(n).is_ok(),
        (Some(_), _, _) => true,
        (None, _, _) => false,
    }
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_name(kind: &Type) -> String {
    match kind {
        Type::Named(name, _) => (*name).to_owned(),
        Type::String => "string".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int { bits, signed } => format!("{}int{bits}", if *signed { "" } else { "u" }),
        Type::Float => "float64".to_owned(),
        Type::Bytes => "[]uint8".to_owned(),
        Type::Quantity => "resource.Quantity".to_owned(),
        Type::IntOrString => "intstr.IntOrString".to_owned(),
        Type::Time | Type::MicroTime | Type::Duration => "string".to_owned(),
        Type::Any => "interface {}".to_owned(),
        Type::List(item) => format!("[]{}", go_name(item)),
        Type::Map(item) => format!("map[string]{}", go_name(item)),
        Type::Struct(id) | Type::OrBool(id) | Type::OrArray(id) | Type::OrStrings(id) => {
            let shape = types().get(*id);
            let version = shape.package.rsplit('.').next().unwrap_or_default();
            format!("{version}.{}", shape.name)
        }
    }
}

/// Base64 in its canonical form.
fn bytes(text: &str) -> Result<String, String> {
    let engine = base64::engine::general_purpose::STANDARD;
    let clean: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    match engine.decode(&clean) {
        Ok(_) => Ok(clean),
        Err(error) => {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _)
                | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                _ => clean.len(),
            };
            Err(format!("illegal base64 data at input byte {at}"))
        }
    }
}

/// Times in UTC, to the second or to the microsecond.
fn time(text: &str, micro: bool) -> Result<String, String> {
    let layout =
        if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let stamp: jiff::Timestamp = text.parse().map_err(|_| {
        format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\"")
    })?;
    Ok(if micro {
        stamp.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    } else {
        stamp.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    })
}

/// How Go writes a field of a kind that nobody has set, if it does.
pub(super) fn empty(package: &str, kind: &str, field: &str) -> Option<Value> {
    let id = types().find(package, kind)?;
    zero(types().get(id).field(field)?)
}

/// Whether the kind has a wire type.
#[cfg(test)]
pub(super) fn has_type(kind: &super::Kind) -> bool {
    types().find(kind.package, kind.kind).is_some()
}
