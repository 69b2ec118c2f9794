//! What a view's key depends on, and what not.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ironsail_api::ClusterId;
use ironsail_model::{Proxy, ProxyClass, Scope, Snapshot};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::from_json;
use ironsail_translate::{cluster, endpoint, nametable};
use serde_json::{Value, json};

fn objects() -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/plain/input.yaml");
    ironsail_yaml::documents(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// The same objects, with `change` made to the one of that kind and name.
fn changed(kind: &str, name: &str, change: impl FnOnce(&mut Value)) -> Arc<Snapshot> {
    let mut all = objects();
    let is_it = |o: &&mut Value| o["kind"] == kind && o["metadata"]["name"] == name;
    change(all.iter_mut().find(is_it).unwrap());
    case::snapshot(&all)
}

fn with(more: Value) -> Arc<Snapshot> {
    let mut all = objects();
    all.push(more);
    case::snapshot(&all)
}

fn class(snapshot: &Snapshot, pod: &str, ip: &str, metadata: &Value) -> ProxyClass {
    let mut node = json!({
        "id": format!("sidecar~{ip}~{pod}.foo~foo.svc.cluster.local"), "cluster": "caller.foo",
        "metadata": {"NAMESPACE": "foo", "CLUSTER_ID": "Kubernetes", "LABELS": {"app": "caller"}}
    });
    for (key, value) in metadata.as_object().unwrap() {
        node["metadata"][key] = value.clone();
    }
    let node: Node = from_json(&node).unwrap();
    snapshot.class_of(&Proxy::parse(&node, &ClusterId::from("Kubernetes")).unwrap())
}

/// The keys of all clusters, load assignments and the name table, by name.
fn keys(snapshot: &Snapshot, class: &ProxyClass) -> BTreeMap<String, u64> {
    let scope = Scope::of(snapshot, class);
    let clusters = cluster::views(snapshot, &scope, class);
    let mut keys: BTreeMap<String, u64> =
        clusters.iter().map(|v| (format!("cluster {}", v.name()), v.key())).collect();
    for view in endpoint::views(snapshot, &scope, class) {
        keys.insert(format!("endpoint {}", view.asked_as()), view.key());
    }
    keys.insert("names".into(), nametable::view(snapshot, &scope, class).key());
    keys
}

fn caller(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    keys(snapshot, &class(snapshot, "caller-1", "10.0.7.1", &json!({})))
}

/// Names whose keys differ between the plain objects and `other`.
fn differing(other: &Snapshot) -> Vec<String> {
    let (before, after) = (caller(&case::snapshot(&objects())), caller(other));
    let names = before.keys().chain(after.keys());
    let mut names: Vec<String> =
        names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn proxies_that_differ_in_nothing_that_counts_have_equal_keys() {
    let snapshot = case::snapshot(&objects());
    let one = keys(&snapshot, &class(&snapshot, "caller-1", "10.0.7.1", &json!({})));
    let two = json!({"NODE_NAME": "node-b", "LABELS": {"app": "caller", "pod": "other"}});
    let two = keys(&snapshot, &class(&snapshot, "caller-2", "10.0.7.2", &two));
    assert_eq!(one, two);
}

#[test]
fn equal_objects_have_equal_keys() {
    assert_eq!(differing(&case::snapshot(&objects())), [""; 0]);
}

#[test]
fn an_endpoint_concerns_only_its_own_load_assignments() {
    let other = changed("EndpointSlice", "httpbin-x", |slice| {
        slice["endpoints"].as_array_mut().unwrap().pop();
        slice["endpoints"][1]["conditions"]["ready"] = json!(false);
    });
    let host = "httpbin.foo.svc.cluster.local";
    let ports = [8000, 9000, 9001, 9002];
    let expected: Vec<String> =
        ports.iter().map(|port| format!("endpoint outbound|{port}||{host}")).collect();
    // The other endpoint had another service account, which clusters name.
    let found: Vec<String> =
        differing(&other).into_iter().filter(|name| name.starts_with("endpoint")).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_service_concerns_its_own_clusters_and_the_names() {
    let other = changed("Service", "db", |db| db["metadata"]["labels"] = json!({"team": "x"}));
    let found = differing(&other);
    assert_eq!(found, ["cluster outbound|5432||db.foo.svc.cluster.local", "names"]);
}

#[test]
fn a_rule_concerns_the_host_it_is_for() {
    let other = with(json!({
        "apiVersion": "networking.istio.io/v1", "kind": "DestinationRule",
        "metadata": {"name": "db", "namespace": "foo"},
        "spec": {"host": "db", "trafficPolicy": {"connectionPool": {"tcp": {"maxConnections": 3}}}}
    }));
    assert_eq!(differing(&other), ["cluster outbound|5432||db.foo.svc.cluster.local"]);
}

#[test]
fn what_is_of_no_concern_changes_no_key() {
    for other in [
        with(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "x", "namespace": "foo"}, "data": {"a": "YQ=="}
        })),
        with(json!({
            "apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication",
            "metadata": {"name": "x", "namespace": "other"}, "spec": {"mtls": {"mode": "STRICT"}}
        })),
        with(json!({
            "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
            "metadata": {"name": "x", "namespace": "foo"},
            "spec": {"hosts": ["httpbin"], "http": [{"route": [{"destination": {"host": "db"}}]}]}
        })),
    ] {
        assert_eq!(differing(&other), [""; 0]);
    }
}

#[test]
fn another_place_counts_only_where_places_are_preferred() {
    let rule = json!({
        "apiVersion": "networking.istio.io/v1", "kind": "DestinationRule",
        "metadata": {"name": "httpbin", "namespace": "foo"},
        "spec": {"host": "httpbin", "trafficPolicy": {"outlierDetection": {"consecutive5xxErrors": 1}}}
    });
    let snapshot = with(rule);
    let place = |label: &str| {
        let metadata = json!({"LABELS": {"app": "caller", "istio-locality": label}});
        keys(&snapshot, &class(&snapshot, "caller-1", "10.0.7.1", &metadata))
    };
    let (one, two) = (place("eu.eu-1"), place("eu.eu-2"));
    let differ = one.iter().filter(|(name, key)| two[*name] != **key).map(|(name, _)| name);
    let differ: Vec<&String> = differ.collect();
    assert_eq!(differ.len(), 4, "{differ:?}");
    assert!(
        differ.iter().all(|n| n.starts_with("endpoint") && n.contains("httpbin")),
        "{differ:?}"
    );
}
