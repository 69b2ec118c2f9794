//! `--cni-conf-dir`: pods are wired by the plugins of the configured chain, as on a real node.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ironsail_testkit::{Answer, Case, Podlet, Shared, case_on, eventually};
use serde_json::{Value, json};

/// Wires a pod to its node with a cable of its own; refuses pods called `refused`. It leaves a line
/// for each call and, for each pod, a file with its number.
const WIRE: &str = r#"#!/bin/sh
set -e
here=$(dirname "$0")/..
pod=$(echo "$CNI_ARGS" | sed 's/.*K8S_POD_NAME=\([^;]*\).*/\1/')
in=$(cat)
echo "wire $CNI_COMMAND $pod $CNI_IFNAME" >> "$here/trace"
case $CNI_COMMAND in
ADD)
    if [ "$pod" = refused ]; then
        echo '{"cniVersion": "1.0.0", "code": 11, "msg": "no room for it", "details": "the test says so"}'
        exit 1
    fi
    number=2
    while ! mkdir "$here/taken/$number" 2>/dev/null; do number=$((number + 1)); done
    echo "$number" > "$here/pods/$CNI_CONTAINERID"
    ip link add "wire$number" type veth peer name "$CNI_IFNAME" netns "$CNI_NETNS"
    ip address add 10.244.0.1/32 dev "wire$number"
    ip link set "wire$number" up
    ip route add "10.244.0.$number/32" dev "wire$number"
    nsenter --net="$CNI_NETNS" sh -ec "
        ip address add 10.244.0.$number/32 dev $CNI_IFNAME
        ip link set $CNI_IFNAME up
        ip route add 10.244.0.1 dev $CNI_IFNAME
        ip route add default via 10.244.0.1"
    echo "{\"cniVersion\": \"1.0.0\", \"interfaces\": [{\"name\": \"$CNI_IFNAME\", \"sandbox\": \"$CNI_NETNS\"}], \"ips\": [{\"address\": \"10.244.0.$number/32\", \"interface\": 0}]}"
    ;;
CHECK)
    nsenter --net="$CNI_NETNS" ip address show dev "$CNI_IFNAME" | grep -q "10.244.0.$(cat "$here/pods/$CNI_CONTAINERID")/32"
    ;;
DEL)
    [ -e "$here/pods/$CNI_CONTAINERID" ] || exit 0
    number=$(cat "$here/pods/$CNI_CONTAINERID")
    ip link delete "wire$number" 2>/dev/null || true
    rm -f "$here/pods/$CNI_CONTAINERID"
    rmdir "$here/taken/$number"
    ;;
esac
"#;

/// Keeps what it reads, and hands the result of the plugin before it on. Refuses pods called `late`.
const NOTE: &str = r#"#!/bin/sh
set -e
here=$(dirname "$0")/..
pod=$(echo "$CNI_ARGS" | sed 's/.*K8S_POD_NAME=\([^;]*\).*/\1/')
cat > "$here/note.$CNI_COMMAND.$pod"
echo "note $CNI_COMMAND $pod $CNI_IFNAME" >> "$here/trace"
[ "$CNI_COMMAND" = ADD ] || exit 0
[ "$pod" != late ] || { echo "the second plugin gives up" >&2; exit 1; }
address=$(sed 's/.*"prevResult":.*"address": *"\([^"]*\)".*/\1/' "$here/note.$CNI_COMMAND.$pod")
echo "{\"cniVersion\": \"1.0.0\", \"ips\": [{\"address\": \"$address\"}]}"
"#;

fn prepare(dir: &Path) -> Vec<String> {
    let cni = dir.join("cni");
    for folder in ["bin", "conf", "taken", "pods"] {
        std::fs::create_dir_all(cni.join(folder)).unwrap();
    }
    for (name, text) in [("wire", WIRE), ("note", NOTE)] {
        let file = cni.join("bin").join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let list = json!({"name": "test", "cniVersion": "1.0.0", "plugins": [{"type": "wire"}, {"type": "note", "colour": "blue"}]});
    std::fs::write(cni.join("conf/10-test.conflist"), list.to_string()).unwrap();
    flags(&cni.join("conf"), &cni.join("bin"))
}

fn flags(conf: &Path, bin: &Path) -> Vec<String> {
    let text = |path: &Path| path.display().to_string();
    vec!["--cni-conf-dir".to_owned(), text(conf), "--cni-bin-dir".to_owned(), text(bin)]
}

static CNI: Shared = Shared::new(prepare);

fn echo_pod(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": {
        "terminationGracePeriodSeconds": 1, "containers": [{"name": "e", "image": "echo", "args": ["serve", "--http", "8080"]}]}})
    .to_string()
}

