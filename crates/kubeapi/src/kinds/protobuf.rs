//! Kubernetes' protobuf encoding of built-in objects, read into JSON.
//!
//! Go clients with typed resources (kubectl's `create` and `auth can-i` among them) send it and take
//! JSON back, so it is read here and never written. In: the bytes of a request. Out: the same value that
//! the JSON encoding would have given, for [`super::Kind::decode`] to check. Field names and types come
//! from the wire tables, field numbers from `wire/tags.txt`.

use std::sync::LazyLock;

use base64::Engine as _;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

use super::wire::{StructId, Type, types};

mod reader;
#[cfg(test)]
mod tests;

use reader::{Payload, Reader};

/// What every encoded object starts with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages inside messages; no built-in object comes near it, schemas of CRDs do.
const DEEPEST: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoPrefix,
    #[error("the protobuf message ends in the middle of a field")]
    Truncated,
    #[error("the protobuf message has a field of an unknown wire type {0}")]
    WireType(u8),
    #[error("field {field} of {message} has the wrong wire type")]
    Mismatch { message: &'static str, field: &'static str },
    #[error("field {field} of {message} is not UTF-8")]
    NotText { message: &'static str, field: &'static str },
    #[error("field {field} of {message} is not JSON: {why}")]
    NotJson { message: &'static str, field: &'static str, why: String },
    #[error("the protobuf message is nested more than {DEEPEST} deep")]
    TooDeep,
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
}

