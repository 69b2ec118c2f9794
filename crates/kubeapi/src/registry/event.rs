//! Events exist in two groups with different field names; both see the same objects.

use serde_json::{Map, Value};

/// Core name, name in events.k8s.io.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.to_owned(), value);
    }
}

/// The core group's shape becomes that of events.k8s.io.
pub(super) fn to_new(event: &mut Value) {
    let Some(event) = event.as_object_mut() else { return };
    for (core, new) in NAMES {
        rename(event, core, new);
    }
}

/// The shape of events.k8s.io becomes the core group's.
pub(super) fn to_core(event: &mut Value) {
    let Some(event) = event.as_object_mut() else { return };
    for (core, new) in NAMES {
        rename(event, new, core);
    }
    event.insert("apiVersion".to_owned(), "v1".into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_survives_the_way_there_and_back() {
        let new = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "regarding": {"kind": "Pod", "name": "a"},
            "note": "Started",
            "reason": "Started",
            "reportingController": "kubelet",
        });
        let mut event = new.clone();
        to_core(&mut event);
        assert_eq!(event["involvedObject"]["name"], "a");
        assert_eq!(event["message"], "Started");
        assert_eq!(event["apiVersion"], "v1");
        to_new(&mut event);
        event["apiVersion"] = "events.k8s.io/v1".into();
        assert_eq!(event, new);
    }
}
