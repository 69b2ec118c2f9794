//! JSON patch (RFC 6902) on one object, bounded in operations, copied bytes and depth.
//!
//! Where the RFC leaves room, it follows what the API server of Kubernetes does: negative array
//! indices count from the end, and `replace` of a missing member adds it.

use serde_json::{Map, Value};

use crate::Error;

/// As many operations as Kubernetes allows in one patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// What all `copy` operations of one patch may copy together: no more than a request may carry.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// How deep the outcome may nest: as deep as a JSON reader accepts it again.
const MAX_DEPTH: usize = 120;

/// Applies the operations of `patch` to `doc` in order; all of them or none.
pub fn json_patch(doc: &Value, patch: &Value) -> Result<Value, Error> {
    let Value::Array(operations) = patch else {
        return Err(Error::Malformed("a JSON patch is an array of operations".to_owned()));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(Error::TooManyOperations(operations.len()));
    }
    let mut out = doc.clone();
    let mut copied = 0;
    for (at, operation) in operations.iter().enumerate() {
        let Value::Object(operation) = operation else {
            return Err(Error::Malformed(format!("operation {at} is not an object")));
        };
        apply(&mut out, operation, &mut copied)?;
    }
    Ok(out)
}

fn apply(doc: &mut Value, operation: &Map<String, Value>, copied: &mut usize) -> Result<(), Error> {
    let op = text(operation, "op")?;
    let path = Pointer::parse(text(operation, "path")?)?;
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match op {
        "add" => add(doc, op, &path, value()),
        "remove" => remove(doc, op, &path).map(drop),
        "replace" => replace(doc, &path, value()),
        "test" => test(doc, &path, &value()),
        "move" => {
            let from = Pointer::parse(text(operation, "from")?)?;
            let taken = remove(doc, op, &from)?;
            add(doc, op, &path, taken)
        }
        "copy" => {
            let from = Pointer::parse(text(operation, "from")?)?;
            let found = from.find(doc).ok_or_else(|| missing(op, &from))?.clone();
            *copied += weight(&found);
            if *copied > MAX_COPIED_BYTES {
                return Err(Error::TooLarge("its copy operations copy more than 3 MiB"));
            }
            add(doc, op, &path, found)
        }
        other => Err(Error::DoesNotApply(format!("Unexpected kind: {other}"))),
    }
}

fn text<'a>(operation: &'a Map<String, Value>, member: &str) -> Result<&'a str, Error> {
    match operation.get(member) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => {
            Err(Error::Malformed(format!("member {member:?} of an operation is not a string")))
        }
        None if member == "op" => Err(Error::DoesNotApply("Unexpected kind: unknown".to_owned())),
        None => {
            let op = operation.get("op").and_then(Value::as_str).unwrap_or_default();
            Err(Error::DoesNotApply(format!(
                "{op} operation failed to decode {member}: missing value"
            )))
        }
    }
}

/// A JSON pointer (RFC 6901) with its text.
struct Pointer {
    text: String,
    tokens: Vec<String>,
}

impl Pointer {
    fn parse(text: &str) -> Result<Self, Error> {
        let tokens = match text.strip_prefix('/') {
            Some(rest) => {
                rest.split('/').map(|t| t.replace("~1", "/").replace("~0", "~")).collect()
            }
            None if text.is_empty() => Vec::new(),
            None => {
                return Err(Error::DoesNotApply(format!(
                    "path {text:?} does not start with a slash"
                )));
            }
        };
        Ok(Self { text: text.to_owned(), tokens })
    }

    fn find<'a>(&self, doc: &'a Value) -> Option<&'a Value> {
        self.tokens.iter().try_fold(doc, |at, token| match at {
            Value::Object(map) => map.get(token),
            Value::Array(list) => list.get(index(token, list.len())?),
            _ => None,
        })
    }

    /// The container that holds the last token, and that token. None for the whole document.
    fn parent<'a>(&'a self, doc: &'a mut Value) -> Option<Option<(&'a mut Value, &'a str)>> {
        let (last, before) = self.tokens.split_last()?;
        let found = before.iter().try_fold(doc, |at, token| match at {
            Value::Object(map) => map.get_mut(token),
            Value::Array(list) => {
                let at = index(token, list.len())?;
                list.get_mut(at)
            }
            _ => None,
        });
        Some(found.map(|container| (container, last.as_str())))
    }
}

