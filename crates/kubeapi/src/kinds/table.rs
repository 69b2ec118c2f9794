//! Columns and cells of `kubectl get`, and the fields that selectors know.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::{Kind, age};

/// A column of the table a list is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer` or `date` …, as in `meta.k8s.io/v1` Table.
    pub kind: &'static str,
    /// `name` for the name column, else empty.
    pub format: &'static str,
    /// 0 always shows, 1 only with `-o wide`.
    pub priority: i32,
    pub description: &'static str,
}

/// A column that always shows.
pub(super) const fn column(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 0, description: "" }
}

/// A column of numbers.
pub(super) const fn number(name: &'static str) -> Column {
    Column { kind: "integer", ..column(name) }
}

/// A column that shows with `-o wide`.
pub(super) const fn wide(name: &'static str) -> Column {
    Column { priority: 1, ..column(name) }
}

pub(super) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    priority: 0,
    description: "Name must be unique within a namespace.",
};

pub(super) const AGE: Column = Column {
    name: "Age",
    kind: "string",
    format: "",
    priority: 0,
    description: "How long ago the object was created.",
};

/// Where a table shows the moment itself; `kubectl` turns it into an age.
pub(super) const CREATED_AT: Column = Column {
    name: "Created At",
    kind: "date",
    format: "",
    priority: 0,
    description: "When the object was created.",
};

pub(super) const NAME_AGE: &[Column] = &[NAME, AGE];

pub(super) fn name_age(obj: &Value, now: SystemTime) -> Vec<Value> {
    vec![name(obj), created(obj, now)]
}

pub(super) fn name(obj: &Value) -> Value {
    obj["metadata"]["name"].clone()
}

pub(super) fn created(obj: &Value, now: SystemTime) -> Value {
    json!(age::since(obj["metadata"].get("creationTimestamp"), now))
}

pub(super) const NAME_CREATED_AT: &[Column] = &[NAME, CREATED_AT];

pub(super) fn name_created_at(obj: &Value, _: SystemTime) -> Vec<Value> {
    vec![name(obj), obj["metadata"]["creationTimestamp"].clone()]
}

/// The texts of a list, joined by commas, or `<none>`.
pub(super) fn joined<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<_> = texts.into_iter().collect();
    if all.is_empty() { "<none>".to_owned() } else { all.join(",") }
}

/// A text, or `<none>` where it is empty.
pub(super) fn or_none(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if !text.is_empty() => json!(text),
        _ => json!("<none>"),
    }
}

/// The value of a selectable field as text; see [`Kind::field`].
pub(super) fn field(kind: &Kind, obj: &Value, path: &str) -> Option<Option<String>> {
    if !kind.selectable().any(|p| p == path) {
        return None;
    }
    // Old events name their source in `source.component`, new ones in `reportingComponent`.
    if kind.kind == "Event" && path == "source" {
        let source = &obj["source"]["component"];
        let text = source.as_str().or(obj["reportingComponent"].as_str());
        return Some(text.map(str::to_owned));
    }
    let pointer = match path {
        "status.successful" => "/status/succeeded".to_owned(),
        // An old name for the name of a namespace.
        "name" => "/metadata/name".to_owned(),
        path => format!("/{}", path.replace('.', "/")),
    };
    Some(match obj.pointer(&pointer) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Bool(b)) => Some(b.to_string()),
        Some(Value::Number(n)) => Some(n.to_string()),
        _ => match path {
            "spec.hostNetwork" | "spec.unschedulable" => Some("false".to_owned()),
            "status.replicas" | "status.successful" => Some("0".to_owned()),
            _ => None,
        },
    })
}
