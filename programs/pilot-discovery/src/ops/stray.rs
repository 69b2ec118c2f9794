//! Pods outside of the mesh that belong into it: their labels, or those of their namespace, ask for a
//! proxy, and they run without one. They were made while the webhook did not answer, or before the label,
//! or by somebody who can get around it.

use std::collections::BTreeMap;

use ironsail_api::Kind;
use ironsail_inject::Injector;
use ironsail_model::Snapshot;

/// Names of such pods by namespace.
pub(super) fn strays<'a>(
    snapshot: &'a Snapshot,
    injector: &Injector,
) -> BTreeMap<&'a str, Vec<&'a str>> {
    let none = BTreeMap::new();
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (_, workload) in snapshot.workloads.iter() {
        if !workload.bare || workload.source.kind != Kind::Pod {
            continue;
        }
        let namespace = snapshot.namespace(&workload.cluster, &workload.namespace);
        let labels = namespace.map_or(&none, |namespace| &namespace.meta.labels);
        let name = workload.namespace.as_str();
        if injector.wants((name, labels), &workload.labels) {
            found.entry(name).or_default().push(&workload.source.name);
        }
    }
    for pods in found.values_mut() {
        pods.sort_unstable();
    }
    found
}
