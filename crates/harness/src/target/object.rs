//! Objects of the mesh: read from any JSON, checked, and written again.

use std::sync::LazyLock;

use crate::json;
use arbitrary::{Arbitrary, Result, Unstructured};
use ironsail_api::{Kind, crd, decode, validate};
use serde_json::{Map, Value, json};

/// Kinds with the schema of their spec.
static SCHEMAS: LazyLock<Vec<(Kind, Value)>> = LazyLock::new(|| {
    let schema = |kind: &Kind| {
        let crd = crd::definition(*kind)?;
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        Some((*kind, root["properties"]["spec"].clone()))
    };
    Kind::ALL.iter().filter_map(schema).collect()
});

/// Texts that mean something somewhere.
const TEXTS: &[&str] = &[
    "",
    "*",
    "a",
    "a.b",
    "*.a.com",
    "1s",
    "0s",
    "1.5ms",
    "10.0.0.1",
    "10.0.0.0/8",
    "fd00::/64",
    "ns/name",
    "./*",
    "~/*",
    "unix:///a",
    "[a",
    "a.*",
    "%REQ(a)%",
    "%",
    "https://a/b",
    "oci://a",
    "80",
    "HTTP",
    "TLS",
    "TCP",
    "request.headers[a]",
    "source.ip",
    "{**}",
    "/a/{*}",
    "5xx,503",
    "NOT_FOUND",
    "{\"keys\":[]}",
];

/// A value that fits the schema, mostly.
fn like(u: &mut Unstructured<'_>, node: &Value, depth: usize) -> Result<Value> {
    if depth == 0 || u.ratio(1, 500)? {
        let json::Json(any) = u.arbitrary()?;
        return Ok(any);
    }
    if let Some(names) = node["enum"].as_array() {
        return Ok(u.choose(names)?.clone());
    }
    if let Some(properties) = node["properties"].as_object() {
        let mut object = Map::new();
        for (name, node) in properties {
            if u.ratio(1, 3)? {
                object.insert(name.clone(), like(u, node, depth - 1)?);
            }
        }
        return Ok(Value::Object(object));
    }
    Ok(match node["type"].as_str() {
        Some("array") => {
            let count = u.int_in_range(0..=3)?;
            (0..count)
                .map(|_| like(u, &node["items"], depth - 1))
                .collect::<Result<Vec<_>>>()?
                .into()
        }
        Some("object") if node["additionalProperties"].is_object() => {
            let mut object = Map::new();
            for _ in 0..u.int_in_range(0..=2)? {
                let key = *u.choose(TEXTS)?;
                object.insert(key.to_owned(), like(u, &node["additionalProperties"], depth - 1)?);
            }
            Value::Object(object)
        }
        Some("integer") if u.ratio(15, 16)? => json!(u.int_in_range(0..=70000)?),
        Some("integer") => json!(i64::arbitrary(u)?),
        Some("number") => json!(u.int_in_range(-1..=200)?),
        Some("boolean") => json!(bool::arbitrary(u)?),
        Some("string") if u.ratio(31, 32)? => json!(*u.choose(TEXTS)?),
        Some("string") => json!(String::arbitrary(u)?),
        _ => {
            let json::Json(any) = u.arbitrary()?;
            any
        }
    })
}

/// An object of the mesh with everything that makes it one, mostly.
pub(super) fn any(u: &mut Unstructured<'_>) -> Result<Value> {
    let (kind, schema) = u.choose(&SCHEMAS)?;
    let spec = like(u, schema, 8)?;
    Ok(json!({"apiVersion": kind.api_version(), "kind": kind.name(),
        "metadata": {"name": "a", "namespace": "b"}, "spec": spec}))
}

fn try_one(u: &mut Unstructured<'_>) -> Result<()> {
    let (kind, object) = if u.ratio(9, 10)? {
        let (kind, schema) = u.choose(&SCHEMAS)?;
        let spec = like(u, schema, 8)?;
        (*kind, json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec}))
    } else {
        (*u.choose(Kind::ALL)?, json::object(u)?)
    };
    let decoded = decode(kind, &object);
    let Ok(object) = decoded.object else {
        assert!(
            decoded.diagnostics.iter().any(ironsail_api::Diagnostic::is_error),
            "a refusal has a reason"
        );
        return Ok(());
    };
    for found in validate(&object) {
        assert_eq!((found.kind, &found.name), (kind, &object.meta().name));
        assert!(!found.message.is_empty());
    }
    if kind.is_istio() {
        let meta = json!({"name": object.meta().name, "namespace": object.meta().namespace});
        let again = decode(kind, &json!({"metadata": meta, "spec": object.spec()}));
        let again = again.object.expect("what was read can be read");
        assert_eq!(again.spec(), object.spec(), "what was read, written, is read the same");
    }
    Ok(())
}

pub(crate) fn target(bytes: &[u8]) {
    let _ = try_one(&mut Unstructured::new(bytes));
}
