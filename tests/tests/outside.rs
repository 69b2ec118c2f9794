//! The outside world: hosts beside the nodes, with names, and what may reach what.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use ironsail_sys::netns::Netns;
use ironsail_testkit::{Answer, Case, Shared, binary, case_on, eventually};
use serde_json::json;

/// Two hosts, each with a server that says who it is; one of them is on the pods' network.
static WORLD: Shared = Shared::new(|dir| {
    let mark = |name: &str| json!({"MARK": format!("{}/{name}", dir.display())});
    let server = |name: &str| json!({"image": "echo", "args": ["serve", "--http", "80", "--hostname", name], "env": mark(name)});
    let world = json!({"hosts": [
        {"name": "shop", "addresses": ["203.0.113.10"], "hostnames": ["shop.example.com", "www.example.com"], "servers": [server("shop")]},
        {"name": "vm", "addresses": ["203.0.113.20"], "hostnames": ["vm.example.com"], "routed": true, "servers": [server("vm")]},
    ]});
    let file = dir.join("outside.yaml");
    std::fs::write(&file, world.to_string()).unwrap();
    vec!["--nodes".to_owned(), "2".to_owned(), "--outside".to_owned(), file.display().to_string()]
});

fn case(name: &str, test: impl AsyncFnOnce(&Case)) {
    case_on(WORLD.podlet(), name, test);
}

/// An echo pod on the second node, and where it is.
async fn pod(case: &Case) -> (String, String) {
    case.apply("{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {app: p}}, spec: {nodeName: node-2, containers: [{name: e, image: echo, args: [serve, --http, '8080']}]}}").await;
    case.ready("pod/p").await;
    let pod = case.wait("pod/p", "addressed", |p| p["status"]["podIP"].is_string()).await;
    let text = |key: &str| pod["status"][key].as_str().unwrap().to_owned();
    (text("podIP"), text("hostIP"))
}

/// The network of the process whose environment has the mark of `host`.
fn netns_of(podlet: &Path, host: &str) -> Netns {
    let mark = format!("MARK={}/{host}", podlet.display());
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ.split(|b| *b == 0).any(|variable| variable == mark.as_bytes()) {
            let file = std::fs::File::open(entry.path().join("ns/net")).unwrap();
            return Netns::from_fd(file.into());
        }
    }
    panic!("no process has {mark}");
}

/// What the pod hears once there is an answer.
async fn call(case: &Case, url: &str) -> Answer {
    eventually(&format!("{url} answers"), async || {
        let seen = case.call("pod/p", url).await;
        if seen.error.is_none() { Ok(seen) } else { Err(format!("{seen:?}")) }
    })
    .await
}

/// A request that the outside host sends.
fn call_from(case: &Case, host: &str, url: &str) -> Answer {
    let netns = netns_of(case.podlet().dir(), host);
    let mut command = ironsail_sys::exec::command(binary("echo"));
    command.args(["call", url, "--timeout", "3000"]);
    let output = netns.output(&mut command, b"").unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn peer(seen: &Answer) -> &str {
    seen.body["peer"].as_str().unwrap().rsplit_once(':').unwrap().0
}

#[test]
fn pods_reach_the_outside_by_name_and_address_from_their_node() {
    case("reach", async |case| {
        let (_, host) = pod(case).await;
        for url in ["http://203.0.113.10/", "http://shop.example.com/", "http://www.example.com/"] {
            let seen = call(case, url).await;
            assert_eq!(seen.body["hostname"], "shop", "{url}: {seen:?}");
            assert_eq!(peer(&seen), host, "{url}");
        }
        let seen = case.call("pod/p", "http://nobody.example.com/").await;
        assert!(seen.error.is_some(), "{seen:?}");
    });
}

#[test]
fn the_outside_reaches_nodes_but_no_pods() {
    case("closed", async |case| {
        let (address, host) = pod(case).await;
        // The outside has started when it answers.
        call(case, "http://shop.example.com/").await;
        let seen = call_from(case, "shop", &format!("http://{address}:8080/"));
        assert!(seen.error.is_some(), "{seen:?}");
        case.apply("{apiVersion: v1, kind: Service, metadata: {name: np}, spec: {type: NodePort, selector: {app: p}, ports: [{port: 80, targetPort: 8080}]}}").await;
        let service = case
            .wait("service/np", "allocated", |s| s["spec"]["ports"][0]["nodePort"].is_u64())
            .await;
        let url = format!("http://{host}:{}/", service["spec"]["ports"][0]["nodePort"]);
        eventually("a node port answers the outside", async || {
            let seen = call_from(case, "shop", &url);
            if seen.body["hostname"] == "p" { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    });
}

#[test]
fn a_routed_host_and_pods_see_each_others_addresses() {
    case("routed", async |case| {
        let (address, _) = pod(case).await;
        let seen = call(case, "http://vm.example.com/").await;
        assert_eq!(seen.body["hostname"], "vm", "{seen:?}");
        assert_eq!(peer(&seen), address);
        let seen = eventually("the pod answers the routed host", async || {
            let seen = call_from(case, "vm", &format!("http://{address}:8080/"));
            if seen.error.is_none() { Ok(seen) } else { Err(format!("{seen:?}")) }
        })
        .await;
        assert_eq!(seen.body["hostname"], "p", "{seen:?}");
        assert_eq!(peer(&seen), "203.0.113.20");
    });
}

/// What podlet says of a file it cannot use.
fn refused(world: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("outside.yaml"), world).unwrap();
    let mut command = ironsail_sys::exec::command(binary("podlet"));
    command.arg("run").arg("--data").arg(path("data"));
    command.arg("--kubeconfig").arg(path("kubeconfig")).arg("--outside").arg(path("outside.yaml"));
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(!path("kubeconfig").exists());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_file_that_cannot_be_meant_is_refused() {
    let said =
        refused("hosts: [{name: shop, addresses: [203.0.113.10], hostname: shop.example.com}]");
    assert!(said.contains("outside.yaml") && said.contains("unknown field `hostname`"), "{said}");
    let said = refused("hosts: [{name: thief, addresses: [10.244.0.9]}]");
    assert!(said.contains("thief") && said.contains("10.244.0.0/16"), "{said}");
}
