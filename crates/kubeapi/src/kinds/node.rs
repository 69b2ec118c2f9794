//! Nodes.

use std::time::SystemTime;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::at::{At, Errors, there};
use super::table::{AGE, Column, NAME, column, created, joined, name, wide};
use super::{BEHAVIOUR, Behaviour, Kind, STORED};

pub(super) const KINDS: &[Kind] = &[Kind {
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short_names: &["no"],
    namespaced: false,
    subresources: &["status"],
    behaviour: Behaviour {
        default,
        validate,
        validate_update,
        columns: COLUMNS,
        row,
        selectable: &["spec.unschedulable"],
        ..BEHAVIOUR
    },
    ..STORED
}];

const COLUMNS: &[Column] = &[
    NAME,
    column("Status"),
    column("Roles"),
    AGE,
    column("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];

/// What the node can give is what it has, unless it says otherwise.
fn default(node: &mut Value) {
    let Some(status) = there(node, "status") else { return };
    if status.get("allocatable").is_none()
        && let Some(capacity) = status.get("capacity").cloned()
    {
        status["allocatable"] = capacity;
    }
    for list in ["capacity", "allocatable"] {
        if let Some(list) = there(status, list) {
            super::pod::default_resource_list(list);
        }
    }
}

fn validate(node: &Value, errors: &mut Errors) {
    let spec = At::root(node).get("spec");
    let mut seen = std::collections::HashSet::new();
    // The real server reports them there, too.
    let taints = At { value: spec.get("taints").value, path: "metadata.taints".to_owned() };
    for taint in taints.items() {
        let (key, value, effect) = (taint.get("key"), taint.get("value"), taint.get("effect"));
        errors.extend(super::name::label_key(key.str()).into_iter().map(|w| key.invalid(w)));
        let wrong = super::name::label_value(value.str());
        if !wrong.is_empty() {
            errors.push(value.invalid(wrong.join(";")));
        }
        effect.one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        if !seen.insert((key.str(), effect.str())) {
            let mut error = FieldError::duplicate(taint.path.clone(), taint.value.clone());
            "taints must be unique by key and effect pair".clone_into(&mut error.detail);
            errors.push(error);
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (At::root(new).get("spec"), At::root(old).get("spec"));
    let cidrs = old.get("podCIDRs");
    if !cidrs.is_empty() && new.get("podCIDRs").value != cidrs.value {
        errors.push(
            new.get("podCIDRs")
                .forbidden("node updates may not change podCIDR except from \"\" to valid"),
        );
    }
    let provider = old.get("providerID");
    if !provider.is_empty() && new.get("providerID").value != provider.value {
        errors.push(
            new.get("providerID")
                .forbidden("node updates may not change providerID except from \"\" to valid"),
        );
    }
}

fn row(node: &Value, now: SystemTime) -> Vec<Value> {
    let at = At::root(node);
    let info = at.dig("status.nodeInfo");
    let known = |key: &str| match info.get(key).str() {
        "" => json!("<unknown>"),
        text => json!(text),
    };
    let kernel = match (known("kernelVersion"), info.get("architecture").str()) {
        (kernel, "") => kernel,
        (kernel, arch) => json!(format!("{} ({arch})", kernel.as_str().unwrap_or_default())),
    };
    vec![
        name(node),
        json!(status(&at)),
        json!(roles(&at)),
        created(node, now),
        json!(info.get("kubeletVersion").str()),
        address(&at, "InternalIP"),
        address(&at, "ExternalIP"),
        known("osImage"),
        kernel,
        known("containerRuntimeVersion"),
    ]
}

fn status(node: &At<'_>) -> String {
    let ready = node.dig("status.conditions").items().find(|c| c.get("type").str() == "Ready");
    let mut words = vec![match ready {
        Some(c) if c.get("status").str() == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }];
    if node.dig("spec.unschedulable").bool() {
        words.push("SchedulingDisabled");
    }
    words.join(",")
}

fn roles(node: &At<'_>) -> String {
    let mut roles: Vec<&str> = node
        .dig("metadata.labels")
        .entries()
        .filter_map(|(key, value)| match key {
            "kubernetes.io/role" => Some(value.str()),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    joined(roles)
}

fn address(node: &At<'_>, kind: &str) -> Value {
    let found = node.dig("status.addresses").items().find(|a| a.get("type").str() == kind);
    json!(found.map_or("<none>", |a| a.get("address").str()))
}
