//! What programs in pods see: names, environment, volumes, users, the network.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::bench::{Bench, shell};

pub(crate) async fn a_pod_sees_its_names_environment_and_volumes(bench: Arc<Bench>) {
    let space = bench.space("a-pod-sees").await;
    space
        .create::<ConfigMap>(
            json!({"metadata": {"name": "m"}, "data": {"k": "from-map", "l": "x"}}),
        )
        .await;
    space
        .create::<Secret>(json!({"metadata": {"name": "s"}, "stringData": {"p": "from-secret"}}))
        .await;
    let script = "hostname; grep sight /etc/hosts; grep ^search /etc/resolv.conf; \
        echo $A $B $KUBERNETES_SERVICE_HOST; cat /m/k /s/p /one /d/labels; echo; \
        stat -c %a /s/..data/p; cat /t/token | cut -d. -f1 | head -c 3; echo; \
        echo kept > /e/file; cat /e/file; stat -f -c %T /mem; touch /m/k 2>/dev/null || echo read-only";
    let mut container = shell("c", script);
    container["env"] = json!([
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "B", "value": "$(A)-$$(A)"}]);
    container["volumeMounts"] = json!([
        {"name": "m", "mountPath": "/m"}, {"name": "m", "mountPath": "/one", "subPath": "l"},
        {"name": "s", "mountPath": "/s"}, {"name": "d", "mountPath": "/d"}, {"name": "t", "mountPath": "/t"},
        {"name": "e", "mountPath": "/e"}, {"name": "mem", "mountPath": "/mem"}]);
    let volumes = json!([
        {"name": "m", "configMap": {"name": "m"}}, {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "d", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "istio-ca"}}]}},
        {"name": "e", "emptyDir": {}}, {"name": "mem", "emptyDir": {"medium": "Memory"}}]);
    space
        .pod(
            "sight",
            json!({"restartPolicy": "Never", "containers": [container], "volumes": volumes}),
        )
        .await;
    let output = space.output("sight").await;
    let lines: Vec<&str> = output.lines().collect();
    let ip = space.until("sight", |_| true).await["status"]["podIP"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(lines[0], "sight");
    assert_eq!(lines[1], format!("{ip}\tsight"));
    assert!(
        lines[2].starts_with("search a-pod-sees.svc.cluster.local svc.cluster.local cluster.local"),
        "{output}"
    );
    assert_eq!(lines[3], "sight sight-$(A) 10.96.0.1");
    assert_eq!(lines[4], "from-mapfrom-secretxapp=\"sight\"");
    assert_eq!(lines[5..], ["400", "eyJ", "kept", "tmpfs", "read-only"]);
}

pub(crate) async fn files_follow_their_config_map(bench: Arc<Bench>) {
    let space = bench.space("files-follow").await;
    let script = "while ! grep -q new /m/k; do sleep 0.05; done; echo seen";
    let mut container = shell("c", script);
    container["volumeMounts"] = json!([{"name": "m", "mountPath": "/m"}]);
    let volumes = json!([{"name": "m", "configMap": {"name": "m"}}]);
    // The pod waits for a map that comes later, then sees it change.
    space
        .pod("p", json!({"restartPolicy": "Never", "containers": [container], "volumes": volumes}))
        .await;
    let reason = |p: &serde_json::Value| {
        p["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone()
    };
    space.until("p", |p| reason(p) == "ContainerCreating").await;
    space.create::<ConfigMap>(json!({"metadata": {"name": "m"}, "data": {"k": "old"}})).await;
    space.until("p", |p| p["status"]["phase"] == "Running").await;
    let patch = Patch::Merge(json!({"data": {"k": "new"}}));
    space.api::<ConfigMap>().patch("m", &PatchParams::default(), &patch).await.expect("patch");
    assert_eq!(space.output("p").await, "seen\n");
}

pub(crate) async fn users_groups_and_capabilities_are_as_asked(bench: Arc<Bench>) {
    let space = bench.space("users-groups").await;
    let mut container = shell(
        "c",
        "id -u; id -g; id -G; stat -c %g /e; touch /e/f && stat -c %g /e/f; touch /x 2>/dev/null || echo no",
    );
    container["volumeMounts"] = json!([{"name": "e", "mountPath": "/e"}]);
    container["securityContext"] = json!({"runAsUser": 1234, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false});
    space
        .pod("p", json!({"restartPolicy": "Never", "containers": [container], "volumes": [{"name": "e", "emptyDir": {}}],
            "securityContext": {"runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4000]}}))
        .await;
    assert_eq!(space.output("p").await, "1234\n3000\n3000 2000 4000\n2000\n2000\nno\n");
    let mut refused = shell("c", "true");
    refused["securityContext"] = json!({"runAsNonRoot": true});
    space.pod("root", json!({"containers": [refused]})).await;
    let waiting =
        |p: &serde_json::Value| p["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    let pod = space.until("root", |p| waiting(p)["reason"] == "CreateContainerConfigError").await;
    assert!(
        waiting(&pod)["message"]
            .as_str()
            .unwrap_or_default()
            .starts_with("container has runAsNonRoot")
    );
    space.delete("root").await;
}

pub(crate) async fn a_pod_on_the_host_network_is_on_the_node(bench: Arc<Bench>) {
    let space = bench.space("a-pod-on-the-host").await;
    let container = shell("c", "cat /proc/net/fib_trie | grep -c 10.243.0.10");
    space
        .pod("p", json!({"restartPolicy": "Never", "hostNetwork": true, "containers": [container]}))
        .await;
    assert_ne!(space.output("p").await.trim(), "0");
    let pod = space.until("p", |_| true).await;
    assert_eq!(pod["status"]["podIP"], pod["status"]["hostIP"]);
}