/// The calls that plugins noted for a pod.
fn trace(case: &Case, pod: &str) -> Vec<String> {
    let text = std::fs::read_to_string(case.podlet().dir().join("cni/trace")).unwrap_or_default();
    let ours = text.lines().filter(|l| l.split(' ').nth(2) == Some(pod));
    ours.map(str::to_owned).collect()
}

/// What the second plugin read for a pod.
fn read_by_note(case: &Case, command: &str, pod: &str) -> Value {
    let file = case.podlet().dir().join(format!("cni/note.{command}.{pod}"));
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

async fn address(case: &Case, pod: &str) -> String {
    case.ready(&format!("pod/{pod}")).await;
    let pod =
        case.wait(&format!("pod/{pod}"), "addressed", |p| p["status"]["podIP"].is_string()).await;
    pod["status"]["podIP"].as_str().unwrap().to_owned()
}

/// What the pod `one` hears.
async fn answer(case: &Case, url: &str) -> Answer {
    eventually(&format!("{url} answers"), async || {
        let seen = case.call_with("pod/one", url, &["--timeout", "2000"]).await.pop().unwrap();
        if seen.status == Some(200) { Ok(seen) } else { Err(format!("{seen:?}")) }
    })
    .await
}

#[test]
fn the_chain_wires_checks_and_unwires_a_pod() {
    case_on(CNI.podlet(), "chain", async |case| {
        case.apply(&echo_pod("wired")).await;
        let ip = address(case, "wired").await;
        let shown = case.exec("pod/wired", &["ip", "-4", "-o", "address", "show", "eth0"]).await;
        assert!(shown.stdout.contains(&format!("{ip}/32")), "{ip}: {}", shown.stdout);
        let added = read_by_note(case, "ADD", "wired");
        assert_eq!(added["prevResult"]["ips"][0]["address"], format!("{ip}/32"));
        assert_eq!((&added["name"], &added["colour"]), (&json!("test"), &json!("blue")));
        case.kubectl_says(&["delete", "pod", "wired"]);
        let wanted = ["wire ADD", "note ADD", "wire CHECK", "note CHECK", "note DEL", "wire DEL"]
            .map(|call| format!("{call} wired eth0"));
        eventually("every plugin was called", async || {
            let calls = trace(case, "wired");
            if calls == wanted { Ok(()) } else { Err(calls.join("\n")) }
        })
        .await;
        let deleted = read_by_note(case, "DEL", "wired");
        assert_eq!(deleted["prevResult"]["ips"], json!([{"address": format!("{ip}/32")}]));
    });
}

#[test]
fn pods_of_plugins_have_services_names_and_the_api() {
    case_on(CNI.podlet(), "traffic", async |case| {
        case.apply(&echo_pod("one")).await;
        case.apply(&echo_pod("two")).await;
        case.apply("{apiVersion: v1, kind: Service, metadata: {name: two}, spec: {selector: {app: two}, ports: [{port: 80, targetPort: 8080}]}}").await;
        let (one, two) = (address(case, "one").await, address(case, "two").await);
        assert_ne!(one, two);
        for url in [format!("http://{two}:8080/"), "http://two/".to_owned()] {
            let seen = answer(case, &url).await;
            assert_eq!(seen.body["hostname"], "two");
            assert!(
                seen.body["peer"].as_str().unwrap().starts_with(&format!("{one}:")),
                "{seen:?}"
            );
        }
        answer(case, "https://kubernetes.default.svc/version").await;
    });
}

#[test]
fn a_plugin_that_fails_is_told_and_undone() {
    case_on(CNI.podlet(), "fails", async |case| {
        case.apply(&echo_pod("refused")).await;
        case.apply(&echo_pod("late")).await;
        for (pod, words) in [
            ("refused", "no room for it; the test says so"),
            ("late", "the second plugin gives up"),
        ] {
            eventually(&format!("an event for {pod}"), async || {
                let events = case.kubectl_says(&[
                    "events",
                    "--for",
                    &format!("pod/{pod}"),
                    "--types=Warning",
                ]);
                let told = events
                    .lines()
                    .any(|l| l.contains("FailedCreatePodSandBox") && l.contains(words));
                if told { Ok(()) } else { Err(events) }
            })
            .await;
        }
        // What the first plugin had made for the second one is taken back.
        eventually("the first plugin is asked to undo", async || {
            let calls = trace(case, "late");
            if calls.contains(&"wire DEL late eth0".to_owned()) {
                Ok(())
            } else {
                Err(calls.join("\n"))
            }
        })
        .await;
        case.wait("pod/late", "waiting for its network", |p| {
            let state = &p["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
            p["status"]["phase"] == "Pending" && state == "ContainerCreating"
        })
        .await;
    });
}

#[track_caller]
fn kubectl(podlet: &Podlet, args: &[&str]) {
    let output = podlet.kubectl().args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_killed_podlet_leaves_no_address_taken() {
    let dir = tempfile::tempdir().unwrap();
    let args = prepare(dir.path());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut podlet = Podlet::start("cni-kill", &args);
    let taken = || std::fs::read_dir(dir.path().join("cni/taken")).unwrap().count();
    let becomes = |wanted: usize, what: &str| {
        for _ in 0..600 {
            if taken() == wanted {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{what}: {} addresses are taken, not {wanted}", taken());
    };
    let file = dir.path().join("pod.json");
    std::fs::write(&file, echo_pod("p")).unwrap();
    kubectl(&podlet, &["wait", "--for=create", "serviceaccount/default", "--timeout=170s"]);
    kubectl(&podlet, &["apply", "-f", file.to_str().unwrap()]);
    kubectl(&podlet, &["wait", "--for=condition=Ready", "pod/p", "--timeout=170s"]);
    becomes(1, "a pod has one");
    podlet.kill();
    podlet.restart(&args);
    let restarted = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1";
    kubectl(&podlet, &["wait", restarted, "pod/p", "--timeout=170s"]);
    kubectl(&podlet, &["wait", "--for=condition=Ready", "pod/p", "--timeout=170s"]);
    becomes(1, "the address of before the kill was given back");
    kubectl(&podlet, &["delete", "pod", "p"]);
    becomes(0, "no pod is left");
}

/// Debian's plugins, as scripts/setup installs them.
fn debian(dir: &Path) -> Vec<String> {
    let conf = dir.join("conf");
    std::fs::create_dir_all(&conf).unwrap();
    let ipam = json!({"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}], "dataDir": dir.join("addresses")});
    let list = json!({"name": "debian", "cniVersion": "1.0.0", "plugins": [
        {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "capabilities": {"ipRanges": true}, "ipam": ipam},
        {"type": "portmap", "capabilities": {"portMappings": true}},
    ]});
    std::fs::write(conf.join("10-debian.conflist"), list.to_string()).unwrap();
    let nodes = ["--nodes", "2"].map(str::to_owned);
    flags(&conf, Path::new("/usr/lib/cni")).into_iter().chain(nodes).collect()
}

static DEBIAN: Shared = Shared::new(debian);

#[test]
fn the_usual_plugins_work_on_several_nodes() {
    case_on(DEBIAN.podlet(), "debian", async |case| {
        let mut addresses = Vec::new();
        for (name, node) in [("one", "node-1"), ("two", "node-1"), ("far", "node-2")] {
            let mut pod: Value = serde_json::from_str(&echo_pod(name)).unwrap();
            pod["spec"]["nodeName"] = json!(node);
            if name == "far" {
                pod["spec"]["containers"][0]["ports"] =
                    json!([{"containerPort": 8080, "hostPort": 18088}]);
            }
            case.apply(&pod.to_string()).await;
            case.apply(
                &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}})
                .to_string(),
            )
            .await;
            addresses.push(address(case, name).await);
        }
        let ranges: Vec<_> = addresses.iter().map(|a| a.rsplit_once('.').unwrap().0).collect();
        assert_eq!(ranges, ["10.244.0", "10.244.0", "10.244.1"]);
        for (name, address) in ["one", "two", "far"].iter().zip(&addresses) {
            // With its namespace, because a pod's own short name is in its hosts file.
            let service = format!("http://{name}.{}/", case.namespace);
            for url in [format!("http://{address}:8080/"), service] {
                let seen = answer(case, &url).await;
                assert_eq!(seen.body["hostname"], *name);
                // Who calls itself through its Service is seen as the node.
                let own = format!("{}:", addresses[0]);
                let peer = seen.body["peer"].as_str().unwrap();
                assert!(*name == "one" || peer.starts_with(&own), "{url}: {seen:?}");
            }
        }
        // portmap, told of the port by its capability.
        assert_eq!(answer(case, "http://10.243.0.11:18088/").await.body["hostname"], "far");
        case.kubectl_says(&["delete", "pod", "one", "two", "far"]);
        for address in addresses {
            let kept = case.podlet().dir().join("addresses/debian").join(&address);
            eventually("addresses are given back", async || {
                if kept.exists() { Err(format!("{address} is still taken")) } else { Ok(()) }
            })
            .await;
        }
    });
}
