//! Which node a pod goes to: (pod, nodes, pods) → node, or the reasons why none fits. Pure.
//!
//! Among the nodes that fit, the one with the fewest pods of the same owner wins, then the one
//! with the fewest pods at all, then the first by name. Requested resources are not weighed.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};

use crate::owner;
use crate::placement::{UNSCHEDULABLE, accepts, taints, untolerated};
use crate::podstate::{is_finished, node as node_of};
use crate::store::{is_deleted, name};

/// The part of a node that can make a pod fit or not.
pub(super) fn relevant(node: &Node) -> (Option<BTreeMap<String, String>>, Vec<Taint>, bool) {
    (node.metadata.labels.clone(), taints(node), is_deleted(&node.metadata))
}

pub(super) fn choose(pod: &Pod, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Result<String, String> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut fitting: Vec<&str> = Vec::new();
    for node in nodes {
        match obstacle(pod, node) {
            None => fitting.push(name(&node.metadata)),
            Some(reason) => *reasons.entry(reason).or_insert(0) += 1,
        }
    }
    let crowd = |node: &&str| {
        let here = pods.iter().filter(|p| node_of(p) == Some(*node) && !is_finished(p));
        let (mut kin, mut all) = (0, 0);
        for other in here {
            all += 1;
            kin += usize::from(is_kin(pod, other));
        }
        (kin, all, (*node).to_string())
    };
    match fitting.into_iter().min_by_key(crowd) {
        Some(node) => Ok(node.to_string()),
        None => Err(explain(nodes.len(), &reasons)),
    }
}

fn is_kin(pod: &Pod, other: &Pod) -> bool {
    let owner = |p: &Pod| owner::controller(&p.metadata).map(|c| c.uid.clone());
    owner(pod).is_some_and(|uid| owner(other) == Some(uid))
}

fn obstacle(pod: &Pod, node: &Node) -> Option<String> {
    if is_deleted(&node.metadata) {
        return Some("node(s) were being deleted".into());
    }
    let spec = pod.spec.as_ref()?;
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let all = taints(node);
    if let Some(taint) = untolerated(tolerations, &all, &["NoSchedule", "NoExecute"]) {
        if taint.key == UNSCHEDULABLE {
            return Some("node(s) were unschedulable".into());
        }
        let value = taint.value.as_deref().unwrap_or("");
        return Some(format!("node(s) had untolerated taint {{{}: {value}}}", taint.key));
    }
    (!accepts(spec, node)).then(|| "node(s) didn't match Pod's node affinity/selector".into())
}

fn explain(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".into();
    }
    let listed: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    format!("0/{nodes} nodes are available: {}.", listed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(name: &str, body: Value) -> Arc<Node> {
        let mut node: Node = serde_json::from_value(body).unwrap();
        node.metadata.name = Some(name.into());
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert("kubernetes.io/hostname".into(), name.into());
        if node.status.is_none() {
            node.status = serde_json::from_value(
                json!({"conditions": [{"type": "Ready", "status": "True"}]}),
            )
            .unwrap();
        }
        Arc::new(node)
    }

    fn pod(owner: &str, on: Option<&str>, spec: &Value) -> Arc<Pod> {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "name": owner, "uid": owner, "controller": true}]},
            "spec": spec,
        }))
        .unwrap();
        pod.spec.get_or_insert_default().node_name = on.map(Into::into);
        Arc::new(pod)
    }

    fn plain(owner: &str, on: Option<&str>) -> Arc<Pod> {
        pod(owner, on, &json!({"containers": []}))
    }

    #[test]
    fn pods_of_one_owner_spread_and_the_emptier_node_wins() {
        let nodes = ["a", "b", "c"].map(|n| node(n, json!({})));
        let mut pods = vec![plain("other", Some("a"))];
        let mut placed = Vec::new();
        for _ in 0..4 {
            let chosen = choose(&plain("web", None), &nodes, &pods).unwrap();
            pods.push(plain("web", Some(&chosen)));
            placed.push(chosen);
        }
        assert_eq!(placed, ["b", "c", "a", "b"]);
    }

    #[test]
    fn the_message_counts_each_obstacle() {
        let nodes = [
            node("a", json!({"spec": {"unschedulable": true}})),
            node(
                "b",
                json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}),
            ),
            node("c", json!({})),
            node("d", json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})),
        ];
        let picky = pod("web", None, &json!({"containers": [], "nodeSelector": {"disk": "ssd"}}));
        assert_eq!(
            choose(&picky, &nodes, &[]).unwrap_err(),
            "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
             1 node(s) had untolerated taint {k: v}, \
             1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, \
             1 node(s) were unschedulable."
        );
        assert_eq!(choose(&picky, &[], &[]).unwrap_err(), "no nodes available to schedule pods");
        assert_eq!(choose(&plain("web", None), &nodes, &[]).unwrap(), "c");
    }

    #[test]
    fn a_daemon_pod_goes_to_its_node_even_if_that_is_not_ready() {
        let nodes = [
            node("a", json!({})),
            node("b", json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})),
        ];
        let daemon = pod(
            "d",
            None,
            &json!({"containers": [],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}}}}),
        );
        assert_eq!(choose(&daemon, &nodes, &[]).unwrap(), "b");
    }
}