/// Reads an object; `apiVersion` and `kind` are in it as in JSON.
pub fn read(bytes: &[u8]) -> Result<Value, Error> {
    let body = bytes.strip_prefix(MAGIC).ok_or(Error::NoPrefix)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &b""[..]);
    let mut envelope = Reader::new(body);
    while let Some((number, payload)) = envelope.next()? {
        match (number, payload) {
            (1, Payload::Bytes(meta)) => {
                let mut meta = Reader::new(meta);
                while let Some((number, payload)) = meta.next()? {
                    match (number, payload) {
                        (1, Payload::Bytes(text)) => api_version = text_of(text),
                        (2, Payload::Bytes(text)) => kind = text_of(text),
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let unknown = || Error::UnknownKind { api_version: api_version.clone(), kind: kind.clone() };
    let id = struct_of(&api_version, &kind).ok_or_else(unknown)?;
    let mut object = Map::new();
    Message { id, depth: 0 }.read(raw, &[], &mut object)?;
    object.insert("apiVersion".to_owned(), Value::String(api_version));
    object.insert("kind".to_owned(), Value::String(kind));
    Ok(Value::Object(object))
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The wire type of a kind; options of requests are sent under any group.
fn struct_of(api_version: &str, kind: &str) -> Option<StructId> {
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let package = format!("{}.{version}", group.split('.').next().unwrap_or(group));
    types().find(&package, kind).or_else(|| types().find("meta.v1", kind))
}

/// Where each field number of a struct leads: the path of numbers, and the index of the field.
type Numbers = FxHashMap<StructId, Vec<(Vec<u32>, usize)>>;

static NUMBERS: LazyLock<Numbers> = LazyLock::new(|| {
    let mut numbers = Numbers::default();
    for line in include_str!("wire/tags.txt").lines().filter(|l| !l.starts_with('#')) {
        let mut words = line.split(' ');
        let (Some(package), Some(name)) = (words.next(), words.next()) else { continue };
        let Some(id) = types().find(package, name) else { continue };
        let fields = &types().get(id).fields;
        let paths = words.filter_map(|word| {
            let (name, path) = word.split_once('=')?;
            let index = fields.iter().position(|f| f.name == name)?;
            let path: Option<Vec<u32>> = path.split('.').map(|n| n.parse().ok()).collect();
            Some((path?, index))
        });
        numbers.insert(id, paths.collect());
    }
    numbers
});

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// A message of a wire type.
#[derive(Clone, Copy)]
struct Message {
    id: StructId,
    depth: usize,
}

/// The field being read, for errors.
#[derive(Clone, Copy)]
struct Place {
    message: &'static str,
    field: &'static str,
}

impl Message {
    /// Reads `bytes` into `out`; `prefix` is the way into embedded messages.
    fn read(self, bytes: &[u8], prefix: &[u32], out: &mut Map<String, Value>) -> Result<(), Error> {
        if self.depth > DEEPEST {
            return Err(Error::TooDeep);
        }
        let info = types().get(self.id);
        let Some(numbers) = NUMBERS.get(&self.id) else { return Ok(()) };
        let mut reader = Reader::new(bytes);
        while let Some((number, payload)) = reader.next()? {
            let mut path = prefix.to_vec();
            path.push(number);
            if let Some((_, index)) = numbers.iter().find(|(p, _)| *p == path) {
                let field = &info.fields[*index];
                let place = Place { message: info.name, field: field.name };
                self.field(place, field.kind.plain(), payload, out)?;
                // Go's encoder writes zeros that JSON would leave out.
                if field.omit && !field.pointer && out.get(field.name).is_some_and(is_zero) {
                    out.remove(field.name);
                }
            } else if numbers.iter().any(|(p, _)| p.starts_with(&path))
                && let Payload::Bytes(embedded) = payload
            {
                Self { depth: self.depth + 1, ..self }.read(embedded, &path, out)?;
            }
        }
        Ok(())
    }

    fn field(
        self,
        place: Place,
        kind: &Type,
        payload: Payload<'_>,
        out: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        match kind {
            Type::List(item) => {
                let list = out.entry(place.field).or_insert_with(|| json!([]));
                let list = list.as_array_mut().expect("a list field is only ever a list");
                // Numbers may come packed.
                if let (Type::Int { .. }, Payload::Bytes(packed)) = (item.plain(), payload) {
                    let mut reader = Reader::new(packed);
                    while let Some(number) = reader.packed()? {
                        list.push(self.value(place, item.plain(), Payload::Varint(number))?);
                    }
                    return Ok(());
                }
                list.push(self.value(place, item.plain(), payload)?);
            }
            Type::Map(item) => {
                let (key, value) = self.entry(place, item.plain(), payload)?;
                let map = out.entry(place.field).or_insert_with(|| json!({}));
                map.as_object_mut().expect("a map field is only ever a map").insert(key, value);
            }
            kind => {
                let value = self.value(place, kind, payload)?;
                out.insert(place.field.to_owned(), value);
            }
        }
        Ok(())
    }

    fn entry(
        self,
        place: Place,
        kind: &Type,
        payload: Payload<'_>,
    ) -> Result<(String, Value), Error> {
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(payload.bytes(place)?);
        while let Some((number, payload)) = reader.next()? {
            match (number, kind) {
                (1, _) => key = payload.text(place)?,
                // A list as the value of a map is a message with the list in it.
                (2, Type::List(_)) => {
                    let mut inner = Map::new();
                    let mut items = Reader::new(payload.bytes(place)?);
                    while let Some((_, item)) = items.next()? {
                        self.field(place, kind, item, &mut inner)?;
                    }
                    value = inner.remove(place.field);
                }
                (2, _) => value = Some(self.value(place, kind, payload)?),
                _ => {}
            }
        }
        let empty = if matches!(kind, Type::List(_)) { json!([]) } else { json!("") };
        Ok((key, value.unwrap_or(empty)))
    }

    fn value(self, place: Place, kind: &Type, payload: Payload<'_>) -> Result<Value, Error> {
        Ok(match kind {
            Type::String => Value::String(payload.text(place)?),
            Type::Bool => Value::Bool(payload.varint(place)? != 0),
            Type::Int { signed: true, .. } => json!(payload.varint(place)?.cast_signed()),
            Type::Int { signed: false, .. } => json!(payload.varint(place)?),
            Type::Float => json!(payload.double(place)?),
            Type::Bytes => {
                let bytes = payload.bytes(place)?;
                Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            Type::Quantity => self
                .part(place, payload, 1)?
                .map_or(Ok(json!("0")), |p| p.text(place).map(Value::String))?,
            Type::IntOrString => self.int_or_string(place, payload)?,
            Type::Time | Type::MicroTime => {
                self.time(place, payload, matches!(kind, Type::MicroTime))?
            }
            Type::Duration => {
                let nanos = self.part(place, payload, 1)?.map_or(Ok(0), |p| p.varint(place))?;
                json!(format!("{}ns", nanos.cast_signed()))
            }
            Type::Any => {
                let raw =
                    self.part(place, payload, 1)?.map_or(Ok(&b"null"[..]), |p| p.bytes(place))?;
                serde_json::from_slice(raw).map_err(|e| Error::NotJson {
                    message: place.message,
                    field: place.field,
                    why: e.to_string(),
                })?
            }
            Type::Struct(id) => self.message(place, *id, payload)?,
            Type::OrBool(id) => match self.part(place, payload, 2)? {
                Some(schema) => self.message(place, *id, schema)?,
                None => {
                    json!(self.part(place, payload, 1)?.map_or(Ok(0), |p| p.varint(place))? != 0)
                }
            },
            Type::OrArray(id) | Type::OrStrings(id) => {
                self.schema_or_list(place, kind, *id, payload)?
            }
            Type::List(_) | Type::Map(_) | Type::Named(..) => {
                return Err(Error::Mismatch { message: place.message, field: place.field });
            }
        })
    }

    fn message(self, place: Place, id: StructId, payload: Payload<'_>) -> Result<Value, Error> {
        let mut out = Map::new();
        Self { id, depth: self.depth + 1 }.read(payload.bytes(place)?, &[], &mut out)?;
        Ok(Value::Object(out))
    }

    /// Field `wanted` of a small message with a meaning of its own.
    fn part<'a>(
        self,
        place: Place,
        payload: Payload<'a>,
        wanted: u32,
    ) -> Result<Option<Payload<'a>>, Error> {
        let mut reader = Reader::new(payload.bytes(place)?);
        let mut found = None;
        while let Some((number, payload)) = reader.next()? {
            if number == wanted {
                found = Some(payload);
            }
        }
        Ok(found)
    }

    fn int_or_string(self, place: Place, payload: Payload<'_>) -> Result<Value, Error> {
        let kind = self.part(place, payload, 1)?.map_or(Ok(0), |p| p.varint(place))?;
        if kind == 1 {
            let text =
                self.part(place, payload, 3)?.map_or(Ok(String::new()), |p| p.text(place))?;
            return Ok(Value::String(text));
        }
        let number = self.part(place, payload, 2)?.map_or(Ok(0), |p| p.varint(place))?;
        Ok(json!(number.cast_signed()))
    }

    /// A zero time is sent as an empty message and shown as `null`.
    fn time(self, place: Place, payload: Payload<'_>, micro: bool) -> Result<Value, Error> {
        if payload.bytes(place)?.is_empty() {
            return Ok(Value::Null);
        }
        let seconds = self.part(place, payload, 1)?.map_or(Ok(0), |p| p.varint(place))?;
        let nanos = self.part(place, payload, 2)?.map_or(Ok(0), |p| p.varint(place))?;
        let nanos = i32::try_from(nanos.cast_signed()).unwrap_or(0);
        let wrong = |_| Error::Mismatch { message: place.message, field: place.field };
        let time = jiff::Timestamp::new(seconds.cast_signed(), nanos).map_err(wrong)?;
        let format = if micro { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
        Ok(json!(time.strftime(format).to_string()))
    }

    /// A schema, or a list of schemas (`OrArray`) or of strings (`OrStrings`).
    fn schema_or_list(
        self,
        place: Place,
        kind: &Type,
        id: StructId,
        payload: Payload<'_>,
    ) -> Result<Value, Error> {
        if let Some(schema) = self.part(place, payload, 1)? {
            return self.message(place, id, schema);
        }
        let mut list = Vec::new();
        let mut reader = Reader::new(payload.bytes(place)?);
        while let Some((_, item)) = reader.next()? {
            list.push(match kind {
                Type::OrStrings(_) => Value::String(item.text(place)?),
                _ => self.message(place, id, item)?,
            });
        }
        Ok(Value::Array(list))
    }
}
