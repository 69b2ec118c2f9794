//! What happens when podlet is killed, stopped, or run twice.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use ironsail_testkit::Podlet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(300), future).await.expect("within five minutes")
    })
}

/// Every process whose command line or folder names `dir`.
fn processes_of(dir: &Path) -> BTreeSet<u32> {
    let dir = dir.to_str().unwrap();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let maps = std::fs::read_to_string(entry.path().join("environ")).unwrap_or_default();
        if pid != std::process::id()
            && (String::from_utf8_lossy(&line).contains(dir) || maps.contains(dir))
        {
            found.insert(pid);
        }
    }
    found
}

/// Waits until there is none: the kernel ends a process a moment after its parent.
fn no_process_is_left(dir: &Path) {
    for _ in 0..1_200 {
        if processes_of(dir).is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("podlet leaves processes: {:?}", processes_of(dir));
}

/// A pod whose environment names the podlet's folder, so that its process can be found.
fn marked_pod(podlet: &Podlet, name: &str) -> Pod {
    serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 1,
        "containers": [{"name": "a", "image": "busybox", "command": ["sleep", "1000"],
            "env": [{"name": "MARK", "value": podlet.dir()}]}]}}),
    )
    .unwrap()
}

async fn running(pods: &Api<Pod>, name: &str) -> Pod {
    loop {
        let pod = pods.get(name).await.unwrap();
        let ready = pod
            .status
            .as_ref()
            .and_then(|s| s.conditions.as_ref())
            .is_some_and(|c| c.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
        if ready {
            return pod;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn default_account(client: &kube::Client) {
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::default_namespaced(client.clone());
    while accounts.get_opt("default").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn no_acknowledged_write_is_lost_to_a_kill() {
    let mut podlet = Podlet::start("kill", &[]);
    let acknowledged = block_on(async {
        let client = podlet.client().await;
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        let writer = tokio::spawn(async move {
            // Eight at a time, and the kill comes in the middle of them.
            let mut writes = futures::stream::iter(0..200)
                .map(|i| {
                    let maps = maps.clone();
                    async move {
                        let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": format!("m{i}")}, "data": {"i": i.to_string()}})).unwrap();
                        maps.create(&PostParams::default(), &object).await.ok().map(|_| i)
                    }
                })
                .buffer_unordered(8);
            while let Some(done) = writes.next().await {
                if let Some(i) = done {
                    let _ = send.send(i);
                }
            }
        });
        let mut acknowledged = BTreeSet::new();
        while acknowledged.len() < 90 {
            acknowledged.insert(receive.recv().await.unwrap());
        }
        podlet.kill();
        writer.await.unwrap();
        while let Ok(i) = receive.try_recv() {
            acknowledged.insert(i);
        }
        acknowledged
    });
    assert!(acknowledged.len() >= 90 && acknowledged.len() < 200, "{}", acknowledged.len());
    podlet.restart(&[]);
    block_on(async {
        let maps: Api<ConfigMap> = Api::default_namespaced(podlet.client().await);
        let list = maps.list(&ListParams::default()).await.unwrap();
        let there: BTreeSet<_> =
            list.items.into_iter().filter_map(|m| m.data?.get("i")?.parse::<i32>().ok()).collect();
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
    });
}

#[test]
fn a_kill_leaves_no_process_and_pods_come_back() {
    let mut podlet = Podlet::start("leak", &[]);
    let before = block_on(async {
        let client = podlet.client().await;
        default_account(&client).await;
        let pods: Api<Pod> = Api::default_namespaced(client);
        pods.create(&PostParams::default(), &marked_pod(&podlet, "p")).await.unwrap();
        running(&pods, "p").await
    });
    assert!(processes_of(podlet.dir()).len() >= 2);
    podlet.kill();
    no_process_is_left(podlet.dir());
    podlet.restart(&[]);
    block_on(async {
        let pods: Api<Pod> = Api::default_namespaced(podlet.client().await);
        loop {
            let pod = running(&pods, "p").await;
            assert_eq!(pod.metadata.uid, before.metadata.uid);
            let status = pod.status.unwrap().container_statuses.unwrap();
            if status[0].restart_count == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert!(podlet.stop(), "podlet stops well");
    no_process_is_left(podlet.dir());
}

/// Addresses and routes that a machine was given for a time tell how much of it is left.
fn without_times(listing: &str) -> String {
    let mut words = Vec::new();
    let mut skip = false;
    for word in listing.split(' ') {
        if !std::mem::take(&mut skip) {
            words.push(word);
        }
        skip = ["expires", "valid_lft", "preferred_lft"].contains(&word);
    }
    words.join(" ")
}

fn snapshot_of_host() -> Vec<String> {
    let run = |program: &str, args: &[&str]| {
        let output = ironsail_sys::exec::command(program).args(args).output().unwrap();
        without_times(&String::from_utf8_lossy(&output.stdout))
    };
    vec![
        run("ip", &["netns", "list"]),
        run("ip", &["-o", "link"]),
        run("ip", &["-o", "addr", "show", "scope", "global"]),
        run("ip", &["route", "show", "table", "all"]),
        run("nft", &["--stateless", "list", "ruleset"]),
        std::fs::read_to_string("/proc/self/mountinfo").unwrap(),
    ]
}

#[test]
fn the_hosts_network_is_never_touched() {
    let before = snapshot_of_host();
    let mut podlet = Podlet::start("host", &["--nodes", "2"]);
    block_on(async {
        let client = podlet.client().await;
        default_account(&client).await;
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        pods.create(&PostParams::default(), &marked_pod(&podlet, "p")).await.unwrap();
        running(&pods, "p").await;
        let services: Api<k8s_openapi::api::core::v1::Service> = Api::default_namespaced(client);
        let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "lb"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"a": "b"}}});
        services.patch("lb", &PatchParams::apply("t"), &Patch::Apply(&object)).await.unwrap();
    });
    assert_eq!(snapshot_of_host(), before);
    assert!(podlet.stop());
    assert_eq!(snapshot_of_host(), before);
}

#[test]
fn two_podlets_run_side_by_side() {
    let one = Podlet::start("side-one", &[]);
    let two = Podlet::start("side-two", &[]);
    block_on(async {
        for podlet in [&one, &two] {
            let client = podlet.client().await;
            default_account(&client).await;
            let pods: Api<Pod> = Api::default_namespaced(client);
            pods.create(&PostParams::default(), &marked_pod(podlet, "p")).await.unwrap();
        }
        for podlet in [&one, &two] {
            running(&Api::default_namespaced(podlet.client().await), "p").await;
        }
    });
}

#[test]
fn a_second_podlet_on_the_same_folder_is_refused() {
    let podlet = Podlet::start("twice", &[]);
    let output = ironsail_sys::exec::command(ironsail_testkit::binary("podlet"))
        .arg("run")
        .arg("--data")
        .arg(podlet.dir().join("data"))
        .arg("--kubeconfig")
        .arg(podlet.dir().join("other"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("in use by another podlet"), "{text}");
}
