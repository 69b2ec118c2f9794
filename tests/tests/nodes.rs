//! Several nodes: labels, placement, cutting off and healing, the host network, draining.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use ironsail_testkit::{Case, Podlet, Shared, case_on, eventually};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

const FLAGS: [&str; 4] = ["--nodes", "3", "--zones", "a-1,a-2"];

/// For tests that leave the nodes alone.
static NODES: Shared = Shared::new(|_| FLAGS.map(str::to_owned).to_vec());

fn case(name: &str, test: impl AsyncFnOnce(&Case)) {
    case_on(NODES.podlet(), name, test);
}

fn echo_pod(name: &str, port: u16, spec: &Value) -> String {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "e", "image": "echo", "args": ["serve", "--http", port.to_string()]}]}});
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod.to_string()
}

fn deployment(name: &str, replicas: u32, spec: &Value) -> String {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "e", "image": "echo"}]}}}});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"]["template"]["spec"][key] = value.clone();
    }
    object.to_string()
}

/// How many pods with the label `app` each node has, without those that are going.
async fn placement(case: &Case, app: &str) -> BTreeMap<String, usize> {
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
    let list = pods.list(&ListParams::default().labels(&format!("app={app}"))).await.unwrap();
    let mut nodes = BTreeMap::new();
    for pod in list.items.into_iter().filter(|p| p.metadata.deletion_timestamp.is_none()) {
        *nodes.entry(pod.spec.unwrap().node_name.unwrap_or_default()).or_default() += 1;
    }
    nodes
}

/// Waits until the pods are where they should be.
async fn placed<const N: usize>(case: &Case, app: &str, expected: [(&str, usize); N]) {
    let wanted = counts(expected);
    eventually(&format!("pods of {app} are on {wanted:?}"), async || {
        let seen = placement(case, app).await;
        if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

fn counts<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expected.into_iter().map(|(node, count)| (node.to_owned(), count)).collect()
}

/// The message of the condition that says why a pod has no node.
fn unscheduled(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|c| c["type"] == "PodScheduled")?;
    (condition["status"] == "False").then(|| condition["message"].as_str()).flatten()
}

#[test]
fn nodes_tell_their_zone_addresses_and_ranges() {
    case("labels", async |case| {
        let nodes: Api<Node> = Api::all(case.client.clone());
        let list = nodes.list(&ListParams::default()).await.unwrap().items;
        let seen: Vec<_> = list
            .iter()
            .map(|node| {
                let labels = node.metadata.labels.clone().unwrap();
                let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
                let name = node.metadata.name.clone().unwrap();
                assert_eq!(label("kubernetes.io/hostname"), name);
                assert_eq!(label("topology.kubernetes.io/region"), "a");
                let spec = node.spec.clone().unwrap();
                (name, label("topology.kubernetes.io/zone"), spec.pod_cidr.unwrap())
            })
            .collect();
        let expected = [("node-1", "a-1", 0), ("node-2", "a-2", 1), ("node-3", "a-1", 2)];
        let expected: Vec<_> = expected
            .iter()
            .map(|(n, z, i)| ((*n).to_owned(), (*z).to_owned(), format!("10.244.{i}.0/24")))
            .collect();
        assert_eq!(seen, expected);
        let wide = eventually("all nodes are ready", async || {
            let wide = case.kubectl_says(&["get", "nodes", "-o", "wide"]);
            if wide.matches(" Ready ").count() == 3 { Ok(wide) } else { Err(wide) }
        })
        .await;
        for address in ["10.243.0.10", "10.243.0.11", "10.243.0.12"] {
            assert!(wide.contains(address), "{wide}");
        }
    });
}

#[test]
fn pods_of_one_deployment_spread_over_all_nodes_and_zones() {
    case("spread", async |case| {
        case.apply(&deployment("web", 6, &json!({}))).await;
        case.ready("deployment/web").await;
        let wanted = counts([("node-1", 2), ("node-2", 2), ("node-3", 2)]);
        assert_eq!(placement(case, "web").await, wanted);
    });
}

#[test]
fn selectors_and_affinity_choose_nodes() {
    case("choose", async |case| {
        let zone = json!({"nodeSelector": {"topology.kubernetes.io/zone": "a-2"}});
        case.apply(&deployment("zone", 2, &zone)).await;
        let terms = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-1", "node-2"]}]}]);
        let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        case.apply(&deployment("far", 2, &affinity)).await;
        case.ready("deployment/zone").await;
        case.ready("deployment/far").await;
        assert_eq!(placement(case, "zone").await, counts([("node-2", 2)]));
        assert_eq!(placement(case, "far").await, counts([("node-3", 2)]));
    });
}

#[test]
fn a_pod_waits_for_a_node_that_fits() {
    case("waits", async |case| {
        let label = format!("disk-{}", case.namespace);
        case.apply(&echo_pod("p", 8080, &json!({"nodeSelector": {&label: "fast"}}))).await;
        let pod = case.wait("pod/p", "unschedulable", |p| unscheduled(p).is_some()).await;
        assert_eq!(
            unscheduled(&pod).unwrap(),
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
        );
        case.kubectl_says(&["label", "node", "node-2", &format!("{label}=fast")]);
        case.ready("pod/p").await;
        let pod = case.wait("pod/p", "bound", |p| p["spec"]["nodeName"].is_string()).await;
        assert_eq!(pod["spec"]["nodeName"], "node-2");
        case.kubectl_says(&["label", "node", "node-2", &format!("{label}-")]);
    });
}

#[test]
fn a_daemon_set_follows_labels() {
    case("daemons", async |case| {
        let label = format!("role-{}", case.namespace);
        case.kubectl_says(&["label", "node", "node-1", "node-3", &format!("{label}=edge")]);
        let mut set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "e", "image": "echo"}]}}}});
        case.apply(&set.to_string()).await;
        let ready = |wanted: u64| {
            move |s: &Value| {
                s["status"]["observedGeneration"] == s["metadata"]["generation"]
                    && s["status"]["numberReady"] == wanted
                    && s["status"]["updatedNumberScheduled"] == wanted
                    && s["status"]["currentNumberScheduled"] == wanted
            }
        };
        case.wait("daemonset/d", "on three nodes", ready(3)).await;
        placed(case, "d", [("node-1", 1), ("node-2", 1), ("node-3", 1)]).await;
        set["spec"]["template"]["spec"]["nodeSelector"] = json!({&label: "edge"});
        case.apply(&set.to_string()).await;
        case.wait("daemonset/d", "on two nodes", ready(2)).await;
        placed(case, "d", [("node-1", 1), ("node-3", 1)]).await;
        case.kubectl_says(&["label", "node", "node-3", &format!("{label}-")]);
        case.wait("daemonset/d", "on one node", ready(1)).await;
        placed(case, "d", [("node-1", 1)]).await;
        case.kubectl_says(&["label", "node", "node-1", &format!("{label}-")]);
    });
}

