//! Security contexts of pods and containers.

use super::super::at::{At, Errors};

const MAX_ID: i64 = i32::MAX as i64;

/// `securityContext` of a container.
pub(super) fn container(context: &At<'_>, errors: &mut Errors) {
    ids(context, &["runAsUser", "runAsGroup"], errors);
    context.get("procMount").one_of_if_set(&["Default", "Unmasked"], errors);
    seccomp(&context.get("seccompProfile"), errors);
    let escalation = context.get("allowPrivilegeEscalation");
    if escalation.is_set() && !escalation.bool() {
        if context.get("privileged").bool() {
            errors.push(context.invalid(
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ));
        }
        if context.dig("capabilities.add").items().any(|c| c.str() == "CAP_SYS_ADMIN") {
            errors.push(context.invalid(
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            ));
        }
    }
}

/// `securityContext` of a pod.
pub(super) fn pod(spec: &At<'_>, errors: &mut Errors) {
    let context = spec.get("securityContext");
    ids(&context, &["fsGroup", "runAsUser", "runAsGroup"], errors);
    for group in context.get("supplementalGroups").items() {
        id(&group, errors);
    }
    let share = spec.get("shareProcessNamespace");
    if share.bool() && spec.get("hostPID").bool() {
        errors.push(share.invalid("ShareProcessNamespace and HostPID cannot both be enabled"));
    }
    context.get("fsGroupChangePolicy").one_of_if_set(&["Always", "OnRootMismatch"], errors);
    context.get("supplementalGroupsPolicy").one_of_if_set(&["Merge", "Strict"], errors);
    seccomp(&context.get("seccompProfile"), errors);
}

fn ids(context: &At<'_>, keys: &[&str], errors: &mut Errors) {
    for key in keys {
        id(&context.get(key), errors);
    }
}

fn id(at: &At<'_>, errors: &mut Errors) {
    if at.is_set() && !(0..=MAX_ID).contains(&at.int()) {
        errors.push(at.invalid(format!("must be between 0 and {MAX_ID}, inclusive")));
    }
}

fn seccomp(profile: &At<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let kind = profile.get("type");
    if kind.is_empty() {
        errors.push(kind.required("type is required when seccompProfile is set"));
    } else {
        kind.one_of_if_set(&["Localhost", "RuntimeDefault", "Unconfined"], errors);
    }
    let file = profile.get("localhostProfile");
    if kind.str() == "Localhost" && !file.is_set() {
        errors.push(file.required("must be set when seccomp type is Localhost"));
    } else if kind.str() != "Localhost" && file.is_set() {
        errors.push(file.invalid("can only be set when seccomp type is Localhost"));
    }
}
