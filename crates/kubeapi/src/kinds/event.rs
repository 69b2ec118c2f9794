//! Events, in their two forms. Both are stored as core events.

use std::time::SystemTime;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::at::{At, Errors, as_map};
use super::table::{Column, column, wide};
use super::{BEHAVIOUR, Behaviour, Kind, STORED, age};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        behaviour: Behaviour {
            validate,
            columns: COLUMNS,
            row,
            selectable: &[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ],
            ..BEHAVIOUR
        },
        ..STORED
    },
    Kind {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        package: "events.v1",
        behaviour: Behaviour {
            validate: validate_new,
            columns: COLUMNS,
            row: |event, now| row(&to_core(event.clone()), now),
            selectable: &[
                "reason",
                "type",
                "regarding.kind",
                "regarding.name",
                "regarding.namespace",
            ],
            ..BEHAVIOUR
        },
        ..STORED
    },
];

const COLUMNS: &[Column] = &[
    column("Last Seen"),
    column("Type"),
    column("Reason"),
    column("Object"),
    wide("Subobject"),
    wide("Source"),
    column("Message"),
    wide("First Seen"),
    wide("Count"),
    wide("Name"),
];

/// The names of the same field: core, then events.k8s.io.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// From events.k8s.io to core.
pub(super) fn to_core(mut event: Value) -> Value {
    let map = as_map(&mut event);
    for (core, new) in RENAMED {
        if let Some(value) = map.remove(new) {
            map.insert(core.to_owned(), value);
        }
    }
    map.insert("apiVersion".to_owned(), json!("v1"));
    event
}

/// From core to events.k8s.io.
pub(super) fn from_core(mut event: Value) -> Value {
    let map = as_map(&mut event);
    for (core, new) in RENAMED {
        if let Some(value) = map.remove(core) {
            map.insert(new.to_owned(), value);
        }
    }
    map.insert("apiVersion".to_owned(), json!("events.k8s.io/v1"));
    event
}

fn validate(event: &Value, errors: &mut Errors) {
    let event = At::root(event);
    let own = event.dig("metadata.namespace").str();
    let other = event.dig("involvedObject.namespace");
    // Objects without a namespace have their events in the default one.
    let fits = if other.is_empty() { matches!(own, "" | "default") } else { own == other.str() };
    if !fits && !(other.is_empty() && own == "kube-system") {
        errors.push(FieldError::invalid(
            other.path.clone(),
            other.str(),
            "does not match event.namespace",
        ));
    }
}

fn validate_new(event: &Value, errors: &mut Errors) {
    let at = At::root(event);
    for key in ["eventTime", "reportingController", "reportingInstance", "action", "reason"] {
        at.get(key).need(errors);
    }
    if !matches!(at.get("type").str(), "Normal" | "Warning") {
        let detail = format!("has invalid value: {}", at.get("type").str());
        errors.push(FieldError::invalid("type", "", detail));
    }
    for (key, limit) in
        [("reportingInstance", 128), ("action", 128), ("reason", 128), ("note", 1024)]
    {
        if at.get(key).str().len() > limit {
            errors.push(FieldError::invalid(
                key,
                "",
                format!("can have at most {limit} characters"),
            ));
        }
    }
}

fn row(event: &Value, now: SystemTime) -> Vec<Value> {
    let at = At::root(event);
    let set = |key: &str| event.get(key).filter(|v| !v.is_null());
    let first = age::since(set("firstTimestamp").or(set("eventTime")), now);
    let mut last = set("lastTimestamp").map_or(first.clone(), |t| age::since(Some(t), now));
    let mut count = at.get("count").int().max(1);
    if let Some(series) = set("series") {
        last = age::since(series.get("lastObservedTime"), now);
        count = series["count"].as_i64().unwrap_or(count);
    }
    let object = at.get("involvedObject");
    let kind = object.get("kind").str().to_lowercase();
    let target = match object.get("name").str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let either = |old: At<'_>, new: &str| match old.str() {
        "" => at.get(new).str().to_owned(),
        text => text.to_owned(),
    };
    let component = either(at.dig("source.component"), "reportingComponent");
    let instance = either(at.dig("source.host"), "reportingInstance");
    let source = if instance.is_empty() { component } else { format!("{component}, {instance}") };
    vec![
        json!(last),
        json!(at.get("type").str()),
        json!(at.get("reason").str()),
        json!(target),
        json!(object.get("fieldPath").str()),
        json!(source),
        json!(at.get("message").str().trim()),
        json!(first),
        json!(count),
        json!(at.dig("metadata.name").str()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_the_way_to_the_store_and_back() {
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "hello",
            "regarding": {"kind": "Pod", "name": "a"}, "reportingController": "kubelet",
        });
        let core = to_core(event.clone());
        assert_eq!(core["message"], "hello");
        assert_eq!(core["involvedObject"]["name"], "a");
        assert_eq!(from_core(core), event);
    }
}
