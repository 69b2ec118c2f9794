//! Events, in their two forms: the newer one has other names for the same fields.

use std::time::SystemTime;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::at::{At, Errors};
use super::table::{Column, NAME, column, wide};
use super::{BEHAVIOUR, Behaviour, Kind, NameRule, STORED, age};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        // Old recorders put anything into the name.
        names: NameRule::PathSegment,
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
            row,
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
    Column { priority: 1, ..NAME },
];

fn validate(event: &Value, errors: &mut Errors) {
    let event = At::root(event);
    let own = event.dig("metadata.namespace").str();
    let other = event.dig("involvedObject.namespace");
    // Objects without a namespace have their events in the default one.
    let fits = if other.is_empty() { matches!(own, "" | "default") } else { own == other.str() };
    if !fits && (!other.is_empty() || own != "kube-system") {
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

/// Reads either form.
fn row(event: &Value, now: SystemTime) -> Vec<Value> {
    let at = At::root(event);
    let set = |keys: &[&str]| keys.iter().find_map(|key| event.get(*key).filter(|v| !v.is_null()));
    let first = set(&["firstTimestamp", "deprecatedFirstTimestamp", "eventTime"]);
    let first = age::since(first, now);
    let last = set(&["lastTimestamp", "deprecatedLastTimestamp"]);
    let mut last = last.map_or(first.clone(), |time| age::since(Some(time), now));
    let count = set(&["count", "deprecatedCount"]).and_then(Value::as_i64);
    let mut count = count.unwrap_or_default().max(1);
    if let Some(series) = set(&["series"]) {
        last = age::since(series.get("lastObservedTime"), now);
        count = series["count"].as_i64().unwrap_or(count);
    }
    let text = |keys: &[&str]| {
        let found = keys.iter().map(|key| at.dig(key).str()).find(|text| !text.is_empty());
        found.unwrap_or_default()
    };
    let kind = text(&["involvedObject.kind", "regarding.kind"]).to_lowercase();
    let target = match text(&["involvedObject.name", "regarding.name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = text(&[
        "source.component",
        "deprecatedSource.component",
        "reportingComponent",
        "reportingController",
    ]);
    let host = text(&["source.host", "deprecatedSource.host", "reportingInstance"]);
    let source =
        if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    vec![
        json!(last),
        json!(text(&["type"])),
        json!(text(&["reason"])),
        json!(target),
        json!(text(&["involvedObject.fieldPath", "regarding.fieldPath"])),
        json!(source),
        json!(text(&["message", "note"]).trim()),
        json!(first),
        json!(count),
        json!(text(&["metadata.name"])),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn both_forms_show_the_same_row() {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_100);
        let core = json!({
            "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "a"},
            "message": " hi ", "reason": "Started", "type": "Normal", "count": 3,
            "firstTimestamp": "2023-11-14T22:13:20Z", "lastTimestamp": "2023-11-14T22:14:55Z",
            "source": {"component": "kubelet", "host": "n"},
        });
        let new = json!({
            "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "a"},
            "note": "hi", "reason": "Started", "type": "Normal", "deprecatedCount": 3,
            "deprecatedFirstTimestamp": "2023-11-14T22:13:20Z",
            "deprecatedLastTimestamp": "2023-11-14T22:14:55Z",
            "reportingController": "kubelet", "reportingInstance": "n",
        });
        let cells = row(&core, now);
        assert_eq!(cells, row(&new, now));
        assert_eq!(cells[0], "5s");
        assert_eq!(cells[3], "pod/a");
        assert_eq!(cells[5], "kubelet, n");
    }
}
