//! Services and pods in, slices and Endpoints out.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::backend::{self, Backends};
use super::{legacy, mirror, slice};
use crate::store::annotation;

fn service(spec: &Value) -> Service {
    let mut body = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "s", "labels": {"team": "a"},
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"selector": {"app": "web"}, "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "targetPort": "web"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        body["spec"][key] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

fn pod(number: usize, change: &Value) -> Arc<Pod> {
    let mut body = json!({
        "metadata": {"name": format!("p{number}"), "namespace": "ns", "uid": format!("u{number}"),
            "labels": {"app": "web"}},
        "spec": {"nodeName": "n1",
            "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": format!("10.0.{}.{}", number / 250, number % 250),
            "conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-02T00:00:00Z"}]},
    });
    merge(&mut body, change);
    Arc::new(serde_json::from_value(body).unwrap())
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn unready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
}

fn backends(service: &Service, pods: &[Arc<Pod>]) -> Backends {
    let node = |name: &str| -> Option<Arc<Node>> {
        let node = json!({"metadata": {"name": name,
            "labels": {"topology.kubernetes.io/zone": "east"}}});
        Some(Arc::new(serde_json::from_value(node).unwrap()))
    };
    backend::of(service, pods, &node)
}

fn slices(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSlice> {
    slice::plan(service, &backends(service, pods), &[]).create
}

/// Conditions as three letters: ready, serving, terminating.
fn conditions(slice: &EndpointSlice) -> Vec<String> {
    let letter =
        |on: Option<bool>, letter: &'static str| if on == Some(true) { letter } else { "-" };
    slice
        .endpoints
        .iter()
        .flatten()
        .map(|e| {
            let c = e.conditions.clone().unwrap();
            [letter(c.ready, "r"), letter(c.serving, "s"), letter(c.terminating, "t")].concat()
        })
        .collect()
}

#[test]
fn a_slice_carries_all_that_a_proxy_needs() {
    let service = service(&json!({}));
    let made = slices(&service, &[pod(1, &json!({}))]);
    assert_eq!(made.len(), 1);
    let text = serde_json::to_value(&made[0]).unwrap();
    assert_eq!(
        text,
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"generateName": "web-", "namespace": "ns",
                "labels": {"kubernetes.io/service-name": "web", "team": "a",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time":
                    "2026-01-02T00:00:00Z"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s",
                    "controller": true, "blockOwnerDeletion": true}]},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["10.0.0.1"],
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "nodeName": "n1", "zone": "east",
                "targetRef": {"kind": "Pod", "namespace": "ns", "name": "p1", "uid": "u1"}}],
        })
    );
}

#[test]
fn conditions_follow_the_pod() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-03T00:00:00Z"}});
    let mut unready_deleted = deleted.clone();
    merge(&mut unready_deleted, &unready());
    let pods = [pod(1, &json!({})), pod(2, &unready()), pod(3, &deleted), pod(4, &unready_deleted)];
    let plain = service(&json!({}));
    assert_eq!(conditions(&slices(&plain, &pods)[0]), ["rs-", "---", "-st", "--t"]);
    let publish = service(&json!({"publishNotReadyAddresses": true}));
    assert_eq!(conditions(&slices(&publish, &pods)[0]), ["rs-", "r--", "rst", "r-t"]);

    let old = legacy::compose(&plain, &backends(&plain, &pods));
    let subset = &old.subsets.unwrap()[0];
    assert_eq!(subset.addresses.as_ref().unwrap().len(), 1);
    assert_eq!(subset.not_ready_addresses.as_ref().unwrap().len(), 1);
}

#[test]
fn ended_pods_and_pods_without_address_are_no_endpoints() {
    let pods = [
        pod(1, &json!({"status": {"phase": "Succeeded"}})),
        pod(2, &json!({"status": {"phase": "Failed"}})),
        pod(3, &json!({"status": {"podIP": null}})),
    ];
    let service = service(&json!({}));
    let made = slices(&service, &pods);
    assert_eq!(made.len(), 1, "an empty slice stands for an empty Service");
    assert!(made[0].endpoints.as_ref().unwrap().is_empty());
    assert_eq!(legacy::compose(&service, &backends(&service, &pods)).subsets, None);
}

#[test]
fn named_ports_are_looked_up_in_each_pod() {
    let other = json!({"spec": {"containers": [
        {"name": "c", "ports": [{"name": "web", "containerPort": 9090}]}]}});
    let sidecar = json!({"spec": {"containers": [{"name": "c"}], "initContainers": [
        {"name": "s", "restartPolicy": "Always",
            "ports": [{"name": "web", "containerPort": 7070}]}]}});
    let none = json!({"spec": {"containers": [{"name": "c"}]}});
    let pods = [pod(1, &json!({})), pod(2, &other), pod(3, &sidecar), pod(4, &none)];
    let made = slices(&service(&json!({})), &pods);
    let ports: Vec<_> =
        made.iter().map(|s| s.ports.as_ref().unwrap().first().and_then(|p| p.port)).collect();
    assert_eq!(ports, [Some(8080), Some(9090), Some(7070), None]);
    let udp = service(&json!({"ports": [
        {"port": 53, "targetPort": "web", "protocol": "UDP"}, {"port": 80}]}));
    let made = slices(&udp, &pods[..1]);
    let ports = made[0].ports.as_ref().unwrap();
    assert_eq!((ports.len(), ports[0].port), (1, Some(80)), "no UDP port of that name");
}

