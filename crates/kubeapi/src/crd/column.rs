//! Printer columns: what `kubectl get` shows of a custom resource.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::jsonpath::Path;
use crate::kinds::custom;

/// One column besides the name.
#[derive(Debug)]
pub(super) struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    /// A path that is not understood shows nothing.
    path: Option<Path>,
}

/// The columns of a version: what it says, or its age.
pub(super) fn of_version(version: &Value) -> Vec<Column> {
    let said =
        version["additionalPrinterColumns"].as_array().map(Vec::as_slice).unwrap_or_default();
    if said.is_empty() {
        let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            "description": "How long ago the object was created."});
        return vec![Column::new(&age)];
    }
    said.iter().map(Column::new).collect()
}

/// The `columnDefinitions` of a Table.
pub(super) fn definitions(columns: &[Column]) -> Value {
    let name = json!({
        "name": "Name", "type": "string", "format": "name", "priority": 0,
        "description": "Name must be unique within a namespace.",
    });
    let others = columns.iter().map(|column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    });
    std::iter::once(name).chain(others).collect()
}

/// One cell per column.
pub(super) fn cells(columns: &[Column], object: &Value, now: SystemTime) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    std::iter::once(name).chain(columns.iter().map(|column| column.cell(object, now))).collect()
}

impl Column {
    fn new(column: &Value) -> Self {
        let text = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column["priority"].as_i64().unwrap_or(0),
            path: Path::parse(&text("jsonPath")).ok(),
        }
    }

    fn cell(&self, object: &Value, now: SystemTime) -> Value {
        let found = self.path.as_ref().map(|path| path.find(object)).unwrap_or_default();
        let Some(first) = found.first() else { return Value::Null };
        match self.kind.as_str() {
            "integer" => match first.as_i64() {
                Some(whole) => whole.into(),
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "shown only, as Kubernetes does"
                )]
                None => first.as_f64().map_or(Value::Null, |number| (number as i64).into()),
            },
            "number" if first.is_number() => (*first).clone(),
            "boolean" if first.is_boolean() => (*first).clone(),
            "date" => match first {
                Value::String(_) => {
                    custom::ago(first, now).map_or_else(|| json!("<invalid>"), Value::from)
                }
                _ => Value::Null,
            },
            "string" => Value::from(shown(first)),
            _ => Value::Null,
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_the_types_of_their_columns() {
        let version = json!({"additionalPrinterColumns": [
            {"name": "Hosts", "type": "string", "jsonPath": ".spec.hosts"},
            {"name": "Each", "type": "string", "jsonPath": ".spec.hosts[*]"},
            {"name": "N", "type": "integer", "jsonPath": ".spec.n"},
            {"name": "B", "type": "boolean", "jsonPath": ".spec.b"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            {"name": "None", "type": "string", "jsonPath": ".spec.none", "priority": 1},
        ]});
        let columns = of_version(&version);
        let object = json!({
            "metadata": {"name": "x", "creationTimestamp": "1970-01-01T00:00:10Z"},
            "spec": {"hosts": ["a", "b"], "n": 3, "b": true},
        });
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(70);
        let expect = [
            json!("x"),
            json!("[\"a\",\"b\"]"),
            json!("a"),
            json!(3),
            json!(true),
            json!("60s"),
            json!(null),
        ];
        assert_eq!(cells(&columns, &object, now), expect);
        assert_eq!(definitions(&columns)[6]["priority"], 1);
        assert_eq!(definitions(&of_version(&json!({})))[1]["name"], "Age");
    }
}
