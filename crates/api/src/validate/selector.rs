//! Which workloads or objects a policy is for.

use std::collections::BTreeMap;

use super::check::Check;
use crate::istio::networking::LabelSelector;
use crate::istio::{PolicyTargetReference, WorkloadSelector};

/// Objects that a policy may be attached to, by group and kind.
const TARGETS: [(&str, &str); 4] = [
    ("core", "Service"),
    ("networking.istio.io", "ServiceEntry"),
    ("gateway.networking.k8s.io", "Gateway"),
    ("gateway.networking.k8s.io", "GatewayClass"),
];

fn labels(check: &mut Check<'_>, labels: &BTreeMap<String, String>) {
    for (key, value) in labels {
        let shown = format!("{key}={value}");
        check.require(!key.is_empty(), || {
            format!("empty key is not supported in selector: {shown:?}")
        });
        check.require(!shown.contains('*'), || {
            format!("wildcard is not supported in selector: {shown:?}")
        });
    }
}

pub(super) fn workloads(check: &mut Check<'_>, field: &str, selector: Option<&WorkloadSelector>) {
    check.some(field, selector, |check, selector| {
        labels(check, &selector.match_labels);
        if selector.match_labels.is_empty() {
            check.warn("workload selector specified without labels");
        }
    });
}

/// The older selector; `what` names the object in the warning.
pub(super) fn older(check: &mut Check<'_>, what: &str, selector: Option<&LabelSelector>) {
    check.some("workloadSelector", selector, |check, selector| {
        labels(check, &selector.labels);
        if selector.labels.is_empty() {
            check.warn(format!(
                "{what}: workload selector specified without labels, will be applied to all services in namespace"
            ));
        }
    });
}

/// What a policy is for: workloads by labels, or objects by name, not both.
pub(super) fn policy(
    check: &mut Check<'_>,
    selector: Option<&WorkloadSelector>,
    single: Option<&PolicyTargetReference>,
    targets: &[PolicyTargetReference],
) {
    let set = [selector.is_some(), single.is_some(), !targets.is_empty()];
    if set.iter().filter(|set| **set).count() > 1 {
        check.error("only one of targetRefs or workloadSelector can be set");
    }
    workloads(check, "selector", selector);
    check.some("targetRef", single, target);
    check.each("targetRefs", targets, target);
}

pub(super) fn target(check: &mut Check<'_>, target: &PolicyTargetReference) {
    check.require(!target.name.is_empty(), || "targetRef name must be set");
    check.require(
        target.namespace.is_empty(),
        || "targetRef namespace must not be set; cross namespace referencing is not supported",
    );
    let group = if target.group.is_empty() { "core" } else { &target.group };
    check.require(TARGETS.contains(&(group, &target.kind)), || {
        let known: Vec<_> = TARGETS.iter().map(|(group, kind)| format!("{group}/{kind}")).collect();
        let PolicyTargetReference { group, kind, .. } = target;
        format!("targetRef must be to one of {} but was {group}/{kind}", known.join(", "))
    });
}
