//! What may change in a pod once it is there: images, a shorter deadline, more tolerations.

use ironsail_schema::FieldError;
use serde_json::Value;

use super::super::at::{At, Errors, as_map, each, restore};

const MAY: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
     to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
     previously negative)";

/// Compares a changed pod with what it was.
pub(super) fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    let bound = is_bound(new, old);
    let (new, old) = (At::root(new).get("spec"), At::root(old).get("spec"));
    for key in ["containers", "initContainers"] {
        if new.get(key).len() != old.get(key).len() {
            errors.push(new.get(key).forbidden("pod updates may not add or remove containers"));
            return;
        }
    }
    deadline(&new.get("activeDeadlineSeconds"), &old.get("activeDeadlineSeconds"), errors);
    added_tolerations(&new.get("tolerations"), &old.get("tolerations"), errors);
    removed_gates(&new.get("schedulingGates"), &old.get("schedulingGates"), errors);
    let mut same = without_changeable(new.value, old.value);
    if bound {
        restore(&mut same, old.value, "nodeName");
    }
    if same != *old.value {
        let detail = format!("{MAY}\n{}", difference(&same, old.value));
        errors.push(FieldError::forbidden("spec", detail));
    }
}

/// Whether this is the one change of node a pod sees: the scheduler's binding, which also says so in
/// the status. Other writes of the spec cannot touch the status.
fn is_bound(new: &Value, old: &Value) -> bool {
    let scheduled = |pod: &Value| {
        At::root(pod).dig("status.conditions").items().any(|condition| {
            condition.get("type").str() == "PodScheduled" && condition.get("status").str() == "True"
        })
    };
    At::root(old).dig("spec.nodeName").is_empty() && scheduled(new) && !scheduled(old)
}

fn deadline(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if new.is_set() && old.is_set() && new.int() > old.int() {
        errors.push(new.invalid("must be less than or equal to previous value"));
    } else if old.is_set() && !new.is_set() {
        errors.push(new.invalid("must not update from a positive integer to nil value"));
    }
}

fn added_tolerations(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let bare = |at: &At<'_>| {
        let mut value = at.value.clone();
        as_map(&mut value).remove("tolerationSeconds");
        value
    };
    let kept: Vec<Value> = new.items().map(|t| bare(&t)).collect();
    if !old.items().all(|t| kept.contains(&bare(&t))) {
        errors.push(
            new.forbidden("existing toleration can not be modified except its tolerationSeconds"),
        );
    }
}

fn removed_gates(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for gate in new.items() {
        let name = gate.get("name").str();
        if !old.items().any(|o| o.get("name").str() == name) {
            errors.push(gate.get("name").forbidden(format!(
                "only deletion is allowed, but found new scheduling gate '{name}'"
            )));
        }
    }
}

/// The new spec with the old value in every place that may change.
fn without_changeable(new: &Value, old: &Value) -> Value {
    let mut new = new.clone();
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore(&mut new, old, key);
    }
    for list in ["containers", "initContainers"] {
        let images: Vec<Value> =
            old[list].as_array().into_iter().flatten().map(|c| c["image"].clone()).collect();
        for (container, image) in each(&mut new, list).zip(images) {
            as_map(container).insert("image".to_owned(), image);
        }
    }
    let negative = old["terminationGracePeriodSeconds"].as_i64().is_some_and(|s| s < 0);
    if negative && new["terminationGracePeriodSeconds"] == 1 {
        restore(&mut new, old, "terminationGracePeriodSeconds");
    }
    // Gated pods are not scheduled yet, so where they may run can still be narrowed.
    if !old["schedulingGates"].as_array().is_none_or(Vec::is_empty) {
        restore(&mut new, old, "nodeSelector");
        restore(&mut new, old, "affinity");
    }
    new
}

/// Which fields differ, for the reader of the error.
fn difference(new: &Value, old: &Value) -> String {
    let mut lines = Vec::new();
    let keys = new.as_object().into_iter().flatten().chain(old.as_object().into_iter().flatten());
    let mut keys: Vec<_> = keys.map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let (new, old) = (new.get(key), old.get(key));
        if new != old {
            let show = |v: Option<&Value>| v.map_or("(absent)".to_owned(), Value::to_string);
            lines.push(format!("- {key}: {}\n+ {key}: {}", show(old), show(new)));
        }
    }
    lines.join("\n")
}
