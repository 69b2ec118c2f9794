//! May this pod run on this node: selectors, required affinity, taints. Shared by the scheduler
//! and DaemonSets. Pure.

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

use crate::store::name;

pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub(crate) fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.into(), effect: effect.into(), value: None, time_added: None }
}

/// The status of the node's Ready condition: `True`, `False`, `Unknown`, or `Unknown` if absent.
pub(crate) fn readiness(node: &Node) -> &str {
    node.status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten())
        .find(|c| c.type_ == "Ready")
        .map_or("Unknown", |c| c.status.as_str())
}

/// What keeps pods away from the node by its state alone, whether or not it is written on it yet.
pub(crate) fn state_taints(node: &Node) -> Vec<Taint> {
    let mut taints = Vec::new();
    match readiness(node) {
        "True" => {}
        "False" => taints.push(taint(NOT_READY, "NoSchedule")),
        _ => taints.push(taint(UNREACHABLE, "NoSchedule")),
    }
    if node.spec.as_ref().is_some_and(|s| s.unschedulable == Some(true)) {
        taints.push(taint(UNSCHEDULABLE, "NoSchedule"));
    }
    taints
}

/// All taints of a node, written or implied by its state.
pub(crate) fn taints(node: &Node) -> Vec<Taint> {
    let mut all = node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
    for implied in state_taints(node) {
        if !all.iter().any(|t| t.key == implied.key && t.effect == implied.effect) {
            all.push(implied);
        }
    }
    all
}

pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let filled = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
    if filled(&toleration.effect).is_some_and(|e| e != taint.effect) {
        return false;
    }
    match filled(&toleration.key) {
        Some(key) if key != taint.key => return false,
        // An empty key with Exists tolerates everything.
        None if toleration.operator.as_deref() != Some("Exists") => return false,
        _ => {}
    }
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "" | "Equal" => {
            toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or("")
        }
        _ => false,
    }
}

/// The first taint of these effects that the pod does not tolerate.
pub(crate) fn untolerated<'a>(
    tolerations: &[Toleration],
    taints: &'a [Taint],
    effects: &[&str],
) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .find(|taint| !tolerations.iter().any(|t| tolerates(t, taint)))
}

/// Whether the pod's node selector and required node affinity accept the node.
pub(crate) fn accepts(pod: &PodSpec, node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let wanted = pod.node_selector.iter().flatten();
    let selected = wanted.into_iter().all(|(k, v)| labels.and_then(|l| l.get(k)) == Some(v));
    selected && required(pod).is_none_or(|selector| meets(selector, node))
}

fn required(pod: &PodSpec) -> Option<&NodeSelector> {
    let affinity = pod.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity.required_during_scheduling_ignored_during_execution.as_ref()
}

fn meets(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| meets_term(term, node))
}

fn meets_term(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // A term without any requirement matches nothing.
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let labels = node.metadata.labels.as_ref();
    expressions.iter().all(|r| holds(r, labels.and_then(|l| l.get(&r.key)).map(String::as_str)))
        && fields.iter().all(|r| holds(r, (r.key == "metadata.name").then(|| name(&node.metadata))))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = |v: &str| values.iter().any(|w| w == v);
    let number = |text: &str| text.parse::<i64>().ok();
    let limit = values.first().and_then(|v| number(v));
    match (requirement.operator.as_str(), value) {
        ("In", Some(v)) => listed(v),
        ("NotIn", Some(v)) => !listed(v),
        ("NotIn" | "DoesNotExist", None) | ("Exists", Some(_)) => true,
        ("Gt", Some(v)) => number(v).zip(limit).is_some_and(|(v, limit)| v > limit),
        ("Lt", Some(v)) => number(v).zip(limit).is_some_and(|(v, limit)| v < limit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node() -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap()
    }

    #[test]
    fn affinity_terms_are_alternatives_and_their_parts_are_not() {
        let rows = [
            (
                json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]),
                true,
            ),
            (
                json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]),
                false,
            ),
            (
                json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]),
                true,
            ),
            (
                json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
                     "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]),
                false,
            ),
            (
                json!([{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}]),
                true,
            ),
            (
                json!([{"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["8"]}]}]),
                false,
            ),
            (json!([{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]), true),
            (json!([{}]), false),
        ];
        for (terms, expected) in rows {
            let pod: PodSpec = serde_json::from_value(json!({"containers": [], "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": terms}}}}))
            .unwrap();
            assert_eq!(accepts(&pod, &node()), expected, "{terms}");
        }
    }

    #[test]
    fn tolerations_match_by_key_value_and_effect() {
        let taint = Taint { value: Some("x".into()), ..taint("dedicated", "NoSchedule") };
        let rows = [
            (json!({"key": "dedicated", "operator": "Exists"}), true),
            (json!({"key": "dedicated", "value": "x"}), true),
            (json!({"key": "dedicated", "value": "y"}), false),
            (json!({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}), false),
            (
                json!({"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoSchedule"}),
                true,
            ),
            (json!({"operator": "Exists"}), true),
            (json!({"operator": "Equal"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
        ];
        for (toleration, expected) in rows {
            let parsed: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(tolerates(&parsed, &taint), expected, "{toleration}");
        }
    }

    #[test]
    fn a_node_keeps_pods_away_by_its_state_alone() {
        let mut silent = node();
        silent.status = None;
        silent.spec = Some(serde_json::from_value(json!({"unschedulable": true})).unwrap());
        let keys: Vec<String> = taints(&silent).into_iter().map(|t| t.key).collect();
        assert_eq!(keys, [UNREACHABLE, UNSCHEDULABLE]);
        assert!(taints(&node()).is_empty());
    }
}
