//! The life of pods with real processes.

use std::sync::Arc;

use ironsail_kubestream::pod::LogOptions;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bench::{Bench, SERVER, is_ready, shell};

fn first(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

pub(crate) async fn probes_go_over_the_pod_network(bench: Arc<Bench>) {
    let space = bench.space("probes-go").await;
    let server = json!({"name": "c", "image": "app", "command": ["perl", "-e", SERVER, "80"],
        "ports": [{"name": "web", "containerPort": 80}],
        "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
        "startupProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 1},
        "readinessProbe": {"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 1},
        "livenessProbe": {"exec": {"command": ["test", "!", "-e", "/tmp/sick"]}, "periodSeconds": 1, "failureThreshold": 1}});
    space.pod("p", json!({"containers": [server], "terminationGracePeriodSeconds": 5})).await;
    let pod = space.ready("p").await;
    let address = format!("{}:80", pod["status"]["podIP"].as_str().unwrap_or_default());
    let mut stream =
        bench.node.dialer().tcp(address.parse().expect("address")).await.expect("dial");
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.expect("request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answer");
    assert!(answer.contains("hello from"), "{answer}");
    crate::stream::run(&space, "p", &["touch", "/tmp/sick"]).await;
    let pod = space.until("p", |p| first(p)["restartCount"] == 1 && is_ready(p)).await;
    assert_eq!(first(&pod)["lastState"]["terminated"]["exitCode"], 143);
    space.delete("p").await;
}

pub(crate) async fn ends_are_told_with_code_reason_and_last_words(bench: Arc<Bench>) {
    let space = bench.space("ends-are-told").await;
    let mut loud = shell("loud", "echo boom; exit 4");
    loud["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    // Where cgroups cannot be made there is no limit to hit.
    let limits = bench.limits_hold();
    let mut hungry = shell("oom", "perl -e '$x = \"y\" x (300*1024*1024); sleep 60'");
    hungry["resources"] = json!({"limits": {"memory": "40Mi"}});
    let missing = json!({"name": "missing", "image": "app", "command": ["no-such-program"]});
    let words = shell("words", "echo -n goodbye > /dev/termination-log; exit 3");
    let mut all = vec![loud, missing, words];
    all.extend(limits.then_some(hungry));
    space.pod("p", json!({"restartPolicy": "Never", "containers": all})).await;
    let pod = space.until("p", |p| p["status"]["phase"] == "Failed").await;
    let list = pod["status"]["containerStatuses"].as_array().expect("statuses").clone();
    let end = |name: &str| {
        list.iter().find(|c| c["name"] == name).expect("status")["state"]["terminated"].clone()
    };
    let told = |name: &str| {
        (end(name)["exitCode"].clone(), end(name)["reason"].clone(), end(name)["message"].clone())
    };
    assert_eq!(told("loud"), (json!(4), json!("Error"), json!("boom\n")));
    let message =
        "failed to start container: exec: \"no-such-program\": executable file not found in $PATH";
    assert_eq!(told("missing"), (json!(128), json!("StartError"), json!(message)));
    assert_eq!(told("words"), (json!(3), json!("Error"), json!("goodbye")));
    if limits {
        assert_eq!(told("oom"), (json!(137), json!("OOMKilled"), Value::Null));
    }
    space.delete("p").await;
}

pub(crate) async fn a_sidecar_outlives_the_main_container_and_is_stopped(bench: Arc<Bench>) {
    let space = bench.space("a-sidecar").await;
    let mut sidecar = shell(
        "side",
        "trap 'echo stopped; exit 0' TERM; touch /e/up; while :; do sleep 0.05; done",
    );
    sidecar["restartPolicy"] = json!("Always");
    sidecar["startupProbe"] =
        json!({"exec": {"command": ["test", "-e", "/e/up"]}, "periodSeconds": 1});
    sidecar["volumeMounts"] = json!([{"name": "e", "mountPath": "/e"}]);
    let mut main = shell("c", "ls /e");
    main["volumeMounts"] = sidecar["volumeMounts"].clone();
    space
        .pod(
            "p",
            json!({"restartPolicy": "Never", "initContainers": [sidecar], "containers": [main],
            "volumes": [{"name": "e", "emptyDir": {}}]}),
        )
        .await;
    assert_eq!(space.output("p").await, "up\n");
    let log = space
        .log("p", LogOptions { container: Some("side".into()), ..LogOptions::default() })
        .await;
    assert_eq!(log, "stopped\n");
}

pub(crate) async fn a_deleted_pod_leaves_nothing(bench: Arc<Bench>) {
    let space = bench.space("a-deleted-pod").await;
    let mut container = shell("c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done");
    container["volumeMounts"] = json!([{"name": "mem", "mountPath": "/mem"}]);
    container["lifecycle"] =
        json!({"preStop": {"exec": {"command": ["sh", "-c", "echo bye > /proc/1/fd/1"]}}});
    space.pod("p", json!({"containers": [container], "volumes": [{"name": "mem", "emptyDir": {"medium": "Memory"}}]})).await;
    let pod = space.ready("p").await;
    let uid = pod["metadata"]["uid"].as_str().expect("uid").to_owned();
    assert!(bench.dir.join("node/pods").join(&uid).exists());
    space.delete("p").await;
    assert!(!bench.dir.join("node/pods").join(&uid).exists());
    let logs = bench.dir.join(format!("node/logs/a-deleted-pod_p_{uid}"));
    while logs.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    assert!(!mounts.contains(&uid), "{mounts}");
}

pub(crate) async fn fifty_pods_are_ready_soon(bench: Arc<Bench>) {
    let space = bench.space("fifty-pods").await;
    let spec = json!({"containers": [{"name": "c", "image": "app", "command": ["sleep", "1000"]}], "terminationGracePeriodSeconds": 1});
    let names: Vec<String> = (0..50).map(|i| format!("p{i}")).collect();
    futures::future::join_all(names.iter().map(|name| space.pod(name, spec.clone()))).await;
    futures::future::join_all(names.iter().map(|name| space.ready(name))).await;
    let pods = space.api::<Pod>().list(&ListParams::default()).await.expect("list");
    let ips: std::collections::BTreeSet<_> =
        pods.iter().filter_map(|p| p.status.as_ref()?.pod_ip.clone()).collect();
    assert_eq!(ips.len(), 50);
    futures::future::join_all(names.iter().map(|name| space.delete(name))).await;
}

pub(crate) async fn a_node_that_comes_back_runs_its_pods_anew(bench: Arc<Bench>) {
    let space = bench.space("a-node").await;
    let spec = |policy: &str| {
        json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 1,
        "containers": [shell("c", "echo run; exec sleep 1000")]})
    };
    space.pod("always", spec("Always")).await;
    space.pod("never", spec("Never")).await;
    space.ready("always").await;
    let before = space.ready("never").await;
    bench.stop_node().await;
    let stopped = space.until("never", |_| true).await;
    assert_eq!(stopped["status"], before["status"]);
    bench.start_node().await;
    let pod = space.until("always", |p| first(p)["restartCount"] == 1 && is_ready(p)).await;
    assert_eq!(first(&pod)["lastState"]["terminated"]["reason"], "ContainerStatusUnknown");
    let options = LogOptions { previous: true, ..LogOptions::default() };
    assert_eq!(space.log("always", options).await, "run\n");
    let pod = space.until("never", |p| p["status"]["phase"] == "Failed").await;
    assert_eq!(first(&pod)["state"]["terminated"]["exitCode"], 137);
    space.delete("always").await;
    space.delete("never").await;
}
