//! One declaration of a type gives three things: how its JSON is read, how it is written, and the
//! schema that a cluster holds it against. So a type and its CRD cannot drift apart.
//!
//! The JSON is proto-JSON: absent and `null` mean the default, enums go by name, durations are text
//! such as `1.5s`, numbers may be quoted, a field may be called by its proto name. Reading never
//! fails: what is wrong is reported to the [`Reader`] and left at its default.

mod declare;
mod reader;
mod scalar;
mod schema;

pub(crate) use declare::{as_serde, choice, message, oneof, or_default};
pub use reader::{Open, Problem, Reader, What};
pub use scalar::{Bytes, IntOrString, Struct};
pub use schema::Node;

use serde_json::{Map, Value};

/// The names of a field: as JSON has it and as the proto file has it.
pub struct Name {
    pub(crate) camel: String,
    pub(crate) snake: &'static str,
}

pub trait Wire: Sized + Default {
    /// A number or flag: as an optional field it has a wrapper type, and `null` is a value of it.
    const WRAPPED: bool = false;

    fn read(value: &Value, reader: &mut Reader) -> Self;

    fn write(&self) -> Value;

    /// What a cluster knows about such a value.
    fn schema() -> Node;

    /// Has the value of an absent field.
    fn is_absent(&self) -> bool;

    /// Takes over what the object says about the field; leaves the value alone if it says nothing.
    fn read_field(&mut self, open: &mut Open<'_>, name: &Name, reader: &mut Reader) {
        if let Some((key, value)) = open.take(name, reader) {
            reader.enter_field(key);
            *self = Self::read(value, reader);
            reader.leave();
        }
    }

    fn write_field(&self, name: &Name, always: bool, object: &mut Map<String, Value>) {
        if always || !self.is_absent() {
            object.insert(name.camel.clone(), self.write());
        }
    }

    fn schema_field(parent: &mut Node, name: &Name, change: impl FnOnce(Node) -> Node) {
        parent.property(&name.camel, change(Self::schema()));
    }
}

/// The JSON names of a type's fields, made once a type.
pub(crate) fn names(fields: &[(&'static str, Option<&'static str>)]) -> Vec<Name> {
    let name = |&(field, json): &(&'static str, Option<&'static str>)| {
        let snake = field.strip_prefix("r#").unwrap_or(field);
        Name { camel: json.map_or_else(|| camel(snake), str::to_owned), snake }
    };
    fields.iter().map(name).collect()
}

/// `http2_max_requests` as proto-JSON writes it: `http2MaxRequests`.
pub(crate) fn camel(snake: &str) -> String {
    let mut out = String::with_capacity(snake.len());
    let mut raise = false;
    for c in snake.chars() {
        if c == '_' {
            raise = true;
        } else {
            out.push(if raise { c.to_ascii_uppercase() } else { c });
            raise = false;
        }
    }
    out
}

/// Reads a whole value; what is wrong with it comes second.
pub fn read<T: Wire>(value: &Value) -> (T, Vec<Problem>) {
    let mut reader = Reader::new();
    let read = T::read(value, &mut reader);
    (read, reader.into_problems())
}
