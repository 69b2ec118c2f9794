//! What listeners and routes depend on, and what not: their keys before and after a change.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ironsail_api::ClusterId;
use ironsail_model::{Proxy, ProxyClass, Scope, Snapshot};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::from_json;
use ironsail_translate::{listener, route};
use serde_json::{Value, json};

fn objects(folder: &str) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/{folder}/input.yaml"));
    ironsail_yaml::documents(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn class(snapshot: &Snapshot, pod: &str, ip: &str, labels: &Value) -> ProxyClass {
    let node = json!({
        "id": format!("sidecar~{ip}~{pod}.foo~foo.svc.cluster.local"), "cluster": "caller.foo",
        "metadata": {"NAMESPACE": "foo", "CLUSTER_ID": "Kubernetes", "LABELS": labels}
    });
    let node: Node = from_json(&node).unwrap();
    snapshot.class_of(&Proxy::parse(&node, &ClusterId::from("Kubernetes")).unwrap())
}

fn keys_of(snapshot: &Snapshot, class: &ProxyClass) -> BTreeMap<String, u64> {
    let scope = Scope::of(snapshot, class);
    let mut keys = BTreeMap::new();
    for view in listener::views(snapshot, &scope, class) {
        keys.insert(format!("listener {}", view.name()), view.key());
    }
    for view in route::views(snapshot, &scope, class) {
        keys.insert(format!("route {}", view.name()), view.key());
    }
    keys
}

fn keys(objects: &[Value]) -> BTreeMap<String, u64> {
    let snapshot = case::snapshot(objects);
    keys_of(&snapshot, &class(&snapshot, "caller-1", "10.9.9.9", &json!({"app": "caller"})))
}

/// Names whose key is new, gone or another.
fn differing(before: &[Value], after: &[Value]) -> Vec<String> {
    let (before, after) = (keys(before), keys(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

fn find<'a>(objects: &'a mut [Value], kind: &str, name: &str) -> &'a mut Value {
    objects.iter_mut().find(|o| o["kind"] == kind && o["metadata"]["name"] == name).unwrap()
}

#[test]
fn pods_of_one_workload_share_everything() {
    let snapshot = case::snapshot(&objects("plain"));
    let one = class(&snapshot, "caller-1", "10.9.9.1", &json!({"app": "caller"}));
    let two = class(&snapshot, "caller-2", "10.9.9.2", &json!({"app": "caller"}));
    assert_eq!(keys_of(&snapshot, &one), keys_of(&snapshot, &two));
}

#[test]
fn workloads_of_one_namespace_share_what_leaves_them() {
    let snapshot = case::snapshot(&objects("plain"));
    let one = class(&snapshot, "caller-1", "10.9.9.1", &json!({"app": "caller"}));
    let two = class(&snapshot, "other-1", "10.9.9.2", &json!({"app": "other"}));
    assert_eq!(keys_of(&snapshot, &one), keys_of(&snapshot, &two));
}

#[test]
fn a_condition_on_labels_makes_only_its_routes_differ() {
    let snapshot = case::snapshot(&objects("routing"));
    let one = keys_of(&snapshot, &class(&snapshot, "a", "10.9.9.1", &json!({"app": "caller"})));
    let two = keys_of(&snapshot, &class(&snapshot, "b", "10.9.9.2", &json!({"app": "other"})));
    let differ: Vec<&String> = one.keys().filter(|k| one.get(*k) != two.get(*k)).collect();
    assert_eq!(differ, ["route 9080"]);
}

#[test]
fn endpoints_change_nothing_but_listeners_of_headless_services() {
    let before = objects("plain");
    let mut after = before.clone();
    find(&mut after, "EndpointSlice", "httpbin-x")["endpoints"][2]["conditions"]["ready"] =
        json!(true);
    assert_eq!(differing(&before, &after), [""; 0]);
    let mut after = before.clone();
    let slice = find(&mut after, "EndpointSlice", "db-x");
    let mut more = slice["endpoints"][0].clone();
    more["addresses"] = json!(["10.0.0.10"]);
    more["targetRef"] = Value::Null;
    slice["endpoints"].as_array_mut().unwrap().push(more);
    assert_eq!(differing(&before, &after), ["listener 10.0.0.10_5432"]);
}

#[test]
fn a_new_service_changes_the_routes_of_its_port_only() {
    let before = objects("plain");
    let mut after = before.clone();
    after.push(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "new", "namespace": "foo"},
        "spec": {"clusterIP": "10.96.0.99", "ports": [
            {"name": "http", "port": 8000}, {"name": "tcp", "port": 7000}
        ]}
    }));
    assert_eq!(differing(&before, &after), ["listener 10.96.0.99_7000", "route 8000"]);
}