#[test]
fn host_network_pods_are_their_node() {
    case("host", async |case| {
        let host = json!({"hostNetwork": true, "nodeName": "node-2", "dnsPolicy": "ClusterFirstWithHostNet"});
        case.apply(&echo_pod("host", 18080, &host)).await;
        case.apply(&echo_pod("pod", 18080, &json!({"nodeName": "node-1"}))).await;
        case.apply("{apiVersion: v1, kind: Service, metadata: {name: host}, spec: {selector: {app: host}, ports: [{port: 80, targetPort: 18080}]}}").await;
        case.ready("pod/host").await;
        case.ready("pod/pod").await;
        let of = async |name: &str| {
            case.wait(name, "addressed", |p| p["status"]["podIP"].is_string()).await
        };
        let (host, pod) = (of("pod/host").await, of("pod/pod").await);
        assert_eq!(host["status"]["podIP"], "10.243.0.11");
        assert_eq!(host["status"]["hostIP"], "10.243.0.11");
        assert_eq!(host["status"]["podIPs"], json!([{"ip": "10.243.0.11"}]));
        let answer = async |from: &str, url: &str| {
            eventually(&format!("{url} answers {from}"), async || {
                let seen = case.call(from, url).await;
                if seen.status == Some(200) { Ok(seen) } else { Err(format!("{seen:?}")) }
            })
            .await
        };
        // As a server, by its node's address and by a Service.
        for url in ["http://10.243.0.11:18080/", "http://host/"] {
            let seen = answer("pod/pod", url).await;
            assert_eq!(seen.body["hostname"], "node-2", "{seen:?}");
        }
        // As a client, from its node's address, with cluster names.
        let address = pod["status"]["podIP"].as_str().unwrap();
        let seen = answer("pod/host", &format!("http://{address}:18080/")).await;
        assert!(seen.body["peer"].as_str().unwrap().starts_with("10.243.0.11:"), "{seen:?}");
        answer("pod/host", "http://host/").await;
    });
}

