//! For tests only: objects from YAML, stores fed with them, proxies.

use ironsail_api::{ClusterId, Event, Object, decode_any};
use ironsail_proto::envoy::config::core::v3 as core;
use serde_json::Value;

use crate::{Proxy, ProxyClass, ServiceKey, Settings, Snapshot, Store};

pub(crate) fn cluster() -> ClusterId {
    Settings::default().cluster
}

/// All objects of a YAML text; each must be good.
pub(crate) fn objects(yaml: &str) -> Vec<Object> {
    let documents = ironsail_yaml::documents(yaml).unwrap();
    let decoded = documents.iter().map(|value| decode_any(value).expect("a kind of ours"));
    decoded.map(|decoded| decoded.object.unwrap()).collect()
}

pub(crate) fn apply(store: &mut Store, yaml: &str) {
    for object in objects(yaml) {
        store.apply(Event::Apply { cluster: cluster(), object });
    }
}

pub(crate) fn delete(store: &mut Store, yaml: &str) {
    for object in objects(yaml) {
        store.apply(Event::Delete(object.key(&cluster())));
    }
}

pub(crate) fn store(yaml: &str) -> Store {
    let mut store = Store::new(Settings::default());
    apply(&mut store, yaml);
    store
}

pub(crate) fn snapshot(yaml: &str) -> std::sync::Arc<Snapshot> {
    store(yaml).take().unwrap().snapshot
}

/// `host` in `namespace`.
pub(crate) fn key(host: &str, namespace: &str) -> ServiceKey {
    ServiceKey::new(host.parse().unwrap(), namespace.parse().unwrap())
}

pub(crate) fn node(id: &str, metadata: Value) -> core::Node {
    let Value::Object(metadata) = metadata else { panic!("metadata is an object") };
    core::Node { id: id.to_owned(), metadata: Some(metadata.into()), ..Default::default() }
}

/// A sidecar in `namespace` with these labels.
pub(crate) fn sidecar(namespace: &str, labels: &[(&str, &str)]) -> Proxy {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let metadata = serde_json::json!({"NAMESPACE": namespace, "LABELS": labels});
    let id = format!("sidecar~10.9.9.9~none.{namespace}~{namespace}.svc.cluster.local");
    Proxy::parse(&node(&id, metadata), &cluster()).unwrap()
}

pub(crate) fn class(snapshot: &Snapshot, namespace: &str, labels: &[(&str, &str)]) -> ProxyClass {
    snapshot.class_of(&sidecar(namespace, labels))
}

/// A Service, a pod behind it and the slice that says so.
pub(crate) fn web(name: &str, namespace: &str, ip: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: '2026-01-01T00:00:00Z'}}
spec:
  clusterIP: 10.96.0.{last}
  selector: {{app: {name}}}
  ports: [{{name: http, port: 80, targetPort: 8080}}]
---
{pod}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-x, namespace: {namespace}, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
endpoints:
- {{addresses: [{ip}], conditions: {{ready: true}}, targetRef: {{kind: Pod, name: {name}-1, namespace: {namespace}}}}}
ports: [{{name: http, port: 8080, protocol: TCP}}]
",
        last = ip.rsplit('.').next().unwrap(),
        pod = pod(name, namespace, ip),
    )
}

pub(crate) fn pod(name: &str, namespace: &str, ip: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {name}-1
  namespace: {namespace}
  labels: {{app: {name}, pod-template-hash: abc, security.istio.io/tlsMode: istio}}
  ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: {name}-abc, uid: u, controller: true}}]
spec:
  nodeName: n1
  serviceAccountName: {name}-account
  containers: [{{name: c, ports: [{{name: web, containerPort: 8080}}]}}]
status:
  phase: Running
  podIP: {ip}
  podIPs: [{{ip: {ip}}}]
  conditions: [{{type: Ready, status: 'True'}}]
"
    )
}
