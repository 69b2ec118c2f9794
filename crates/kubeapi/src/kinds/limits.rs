//! LimitRanges and ResourceQuotas: stored and served, not enforced.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::at::{At, Errors, as_map, each, object};
use super::pod::{default_resource_list, validate_quantity};
use super::table::{AGE, Column, NAME, NAME_CREATED_AT, column, created, name, name_created_at};
use super::{BEHAVIOUR, Behaviour, Kind, STORED};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "LimitRange",
        plural: "limitranges",
        singular: "limitrange",
        short_names: &["limits"],
        behaviour: Behaviour {
            default: default_range,
            validate: validate_range,
            columns: NAME_CREATED_AT,
            row: name_created_at,
            ..BEHAVIOUR
        },
        ..STORED
    },
    Kind {
        kind: "ResourceQuota",
        plural: "resourcequotas",
        singular: "resourcequota",
        short_names: &["quota"],
        subresources: &["status"],
        behaviour: Behaviour {
            default: default_quota,
            validate: validate_quota,
            columns: QUOTA,
            row,
            ..BEHAVIOUR
        },
        ..STORED
    },
];

const QUOTA: &[Column] = &[NAME, column("Request"), column("Limit"), AGE];

/// Where one bound of a container is given, the others follow from it.
fn default_range(range: &mut Value) {
    for limit in each(object(range, "spec"), "limits") {
        if limit["type"] != "Container" {
            continue;
        }
        for (to, from) in
            [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")]
        {
            let Some(Value::Object(from)) = limit.get(from).cloned() else { continue };
            let to = as_map(limit).entry(to).or_insert_with(|| Value::Object(Map::new()));
            for (name, amount) in from {
                as_map(to).entry(name).or_insert(amount);
            }
        }
    }
}

fn validate_range(range: &Value, errors: &mut Errors) {
    for limit in At::root(range).dig("spec.limits").items() {
        limit.get("type").need(errors);
        if limit.get("type").str() == "Pod" {
            for key in ["default", "defaultRequest"] {
                if !limit.get(key).is_empty() {
                    errors.push(
                        limit.get(key).forbidden("may not be specified when `type` is 'Pod'"),
                    );
                }
            }
        }
    }
}

fn default_quota(quota: &mut Value) {
    if let Some(hard) = object(quota, "spec").get_mut("hard") {
        default_resource_list(hard);
    }
}

fn validate_quota(quota: &Value, errors: &mut Errors) {
    for (_, amount) in At::root(quota).dig("spec.hard").entries() {
        validate_quantity(&amount, errors);
    }
}

fn row(quota: &Value, now: SystemTime) -> Vec<Value> {
    let status = At::root(quota).get("status");
    let list = |limits: bool| {
        let parts: Vec<_> = status
            .get("hard")
            .entries()
            .filter(|(name, _)| name.starts_with("limits.") == limits)
            .map(|(name, hard)| {
                let used = status.get("used").get(name).str();
                format!("{name}: {}/{}", if used.is_empty() { "0" } else { used }, hard.str())
            })
            .collect();
        json!(parts.join(", "))
    };
    vec![name(quota), list(false), list(true), created(quota, now)]
}