#[test]
fn a_node_is_cut_off_and_heals() {
    let podlet = Podlet::start("cut", &["--nodes", "2"]);
    case_on(&podlet, "cut", async |case| {
        case.apply(&echo_pod("near", 8080, &json!({"nodeName": "node-1"}))).await;
        case.apply(&echo_pod("far", 8080, &json!({"nodeName": "node-2"}))).await;
        case.apply(&echo_pod("beside", 8080, &json!({"nodeName": "node-2"}))).await;
        let mut addresses = Vec::new();
        for pod in ["pod/near", "pod/far", "pod/beside"] {
            case.ready(pod).await;
            let pod = case.wait(pod, "addressed", |p| p["status"]["podIP"].is_string()).await;
            addresses.push(format!("http://{}:8080/", pod["status"]["podIP"].as_str().unwrap()));
        }
        let reach = async |from: &str, to: &str| {
            let seen = case.call_with(from, to, &["--timeout", "1000"]).await.pop().unwrap();
            seen.status == Some(200)
        };
        let becomes = async |from: &str, to: &str, wanted: bool| {
            eventually(&format!("{from} reaches {to}: {wanted}"), async || {
                if reach(from, to).await == wanted { Ok(()) } else { Err(String::new()) }
            })
            .await;
        };
        becomes("pod/near", &addresses[1], true).await;
        case.kubectl_says(&["annotate", "node", "node-2", "podlet.ironsail/cut=true"]);
        becomes("pod/near", &addresses[1], false).await;
        becomes("pod/far", &addresses[0], false).await;
        // Pods of one node still see each other.
        becomes("pod/far", &addresses[2], true).await;
        case.kubectl_says(&["annotate", "node", "node-2", "podlet.ironsail/cut-"]);
        becomes("pod/near", &addresses[1], true).await;
        becomes("pod/far", &addresses[0], true).await;
    });
}

#[test]
fn taints_keep_pods_away_and_drive_them_out() {
    let podlet = Podlet::start("taints", &["--nodes", "2"]);
    case_on(&podlet, "taints", async |case| {
        case.kubectl_says(&["taint", "node", "node-2", "dedicated=db:NoSchedule"]);
        let there = json!({"nodeSelector": {"kubernetes.io/hostname": "node-2"}});
        let pod = eventually("the taint keeps a stranger away", async || {
            case.apply(&echo_pod("stranger", 8080, &there)).await;
            let decided = |p: &Value| unscheduled(p).is_some() || p["spec"]["nodeName"].is_string();
            let pod = case.wait("pod/stranger", "decided on", decided).await;
            if unscheduled(&pod).is_some() {
                return Ok(pod);
            }
            // The scheduler had not heard of the taint.
            case.kubectl_says(&["delete", "pod", "stranger"]);
            Err("it was given a node".to_owned())
        })
        .await;
        let message = unscheduled(&pod).unwrap();
        assert!(message.contains("1 node(s) had untolerated taint {dedicated: db}"), "{message}");
        let mut tolerant = there.clone();
        tolerant["tolerations"] = json!([{"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}]);
        case.apply(&echo_pod("friend", 8080, &tolerant)).await;
        case.ready("pod/friend").await;
        case.kubectl_says(&["taint", "node", "node-2", "dedicated-"]);
        case.ready("pod/stranger").await;
        // NoExecute drives out who is there already, but not who tolerates it.
        let mut staying = there;
        staying["tolerations"] = json!([{"key": "broken", "operator": "Exists"}]);
        case.apply(&echo_pod("stays", 8080, &staying)).await;
        case.ready("pod/stays").await;
        case.kubectl_says(&["taint", "node", "node-2", "broken=yes:NoExecute"]);
        case.gone("pod/stranger").await;
        case.gone("pod/friend").await;
        case.ready("pod/stays").await;
    });
}

#[test]
fn a_node_is_drained_and_taken_back() {
    let podlet = Podlet::start("drain", &["--nodes", "2"]);
    case_on(&podlet, "drain", async |case| {
        case.apply(&deployment("web", 4, &json!({}))).await;
        case.apply("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}").await;
        case.apply(r#"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {matchLabels: {app: d}},
            template: {metadata: {labels: {app: d}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: e, image: echo}]}}}}"#).await;
        case.apply(&echo_pod("alone", 8080, &json!({"nodeName": "node-2"}))).await;
        case.ready("deployment/web").await;
        case.wait("daemonset/d", "ready twice", |set| set["status"]["numberReady"] == 2).await;
        case.ready("pod/alone").await;
        assert_eq!(placement(case, "web").await, counts([("node-1", 2), ("node-2", 2)]));
        case.kubectl_says(&["cordon", "node-2"]);
        let nodes = case.kubectl_says(&["get", "nodes"]);
        assert!(nodes.contains("Ready,SchedulingDisabled"), "{nodes}");
        let refused = case.kubectl_refuses(&["drain", "node-2"]);
        assert!(refused.contains("cannot delete DaemonSet-managed Pods"), "{refused}");
        assert!(refused.contains("cannot delete Pods that declare no controller"), "{refused}");
        let drained = case.kubectl_says(&[
            "drain",
            "node-2",
            "--ignore-daemonsets",
            "--force",
            "--timeout=170s",
        ]);
        assert!(drained.contains("node/node-2 drained"), "{drained}");
        placed(case, "web", [("node-1", 4)]).await;
        case.ready("deployment/web").await;
        placed(case, "d", [("node-1", 1), ("node-2", 1)]).await;
        placed(case, "alone", []).await;
        case.kubectl_says(&["uncordon", "node-2"]);
        case.scale("deployment/web", 6).await;
        case.ready("deployment/web").await;
        placed(case, "web", [("node-1", 4), ("node-2", 2)]).await;
    });
}
