//! How single values, lists and maps are read and written.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose;
use serde_json::{Map, Value, json};

use super::{Node, Reader, Wire};

impl Wire for String {
    fn read(value: &Value, reader: &mut Reader) -> Self {
        if let Value::String(text) = value {
            text.clone()
        } else {
            reader.wrong_type("a string", value);
            Self::new()
        }
    }

    fn write(&self) -> Value {
        Value::String(self.clone())
    }

    fn schema() -> Node {
        Node::of("string")
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Wire for bool {
    const WRAPPED: bool = true;

    fn read(value: &Value, reader: &mut Reader) -> Self {
        if let Value::Bool(flag) = value {
            *flag
        } else {
            reader.wrong_type("true or false", value);
            false
        }
    }

    fn write(&self) -> Value {
        Value::Bool(*self)
    }

    fn schema() -> Node {
        Node::of("boolean")
    }

    fn is_absent(&self) -> bool {
        !*self
    }
}

/// A whole number, or the text of one.
fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Number(n) => {
            n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from)).or_else(|| {
                let f = n.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9.0e15)?;
                #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
                let whole = f as i128;
                Some(whole)
            })
        }
        Value::String(text) if text.len() <= 20 => text.parse().ok(),
        _ => None,
    }
}

macro_rules! integer {
    ($($type:ty: $schema:expr;)+) => { $(
        impl Wire for $type {
            const WRAPPED: bool = true;

            fn read(value: &Value, reader: &mut Reader) -> Self {
                match whole(value).map(Self::try_from) {
                    Some(Ok(number)) => number,
                    Some(Err(_)) => {
                        let (least, most) = (Self::MIN, Self::MAX);
                        reader.invalid(format!("must be between {least} and {most}"));
                        0
                    }
                    None => {
                        reader.wrong_type("a whole number", value);
                        0
                    }
                }
            }

            fn write(&self) -> Value {
                Value::from(*self)
            }

            fn schema() -> Node {
                $schema
            }

            fn is_absent(&self) -> bool {
                *self == 0
            }
        }
    )+ };
}

integer! {
    i32: Node::of("integer").set("format", "int32");
    u32: Node::of("integer").set("minimum", 0).set("maximum", u32::MAX);
    i64: Node::of("integer").set("format", "int64");
    u64: Node::of("integer").set("minimum", 0);
    u16: Node::of("integer").set("minimum", 0).set("maximum", u16::MAX);
}

impl Wire for f64 {
    const WRAPPED: bool = true;

    fn read(value: &Value, reader: &mut Reader) -> Self {
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok().filter(|f: &f64| f.is_finite()),
            _ => None,
        };
        number.unwrap_or_else(|| {
            reader.wrong_type("a number", value);
            0.0
        })
    }

    fn write(&self) -> Value {
        json!(self)
    }

    fn schema() -> Node {
        Node::of("number").set("format", "double")
    }

    fn is_absent(&self) -> bool {
        *self == 0.0
    }
}

impl Wire for Duration {
    fn read(value: &Value, reader: &mut Reader) -> Self {
        let Value::String(text) = value else {
            reader.wrong_type("a duration such as 5s", value);
            return Self::ZERO;
        };
        duration(text).unwrap_or_else(|reason| {
            reader.invalid(reason);
            Self::ZERO
        })
    }

    fn write(&self) -> Value {
        let text = match self.subsec_nanos() {
            0 => format!("{}s", self.as_secs()),
            nanos => {
                let text = format!("{}.{nanos:09}", self.as_secs());
                format!("{}s", text.trim_end_matches('0'))
            }
        };
        Value::String(text)
    }

    fn schema() -> Node {
        Node::of("string")
    }

    fn is_absent(&self) -> bool {
        false
    }
}

/// Text such as `1.5s`, `250ms` or `1h30m`, as Go and proto-JSON know it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bad =
        || format!("invalid duration {text:?}, expected something like \"1.5s\" or \"1h30m\"");
    if text.len() > 64 {
        return Err("invalid duration: too long".to_owned());
    }
    if text.starts_with('-') {
        return Err(format!("duration {text:?} must not be negative"));
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(bad());
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(bad()),
        };
        nanos += scaled(number, unit).ok_or_else(bad)?;
        rest = tail;
    }
    // The longest that a proto duration may be.
    const LONGEST: u128 = 315_576_000_000 * 1_000_000_000;
    if nanos > LONGEST {
        return Err(format!("duration {text:?} is too long"));
    }
    let secs = u64::try_from(nanos / 1_000_000_000).map_err(|_| bad())?;
    let subsec = u32::try_from(nanos % 1_000_000_000).map_err(|_| bad())?;
    Ok(Duration::new(secs, subsec))
}