/// The position a token names in a list of `len` items; negative ones count from the end.
fn index(token: &str, len: usize) -> Option<usize> {
    let number: i64 = token.parse().ok()?;
    let at = if number < 0 { number.checked_add(i64::try_from(len).ok()?)? } else { number };
    usize::try_from(at).ok().filter(|at| *at < len)
}

fn missing(op: &str, path: &Pointer) -> Error {
    Error::DoesNotApply(format!(
        "{op} operation does not apply: doc is missing path: {:?}: missing value",
        path.text
    ))
}

fn invalid_index(op: &str, path: &Pointer, token: &str) -> Error {
    Error::DoesNotApply(format!(
        "error in {op} for path: '{}': Unable to access invalid index: {token}: invalid index referenced",
        path.text
    ))
}

fn add(doc: &mut Value, op: &str, path: &Pointer, value: Value) -> Result<(), Error> {
    if path.tokens.len() + depth(&value) > MAX_DEPTH {
        return Err(Error::TooLarge("it nests too deep"));
    }
    match path.parent(doc) {
        None => *doc = value,
        Some(Some((Value::Object(map), key))) => {
            map.insert(key.to_owned(), value);
        }
        Some(Some((Value::Array(list), "-"))) => list.push(value),
        Some(Some((Value::Array(list), token))) => {
            let at = index(token, list.len() + 1).ok_or_else(|| invalid_index(op, path, token))?;
            list.insert(at, value);
        }
        Some(_) => return Err(missing(op, path)),
    }
    Ok(())
}

fn remove(doc: &mut Value, op: &str, path: &Pointer) -> Result<Value, Error> {
    match path.parent(doc) {
        Some(Some((Value::Object(map), key))) => map.remove(key).ok_or_else(|| {
            Error::DoesNotApply(format!(
                "error in {op} for path: '{}': Unable to remove nonexistent key: {key}: missing value",
                path.text
            ))
        }),
        Some(Some((Value::Array(list), token))) => {
            let at = index(token, list.len()).ok_or_else(|| invalid_index(op, path, token))?;
            Ok(list.remove(at))
        }
        _ => Err(missing(op, path)),
    }
}

fn replace(doc: &mut Value, path: &Pointer, value: Value) -> Result<(), Error> {
    if path.tokens.len() + depth(&value) > MAX_DEPTH {
        return Err(Error::TooLarge("it nests too deep"));
    }
    match path.parent(doc) {
        None => *doc = value,
        Some(Some((Value::Object(map), key))) => {
            map.insert(key.to_owned(), value);
        }
        Some(Some((Value::Array(list), token))) => match index(token, list.len()) {
            Some(at) => list[at] = value,
            None => return Err(invalid_index("replace", path, token)),
        },
        Some(_) => return Err(missing("replace", path)),
    }
    Ok(())
}

fn test(doc: &Value, path: &Pointer, value: &Value) -> Result<(), Error> {
    // A member that is not there equals null, as Kubernetes has it; its container must exist.
    let found = path.find(doc).unwrap_or(&Value::Null);
    if same(found, value) {
        return Ok(());
    }
    Err(Error::DoesNotApply(format!("testing value {} failed: test failed", path.text)))
}

/// Equality of JSON values in which `1` and `1.0` are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 1,
    }
}

/// Roughly the bytes of the value as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => 2 + list.iter().map(|item| 1 + weight(item)).sum::<usize>(),
        Value::Object(map) => {
            2 + map.iter().map(|(key, item)| key.len() + 4 + weight(item)).sum::<usize>()
        }
        _ => 8,
    }
}

#[cfg(test)]
pub(crate) mod tests;