#[test]
fn labels_of_a_service_change_nothing() {
    let before = objects("plain");
    let mut after = before.clone();
    find(&mut after, "Service", "httpbin")["metadata"]["labels"] = json!({"team": "a"});
    assert_eq!(differing(&before, &after), [""; 0]);
}

#[test]
fn a_virtual_service_changes_the_routes_of_its_hosts_only() {
    let before = objects("plain");
    let mut after = before.clone();
    after.push(json!({
        "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
        "metadata": {"name": "v", "namespace": "foo"},
        "spec": {"hosts": ["httpbin"], "http": [
            {"match": [{"port": 8000}], "timeout": "3s", "route": [{"destination": {"host": "httpbin"}}]}
        ]}
    }));
    let differ = differing(&before, &after);
    assert_eq!(differ, ["route 8000", "route 9000", "route httpbin.foo.svc.cluster.local:9002"]);
}

#[test]
fn a_delegate_changes_the_routes_that_it_is_put_into() {
    let before = objects("routing");
    let mut after = before.clone();
    find(&mut after, "VirtualService", "team")["spec"]["http"][0]["timeout"] = json!("9s");
    assert_eq!(differing(&before, &after), ["route 9080", "route 9090"]);
}

#[test]
fn of_a_destination_rule_only_hashing_and_connections_count() {
    let before = objects("routing");
    let mut after = before.clone();
    let policy = &mut find(&mut after, "DestinationRule", "reviews")["spec"]["trafficPolicy"];
    policy["outlierDetection"] = json!({"consecutive5xxErrors": 3});
    assert_eq!(differing(&before, &after), [""; 0]);
    let policy = &mut find(&mut after, "DestinationRule", "reviews")["spec"]["trafficPolicy"];
    policy["loadBalancer"]["consistentHash"]["httpHeaderName"] = json!("x-other");
    assert_eq!(differing(&before, &after), ["route 80", "route 9080"]);
    let mut after = before.clone();
    let policy = &mut find(&mut after, "DestinationRule", "db")["spec"]["trafficPolicy"];
    policy["connectionPool"]["tcp"]["idleTimeout"] = json!("31s");
    assert_eq!(differing(&before, &after), ["listener 10.96.1.3_3306", "listener 10.96.1.3_3307"]);
}

#[test]
fn a_policy_changes_the_inbound_listener_only() {
    let before = objects("plain");
    let mut after = before.clone();
    after.push(json!({
        "apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication",
        "metadata": {"name": "default", "namespace": "foo"}, "spec": {"mtls": {"mode": "STRICT"}}
    }));
    assert_eq!(differing(&before, &after), ["listener virtualInbound"]);
}

#[test]
fn one_broken_virtual_service_leaves_the_others_alone() {
    let all = objects("broken");
    let without: Vec<Value> =
        all.iter().filter(|o| o["metadata"]["name"] != "star").cloned().collect();
    let snapshot = case::snapshot(&all);
    let class = class(&snapshot, "caller-1", "10.9.9.9", &json!({"app": "caller"}));
    let scope = Scope::of(&snapshot, &class);
    let made = route::translate(&route::view(&snapshot, &scope, &class, "80"));
    let host = |name: &str| {
        let host = made.value.virtual_hosts.iter().find(|h| h.name == name);
        host.unwrap_or_else(|| panic!("{name} is there")).clone()
    };
    let names = |name: &str| host(name).routes.iter().map(|r| r.name.clone()).collect::<Vec<_>>();
    assert_eq!(names("good.foo.svc.cluster.local:80"), ["right"]);
    // What cannot be matched is not there; all else is.
    let bad = names("bad.foo.svc.cluster.local:80");
    assert_eq!(
        bad,
        [
            "regex",
            "nowhere",
            "unknown",
            "weightless",
            "rewrite",
            "redirect",
            "direct",
            "fault",
            "headers",
            "cors",
            "rest"
        ]
    );
    let told = |name: &str| made.diagnostics.iter().filter(|d| d.name == name).count();
    assert!(told("bad") >= 12, "{:#?}", made.diagnostics);
    assert_eq!(told("good"), 0);
    assert_eq!(told("star"), 1);
    assert!(keys(&without).contains_key("route 80"));
}
