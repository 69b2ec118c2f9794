//! The rules of the workloads of `apps`.

use ironsail_schema::FieldError;
use serde_json::Value;

use super::super::at::{At, Errors, as_map, restore};
use super::super::meta::immutable;
use super::super::{pod, selector};
use super::always;

pub(super) fn deployment(obj: &Value, errors: &mut Errors) {
    let spec = At::root(obj).get("spec");
    spec.get("replicas").not_negative(errors);
    needs_selector(&spec, "deployment", errors);
    template(&spec, errors);
    always(&spec, "ReplicaSet", errors);
    strategy(&spec.get("strategy"), errors);
    spec.get("minReadySeconds").not_negative(errors);
    spec.get("revisionHistoryLimit").not_negative(errors);
    let deadline = spec.get("progressDeadlineSeconds");
    deadline.not_negative(errors);
    if deadline.is_set() && deadline.int() <= spec.get("minReadySeconds").int() {
        errors.push(deadline.invalid("must be greater than minReadySeconds"));
    }
    counts(obj, errors);
}

pub(super) fn replica_set(obj: &Value, errors: &mut Errors) {
    let spec = At::root(obj).get("spec");
    spec.get("replicas").not_negative(errors);
    spec.get("minReadySeconds").not_negative(errors);
    needs_selector(&spec, "deployment", errors);
    template(&spec, errors);
    always(&spec, "ReplicaSet", errors);
    counts(obj, errors);
}

pub(super) fn daemon_set(obj: &Value, errors: &mut Errors) {
    let spec = At::root(obj).get("spec");
    if spec.get("selector").is_set() {
        needs_selector(&spec, "daemonset", errors);
    }
    template(&spec, errors);
    always(&spec, "DaemonSet", errors);
    spec.get("minReadySeconds").not_negative(errors);
    spec.get("revisionHistoryLimit").not_negative(errors);
    let strategy = spec.get("updateStrategy");
    if !matches!(strategy.get("type").str(), "RollingUpdate" | "OnDelete") {
        errors.push(FieldError::not_supported(
            strategy.path.clone(),
            strategy.value.clone(),
            &["RollingUpdate", "OnDelete"],
        ));
    }
    let rolling = strategy.get("rollingUpdate");
    if strategy.get("type").str() == "RollingUpdate" {
        let (out, over) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
        percent_or_number(&out, true, errors);
        percent_or_number(&over, true, errors);
        if is_zero(out.value) && is_zero(over.value) {
            errors.push(out.required("cannot be 0 when maxSurge is 0"));
        } else if !is_zero(out.value) && !is_zero(over.value) {
            errors.push(over.invalid("may not be set when maxUnavailable is non-zero"));
        }
    }
}

pub(super) fn stateful_set(obj: &Value, errors: &mut Errors) {
    let spec = At::root(obj).get("spec");
    let policy = spec.get("podManagementPolicy");
    if policy.is_empty() {
        errors.push(policy.required(""));
    } else if !matches!(policy.str(), "OrderedReady" | "Parallel") {
        errors.push(policy.invalid("must be 'OrderedReady' or 'Parallel'"));
    }
    let strategy = spec.get("updateStrategy");
    match strategy.get("type").str() {
        "" => errors.push(strategy.required("")),
        "OnDelete" => {
            if strategy.get("rollingUpdate").is_set() {
                errors.push(
                    strategy
                        .get("rollingUpdate")
                        .invalid("only allowed for updateStrategy 'RollingUpdate'"),
                );
            }
        }
        "RollingUpdate" => {
            strategy.get("rollingUpdate").get("partition").not_negative(errors);
            percent_or_number(&strategy.get("rollingUpdate").get("maxUnavailable"), true, errors);
        }
        _ => errors.push(strategy.invalid("must be 'RollingUpdate' or 'OnDelete'")),
    }
    for key in ["whenDeleted", "whenScaled"] {
        let retention = spec.get("persistentVolumeClaimRetentionPolicy").get(key);
        retention.one_of_if_set(&["Retain", "Delete"], errors);
    }
    spec.get("replicas").not_negative(errors);
    spec.get("minReadySeconds").not_negative(errors);
    spec.dig("ordinals.start").not_negative(errors);
    spec.get("revisionHistoryLimit").not_negative(errors);
    needs_selector(&spec, "statefulset", errors);
    template(&spec, errors);
    always(&spec, "StatefulSet", errors);
}

