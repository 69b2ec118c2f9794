//! Names of owners, as Istio derives them.

use ironsail_api::Object;

use super::owner;
use crate::testing::objects;

#[test]
fn the_owner_is_found_behind_generated_names() {
    for (labels, owners, name, kind) in [
        ("{}", "[]", "p", "Pod"),
        ("{}", "[{kind: ReplicaSet, name: w-abc}]", "p", "Pod"),
        (
            "{pod-template-hash: abc}",
            "[{kind: ReplicaSet, name: w-x-abc, controller: true}]",
            "w-x",
            "Deployment",
        ),
        (
            "{pod-template-hash: zzz}",
            "[{kind: ReplicaSet, name: w-abc, controller: true}]",
            "w-abc",
            "ReplicaSet",
        ),
        ("{}", "[{kind: ReplicaSet, name: w, controller: true}]", "w", "ReplicaSet"),
        (
            "{rollouts-pod-template-hash: abc}",
            "[{kind: ReplicaSet, name: w-abc, controller: true}]",
            "w",
            "Rollout",
        ),
        ("{}", "[{kind: StatefulSet, name: w, controller: true}]", "w", "StatefulSet"),
        ("{}", "[{kind: DaemonSet, name: w, controller: true}]", "w", "DaemonSet"),
        ("{}", "[{kind: Job, name: w-28123456, controller: true}]", "w", "CronJob"),
        ("{}", "[{kind: Job, name: w-123, controller: true}]", "w-123", "Job"),
        ("{}", "[{kind: Job, name: w-2812345x, controller: true}]", "w-2812345x", "Job"),
        (
            "{deploymentconfig: w}",
            "[{kind: ReplicationController, name: w-3, controller: true}]",
            "w",
            "DeploymentConfig",
        ),
        ("{}", "[{kind: Node, name: n1, controller: true}]", "p", "Pod"),
        ("{}", "[{kind: Other, name: o}, {kind: Own, name: w, controller: true}]", "w", "Own"),
    ] {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: a, labels: {labels}, ownerReferences: {owners}}}}}"
        );
        let Some(Object::Pod(pod)) = objects(&text).pop() else { panic!("a pod") };
        assert_eq!(owner(&pod), (name.to_owned(), kind), "{labels} {owners}");
    }
}
