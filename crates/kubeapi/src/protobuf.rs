//! Reads objects in Kubernetes' protobuf encoding, in which `kubectl create`, `kubectl auth can-i`
//! and other clients written in Go send them. Answers are always JSON, which they take as well.
//!
//! Bytes in, JSON out. Only the kinds are known that such clients create by themselves (what
//! `kubectl apply` and `create -f` send is JSON); others are refused by name.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

#[cfg(test)]
mod tests;
mod wire;

use wire::{Field, Payload, fields};

pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";
/// Deeper than any of the messages can be.
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("the body is not in Kubernetes' protobuf encoding: {0}")]
    Malformed(&'static str),
    #[error("{kind} in {api_version} is not known in the protobuf encoding; send it as JSON")]
    UnknownKind { api_version: String, kind: String },
    #[error("field {number} of {message} is not known in the protobuf encoding; send it as JSON")]
    UnknownField { message: String, number: u32 },
}

/// The object in a body, with its `apiVersion` and `kind`.
pub(crate) fn decode(body: &[u8]) -> Result<Value, Error> {
    let envelope =
        body.strip_prefix(MAGIC).ok_or(Error::Malformed("it does not begin with k8s"))?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in fields(envelope) {
        let field = field?;
        match (field.number, field.bytes()) {
            (1, Some(type_meta)) => {
                for part in fields(type_meta) {
                    let part = part?;
                    match part.number {
                        1 => api_version = part.text()?.to_owned(),
                        2 => kind = part.text()?.to_owned(),
                        _ => {}
                    }
                }
            }
            (2, Some(bytes)) => raw = bytes,
            (3, Some(encoding)) if !encoding.is_empty() => {
                return Err(Error::Malformed("its content is encoded once more"));
            }
            _ => {}
        }
    }
    // Eviction and DeleteOptions come under the versions of several groups.
    if !ROOTS.contains(&kind.as_str()) {
        return Err(Error::UnknownKind { api_version, kind });
    }
    let mut out = Map::new();
    message(&kind, raw, &mut out, 0)?;
    out.insert("apiVersion".to_owned(), json!(api_version));
    out.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(out))
}

const ROOTS: &[&str] = &[
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CronJob",
    "DeleteOptions",
    "Deployment",
    "Eviction",
    "Ingress",
    "Job",
    "LocalSubjectAccessReview",
    "Namespace",
    "PodDisruptionBudget",
    "PriorityClass",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "Secret",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
    "Service",
    "ServiceAccount",
    "SubjectAccessReview",
    "TokenRequest",
    "TokenReview",
];

/// What a field holds.
#[derive(Debug, Clone, Copy)]
struct Shape {
    name: &'static str,
    /// Sent only where it was set, so that zero and empty mean something.
    optional: bool,
    repeated: bool,
    map: bool,
    kind: &'static str,
}

type Messages = BTreeMap<&'static str, BTreeMap<u32, Shape>>;

static MESSAGES: LazyLock<Messages> = LazyLock::new(|| {
    let mut messages = Messages::new();
    let mut current = "";
    for line in include_str!("protobuf/fields.txt").lines().filter(|l| !l.starts_with('#')) {
        let rest = match line.split_once(':') {
            Some((name, rest)) => {
                current = name;
                rest
            }
            None => line,
        };
        let shapes = messages.entry(current).or_default();
        for field in rest.split(',').map(str::trim).filter(|f| !f.is_empty()) {
            let mut words = field.split(' ');
            let number = words.next().and_then(|n| n.parse().ok());
            let (Some(number), Some(name), Some(kind)) = (number, words.next(), words.next())
            else {
                continue;
            };
            let optional = kind.starts_with('?');
            let kind = kind.trim_start_matches('?');
            let (repeated, map) = (kind.starts_with('['), kind.starts_with('{'));
            let kind = kind.trim_start_matches(['[', '{']);
            shapes.insert(number, Shape { name, optional, repeated, map, kind });
        }
    }
    messages
});

fn message(
    name: &str,
    bytes: &[u8],
    out: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::Malformed("its messages are nested too deep"));
    }
    let shapes = MESSAGES.get(name);
    for field in fields(bytes) {
        let field = field?;
        let Some(shape) = shapes.and_then(|s| s.get(&field.number)) else {
            // Go clients send what is empty, too.
            if field.is_empty() || field.bytes().is_some_and(is_blank) {
                continue;
            }
            return Err(Error::UnknownField { message: name.to_owned(), number: field.number });
        };
        put(shape, &field, out, depth)?;
    }
    Ok(())
}