fn needs_selector(spec: &At<'_>, owner: &str, errors: &mut Errors) {
    let at = spec.get("selector");
    if !at.is_set() {
        errors.push(at.required(""));
    } else {
        selector::validate(&at, errors);
        if at.get("matchLabels").is_empty() && at.get("matchExpressions").is_empty() {
            errors.push(at.invalid(format!("empty selector is invalid for {owner}")));
        }
    }
}

fn template(spec: &At<'_>, errors: &mut Errors) {
    let (template, choice) = (spec.get("template"), spec.get("selector"));
    if selector::is_valid(&choice) {
        pod::validate_selected(&template, &choice, errors);
    } else {
        errors.push(choice.invalid("invalid label selector"));
    }
    pod::validate_template(&template, errors);
}

fn strategy(strategy: &At<'_>, errors: &mut Errors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").str() {
        "Recreate" => {
            if rolling.is_set() {
                errors.push(
                    rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"),
                );
            }
        }
        "RollingUpdate" => {
            let (out, over) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            percent_or_number(&out, true, errors);
            percent_or_number(&over, false, errors);
            if is_zero(out.value) && is_zero(over.value) {
                errors.push(out.invalid("may not be 0 when `maxSurge` is 0"));
            }
        }
        _ => errors.push(FieldError::not_supported(
            strategy.path.clone(),
            strategy.value.clone(),
            &["Recreate", "RollingUpdate"],
        )),
    }
}

/// A number, or a share such as `25%`, of at most everything where `bounded`.
pub(in crate::kinds) fn percent_or_number(at: &At<'_>, bounded: bool, errors: &mut Errors) {
    match at.value {
        Value::String(text) => {
            let share = text
                .strip_suffix('%')
                .filter(|s| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit()));
            match share.map(str::parse::<u64>) {
                Some(Ok(share)) => {
                    if bounded && share > 100 {
                        errors.push(at.invalid("must not be greater than 100%"));
                    }
                }
                _ => errors.push(at.invalid(
                    "a valid percent string must be a numeric string followed by an ending '%' \
                     (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                )),
            }
        }
        _ => at.not_negative(errors),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse::<i64>() == Ok(0),
        other => other.as_i64().unwrap_or_default() == 0,
    }
}

/// A status cannot have more good pods than pods.
fn counts(obj: &Value, errors: &mut Errors) {
    let status = At::root(obj).get("status");
    let total = status.get("replicas").int();
    for key in ["updatedReplicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas"] {
        let at = status.get(key);
        at.not_negative(errors);
        if at.int() > total {
            errors.push(at.invalid("cannot be greater than status.replicas"));
        }
    }
    if status.get("availableReplicas").int() > status.get("readyReplicas").int() {
        errors
            .push(status.get("availableReplicas").invalid("cannot be greater than readyReplicas"));
    }
}

/// The selector says which pods are ours; changing it would lose them.
pub(super) fn same_selector(new: &Value, old: &Value, errors: &mut Errors) {
    immutable(&At::root(new).dig("spec.selector"), &At::root(old).dig("spec.selector"), errors);
}

pub(super) fn stateful_set_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (mut new, old) = (new["spec"].clone(), &old["spec"]);
    as_map(&mut new);
    for key in [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ] {
        restore(&mut new, old, key);
    }
    if new != *old {
        errors.push(FieldError::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden",
        ));
    }
}