/// A decimal number times a whole one, without rounding through floats.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(18)];
    let mut part = 0;
    if !fraction.is_empty() {
        let power = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        part = fraction.parse::<u128>().ok()? * unit / power;
    }
    Some(whole * unit + part)
}

/// Any bytes; base64 in JSON.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl std::fmt::Debug for Bytes {
    /// May be a key: only its length is shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Wire for Bytes {
    fn read(value: &Value, reader: &mut Reader) -> Self {
        let Value::String(text) = value else {
            reader.wrong_type("base64 text", value);
            return Self::default();
        };
        let engines = [&general_purpose::STANDARD, &general_purpose::URL_SAFE_NO_PAD];
        let bytes = engines.iter().find_map(|engine| engine.decode(text).ok());
        Self(bytes.unwrap_or_else(|| {
            reader.invalid("must be base64 text");
            Vec::new()
        }))
    }

    fn write(&self) -> Value {
        Value::String(general_purpose::STANDARD.encode(&self.0))
    }

    fn schema() -> Node {
        Node::of("string").set("format", "byte")
    }

    fn is_absent(&self) -> bool {
        self.0.is_empty()
    }
}

/// Any JSON object, kept as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Struct(pub Map<String, Value>);

impl Wire for Struct {
    fn read(value: &Value, reader: &mut Reader) -> Self {
        if let Value::Object(map) = value {
            Self(map.clone())
        } else {
            reader.wrong_type("an object", value);
            Self::default()
        }
    }

    fn write(&self) -> Value {
        Value::Object(self.0.clone())
    }

    fn schema() -> Node {
        Node::of("object").set("x-kubernetes-preserve-unknown-fields", true)
    }

    fn is_absent(&self) -> bool {
        self.0.is_empty()
    }
}

/// A port by number or by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntOrString {
    Int(i32),
    String(String),
}

impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl Wire for IntOrString {
    fn read(value: &Value, reader: &mut Reader) -> Self {
        match value {
            Value::String(text) => Self::String(text.clone()),
            other => Self::Int(i32::read(other, reader)),
        }
    }

    fn write(&self) -> Value {
        match self {
            Self::Int(number) => Value::from(*number),
            Self::String(text) => Value::from(text.as_str()),
        }
    }

    fn schema() -> Node {
        Node::int_or_string()
    }

    fn is_absent(&self) -> bool {
        *self == Self::Int(0)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn read(value: &Value, reader: &mut Reader) -> Self {
        (!value.is_null()).then(|| T::read(value, reader))
    }

    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, Wire::write)
    }

    fn schema() -> Node {
        let node = T::schema();
        if T::WRAPPED { node.set("nullable", true) } else { node }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Wire> Wire for Box<T> {
    fn read(value: &Value, reader: &mut Reader) -> Self {
        Self::new(T::read(value, reader))
    }

    fn write(&self) -> Value {
        self.as_ref().write()
    }

    fn schema() -> Node {
        T::schema()
    }

    fn is_absent(&self) -> bool {
        self.as_ref().is_absent()
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn read(value: &Value, reader: &mut Reader) -> Self {
        let Value::Array(items) = value else {
            reader.wrong_type("a list", value);
            return Self::new();
        };
        let read = |(index, item): (usize, &Value)| {
            reader.enter_index(index);
            let item = T::read(item, reader);
            reader.leave();
            item
        };
        items.iter().enumerate().map(read).collect()
    }

    fn write(&self) -> Value {
        self.iter().map(Wire::write).collect()
    }

    fn schema() -> Node {
        Node::of("array").items(T::schema())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// What may be the key of a map: JSON has it as text.
pub trait Key: Ord + Sized {
    fn parse(text: &str) -> Option<Self>;
    fn print(&self) -> String;
}

impl Key for String {
    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn print(&self) -> String {
        self.clone()
    }
}

impl Key for u32 {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

impl<K: Key, T: Wire> Wire for BTreeMap<K, T> {
    fn read(value: &Value, reader: &mut Reader) -> Self {
        let Value::Object(map) = value else {
            reader.wrong_type("an object", value);
            return Self::new();
        };
        let mut read = Self::new();
        for (name, value) in map {
            reader.enter_field(name);
            match K::parse(name) {
                Some(key) => {
                    read.insert(key, T::read(value, reader));
                }
                None => reader.invalid("the key must be a number"),
            }
            reader.leave();
        }
        read
    }

    fn write(&self) -> Value {
        Value::Object(self.iter().map(|(key, value)| (key.print(), value.write())).collect())
    }

    fn schema() -> Node {
        Node::of("object").values(T::schema())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

#[cfg(test)]
mod tests;
