//! Endpoints: slices joined with pods, nodes, namespaces and networks.

use ironsail_api::mesh::{MeshConfig, MeshNetworks};

use crate::testing::{apply, delete, key, pod, snapshot, store, web};
use crate::{Health, TlsMode};

const WEB: &str = "web.a.svc.cluster.local";

fn node(region: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Node
metadata: {{name: n1, labels: {{topology.kubernetes.io/region: {region}, topology.kubernetes.io/zone: z, topology.istio.io/subzone: s}}}}
"
    )
}

#[test]
fn an_endpoint_knows_its_workload() {
    let snapshot = snapshot(&format!("{}\n---\n{}", web("web", "a", "10.0.0.1"), node("r")));
    let endpoints = snapshot.endpoints_of(&key(WEB, "a"));
    let [endpoint] = endpoints.port("http") else { panic!("one endpoint: {endpoints:?}") };
    assert_eq!((endpoint.address.to_string().as_str(), endpoint.port), ("10.0.0.1", 8080));
    assert_eq!(endpoint.health, Health::Healthy);
    let workload = &endpoint.workload;
    assert_eq!((&*workload.name, &*workload.owner_kind), ("web", "Deployment"));
    assert_eq!((&*workload.canonical_name, &*workload.canonical_revision), ("web", "latest"));
    assert_eq!(workload.locality.to_string(), "r/z/s");
    assert_eq!(workload.tls, TlsMode::Istio);
    let identity = workload.identity.as_ref().unwrap().to_string();
    assert_eq!(identity, "spiffe://cluster.local/ns/a/sa/web-account");
    assert_eq!(endpoints.identities.len(), 1);
    assert_eq!(snapshot.counts().endpoints, 1);
}

#[test]
fn an_endpoint_waits_for_its_pod() {
    let mut store = store(&web("web", "a", "10.0.0.1"));
    delete(&mut store, &pod("web", "a", "10.0.0.1"));
    let update = store.take().unwrap();
    assert!(update.snapshot.endpoints_of(&key(WEB, "a")).is_empty());
    apply(&mut store, &pod("web", "a", "10.0.0.1"));
    let update = store.take().unwrap();
    assert_eq!(update.snapshot.endpoints_of(&key(WEB, "a")).len(), 1);
    assert!(update.changes.is_endpoints_only() || !update.changes.identities.is_empty());
}

#[test]
fn an_endpoint_without_a_pod_is_found_by_address_or_stands_for_itself() {
    let service = "
apiVersion: v1
kind: Service
metadata: {name: ext, namespace: a}
spec: {clusterIP: 10.96.0.9, ports: [{name: tcp, port: 1}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ext-x, namespace: a, labels: {kubernetes.io/service-name: ext}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1, 10.0.0.2]}]
ports: [{name: tcp, port: 1}]
";
    let snapshot = snapshot(&format!("{service}\n---\n{}", pod("web", "b", "10.0.0.1")));
    let endpoints = snapshot.endpoints_of(&key("ext.a.svc.cluster.local", "a"));
    let names: Vec<_> =
        endpoints.iter().map(|(_, e)| (&*e.workload.name, e.workload.tls)).collect();
    assert_eq!(names, [("web", TlsMode::Istio), ("", TlsMode::Disabled)]);
}

#[test]
fn conditions_say_the_health() {
    for (conditions, health) in [
        ("{}", Health::Healthy),
        ("{ready: true}", Health::Healthy),
        ("{ready: false}", Health::Unhealthy),
        ("{ready: false, serving: true, terminating: true}", Health::Draining),
        ("{ready: false, terminating: true}", Health::Draining),
        ("{ready: false, serving: false, terminating: true}", Health::Terminating),
    ] {
        let text = web("web", "a", "10.0.0.1").replace("{ready: true}", conditions);
        let endpoints = snapshot(&text).endpoints_of(&key(WEB, "a"));
        assert_eq!(endpoints.port("http")[0].health, health, "{conditions}");
    }
    let text = web("web", "a", "10.0.0.1")
        .replace("{ready: true}", "{ready: false}")
        .replace("selector:", "publishNotReadyAddresses: true\n  selector:");
    let endpoints = snapshot(&text).endpoints_of(&key(WEB, "a"));
    assert_eq!(endpoints.port("http")[0].health, Health::Healthy);
}

#[test]
fn the_network_comes_from_pod_then_namespace_then_mesh_networks() {
    let network = |store: &mut crate::Store| {
        let snapshot = store.take().unwrap().snapshot;
        let endpoints = snapshot.endpoints_of(&key(WEB, "a"));
        endpoints.port("http")[0].workload.network.to_string()
    };
    let mut store = store(&web("web", "a", "10.0.0.1"));
    assert_eq!(network(&mut store), "");
    let networks = serde_json::json!({"networks": {
        "n-wide": {"endpoints": [{"fromCidr": "10.0.0.0/8"}], "gateways": [{"address": "192.0.2.1", "port": 15443}]},
        "n-near": {"endpoints": [{"fromCidr": "10.0.0.0/24"}], "gateways": []},
    }});
    let networks: MeshNetworks = serde_json::from_value(networks).unwrap();
    store.set_mesh(MeshConfig::default(), networks);
    assert_eq!(network(&mut store), "n-near");
    apply(
        &mut store,
        "
apiVersion: v1
kind: Namespace
metadata: {name: istio-system, labels: {topology.istio.io/network: n-root}}
",
    );
    assert_eq!(network(&mut store), "n-root");
    apply(
        &mut store,
        &pod("web", "a", "10.0.0.1")
            .replace("{app: web,", "{app: web, topology.istio.io/network: n-pod,"),
    );
    assert_eq!(network(&mut store), "n-pod");
}

#[test]
fn gateways_of_networks_come_from_mesh_networks_and_labelled_services() {
    let mut store = store(
        "
apiVersion: v1
kind: Service
metadata: {name: eastwest, namespace: istio-system, labels: {topology.istio.io/network: other}}
spec: {type: LoadBalancer, clusterIP: 10.96.0.3, ports: [{name: tls, port: 15443}]}
status: {loadBalancer: {ingress: [{ip: 192.0.2.7}]}}
",
    );
    let networks = serde_json::json!({"networks": {"n": {"endpoints": [], "gateways": [
        {"address": "192.0.2.1", "port": 443},
        {"registryServiceName": "eastwest.istio-system.svc.cluster.local", "port": 444},
    ]}}});
    store.set_mesh(MeshConfig::default(), serde_json::from_value(networks).unwrap());
    let snapshot = store.take().unwrap().snapshot;
    let ways = |network: &str| -> Vec<String> {
        snapshot.gateways[network].iter().map(|g| format!("{}:{}", g.address, g.port)).collect()
    };
    assert_eq!(ways("n"), ["192.0.2.1:443", "192.0.2.7:444"]);
    assert_eq!(ways("other"), ["192.0.2.7:15443"]);
}