#[test]
fn each_family_has_its_own_slices() {
    let dual = service(&json!({"ipFamilies": ["IPv4", "IPv6"]}));
    let both = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}});
    let made = slices(&dual, &[pod(1, &both), pod(2, &json!({}))]);
    let view: Vec<_> = made
        .iter()
        .map(|s| (s.address_type.as_str(), s.endpoints.as_ref().unwrap().len()))
        .collect();
    assert_eq!(view, [("IPv4", 2), ("IPv6", 1)]);
}

#[test]
fn a_headless_service_names_its_hosts() {
    let headless = service(&json!({"clusterIP": "None", "ports": []}));
    let named = json!({"spec": {"hostname": "db-0", "subdomain": "web"}});
    let foreign = json!({"spec": {"hostname": "db-1", "subdomain": "other"}});
    let made = slices(&headless, &[pod(1, &named), pod(2, &foreign)]);
    let labels = made[0].metadata.labels.as_ref().unwrap();
    assert_eq!(labels["service.kubernetes.io/headless"], "");
    let hosts: Vec<_> = made[0].endpoints.iter().flatten().map(|e| e.hostname.as_deref()).collect();
    assert_eq!(hosts, [Some("db-0"), None]);
}

/// What the API would have after a plan.
fn store(old: Vec<Arc<EndpointSlice>>, plan: slice::Plan) -> Vec<Arc<EndpointSlice>> {
    let mut all = old;
    all.retain(|s| !plan.delete.iter().any(|d| d.metadata.name == s.metadata.name));
    for (old, mut new) in plan.update {
        all.retain(|s| s.metadata.name != old.metadata.name);
        new.metadata.name.clone_from(&old.metadata.name);
        all.push(Arc::new(new));
    }
    for mut new in plan.create {
        new.metadata.name = Some(format!("web-{}", all.len()));
        all.push(Arc::new(new));
    }
    all
}

#[test]
fn slices_hold_a_hundred_and_change_as_little_as_possible() {
    let service = service(&json!({}));
    let mut pods: Vec<Arc<Pod>> = (0..250).map(|n| pod(n, &json!({}))).collect();
    let plan = |pods: &[Arc<Pod>], old: &[Arc<EndpointSlice>]| {
        slice::plan(&service, &backends(&service, pods), old)
    };
    let first = plan(&pods, &[]);
    let sizes: Vec<_> = first.create.iter().map(|s| s.endpoints.as_ref().unwrap().len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
    let kept = store(Vec::new(), first);

    let again = plan(&pods, &kept);
    assert_eq!((again.create.len(), again.update.len(), again.delete.len()), (0, 0, 0));

    pods[3] = pod(3, &unready());
    let one = plan(&pods, &kept);
    assert_eq!((one.create.len(), one.update.len(), one.delete.len()), (0, 1, 0));
    let kept = store(kept, one);

    pods.remove(7);
    pods.push(pod(300, &json!({})));
    let swap = plan(&pods, &kept);
    assert_eq!((swap.create.len(), swap.update.len(), swap.delete.len()), (0, 1, 0));

    let none = plan(&[], &kept);
    assert_eq!((none.create.len(), none.delete.len()), (1, 3), "only the empty slice is left");
}

#[test]
fn endpoints_made_by_hand_are_mirrored() {
    let service = service(&json!({"selector": null}));
    let made: Endpoints = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "e", "labels": {"by": "hand"},
            "annotations": {"note": "n"}},
        "subsets": [{"addresses": [{"ip": "1.2.3.4"}, {"ip": "fd00::2"}],
            "notReadyAddresses": [{"ip": "1.2.3.5"}], "ports": [{"port": 9000}]}],
    }))
    .unwrap();
    let plan = mirror::plan(&service, Some(&made), &[]);
    let view: Vec<_> =
        plan.create.iter().map(|s| (s.address_type.as_str(), conditions(s))).collect();
    assert_eq!(
        view,
        [("IPv4", vec!["r--".to_string(), "---".to_string()]), ("IPv6", vec!["r--".to_string()]),]
    );
    let slice = &plan.create[0];
    assert_eq!(slice.metadata.owner_references.as_ref().unwrap()[0].kind, "Endpoints");
    assert_eq!(annotation(&slice.metadata, "note"), Some("n"));
    assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(9000));

    let kept = store(Vec::new(), plan);
    let mut skipped = made.clone();
    let labels = skipped.metadata.labels.get_or_insert_default();
    labels.insert("endpointslice.kubernetes.io/skip-mirror".into(), "true".into());
    assert_eq!(mirror::plan(&service, Some(&skipped), &kept).delete.len(), 2);
    assert_eq!(mirror::plan(&service, None, &kept).delete.len(), 2);
    assert_eq!(mirror::plan(&service, Some(&made), &kept).update.len(), 0);
}