fn put(
    shape: &Shape,
    field: &Field<'_>,
    out: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    let not_bytes = Error::Malformed("a message is missing where one should be");
    if shape.name == "-" {
        return message(shape.kind, field.bytes().ok_or(not_bytes)?, out, depth + 1);
    }
    if shape.map {
        let entry = field.bytes().ok_or(not_bytes)?;
        let (mut key, mut content) = (String::new(), empty(shape.kind));
        for part in fields(entry) {
            let part = part?;
            match part.number {
                1 => key = part.text()?.to_owned(),
                2 => content = value(shape.kind, &part, depth)?,
                _ => {}
            }
        }
        if let Value::Object(map) = out.entry(shape.name).or_insert_with(|| json!({})) {
            map.insert(key, content);
        }
    } else if shape.repeated {
        if let Value::Array(list) = out.entry(shape.name).or_insert_with(|| json!([])) {
            list.push(value(shape.kind, field, depth)?);
        }
    } else {
        let value = value(shape.kind, field, depth)?;
        if shape.optional || !is_zero(&value) {
            out.insert(shape.name.to_owned(), value);
        }
    }
    Ok(())
}

fn value(kind: &str, field: &Field<'_>, depth: usize) -> Result<Value, Error> {
    Ok(match kind {
        "string" => json!(field.text()?),
        "int" => json!(field.integer()?),
        "bool" => json!(field.integer()? != 0),
        "double" => match field.payload {
            Payload::Fixed64(bits) => json!(f64::from_bits(bits)),
            _ => return Err(Error::Malformed("a number is missing where one should be")),
        },
        _ => {
            let bytes = field
                .bytes()
                .ok_or(Error::Malformed("a message is missing where one should be"))?;
            match kind {
                "bytes" => json!(BASE64.encode(bytes)),
                "Quantity" => {
                    part(bytes, 1)?.map_or(Ok(json!("0")), |f| f.text().map(Value::from))?
                }
                "IntOrString" => int_or_string(bytes)?,
                "Time" | "MicroTime" => time(bytes)?,
                "RawExtension" | "FieldsV1" => match part(bytes, 1)?.and_then(|f| f.bytes()) {
                    Some(raw) => serde_json::from_slice(raw)
                        .map_err(|_| Error::Malformed("JSON inside it is malformed"))?,
                    None => Value::Null,
                },
                _ => {
                    let mut out = Map::new();
                    message(kind, bytes, &mut out, depth + 1)?;
                    Value::Object(out)
                }
            }
        }
    })
}

/// The last field with this number.
fn part(bytes: &[u8], number: u32) -> Result<Option<Field<'_>>, Error> {
    let mut found = None;
    for field in fields(bytes) {
        let field = field?;
        if field.number == number {
            found = Some(field);
        }
    }
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Error> {
    let number = |n: u32| part(bytes, n)?.map_or(Ok(0), |f| f.integer());
    if number(1)? == 1 {
        return part(bytes, 3)?.map_or(Ok(json!("")), |f| f.text().map(Value::from));
    }
    Ok(json!(number(2)?))
}

fn time(bytes: &[u8]) -> Result<Value, Error> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let number = |n: u32| part(bytes, n)?.map_or(Ok(0), |f| f.integer());
    let (seconds, nanos) = (number(1)?, number(2)?);
    let nanos = i32::try_from(nanos).unwrap_or(0);
    let stamp = jiff::Timestamp::new(seconds, nanos)
        .map_err(|_| Error::Malformed("a time is out of range"))?;
    Ok(json!(stamp.to_string()))
}

fn empty(kind: &str) -> Value {
    match kind {
        "string" | "bytes" => json!(""),
        "Quantity" => json!("0"),
        "int" => json!(0),
        "bool" => json!(false),
        _ => json!({}),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// A message in which nothing is set.
fn is_blank(bytes: &[u8]) -> bool {
    bytes.len() <= 256
        && fields(bytes).all(|f| f.is_ok_and(|f| f.is_empty() || f.bytes().is_some_and(is_blank)))
}
