//! YAML of every resource of the mesh, all the way: read, checked, taken into a small mesh, and turned
//! into what proxies get. Whatever an object says, nothing fails and the same comes out twice.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use ironsail_api::{ClusterId, Event, decode_any};
use ironsail_model::{Proxy, ProxyClass, Scope, Settings, Snapshot, Store};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::{Message, from_json};
use ironsail_translate::extend::Extensions;
use ironsail_translate::{cluster, endpoint, listener, nametable, route};
use serde_json::{Value, json};

const WORLD: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: b, labels: {istio-injection: enabled}}}
---
{apiVersion: v1, kind: Service, metadata: {name: a, namespace: b}, spec: {clusterIP: 10.0.0.7, selector: {app: a}, ports: [{name: http, port: 80}, {name: tcp, port: 90}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: b, labels: {app: a, security.istio.io/tlsMode: istio}}
spec: {containers: [{name: c, ports: [{containerPort: 80}]}, {name: istio-proxy}]}
status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}], conditions: [{type: Ready, status: 'True'}]}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, namespace: b, labels: {kubernetes.io/service-name: a}}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}, targetRef: {kind: Pod, name: a, namespace: b}}], ports: [{name: http, port: 80, protocol: TCP}, {name: tcp, port: 90, protocol: TCP}]}
---
{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: a, namespace: b}, spec: {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}}
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: w, namespace: b}, spec: {hosts: ['*.a.com'], gateways: [a, mesh], http: [{route: [{destination: {host: a}}]}]}}
";

/// A small mesh, and one object more.
pub(super) fn world(more: Option<&Value>) -> Arc<Snapshot> {
    let documents = ironsail_yaml::documents(WORLD).expect("our own YAML");
    let mut store = Store::new(Settings::default());
    for object in documents.iter().chain(more).filter_map(decode_any) {
        if let Ok(object) = object.object {
            store.apply(Event::Apply { cluster: ClusterId::from("Kubernetes"), object });
        }
    }
    store.take().expect("there are objects").snapshot
}

fn proxy(kind: &str, labels: &Value) -> Proxy {
    let node: Node = from_json(&json!({
        "id": format!("{kind}~10.0.0.1~a.b~b.svc.cluster.local"),
        "metadata": {"NAMESPACE": "b", "LABELS": labels, "CLUSTER_ID": "Kubernetes"}
    }))
    .expect("our own node");
    Proxy::parse(&node, &ClusterId::from("Kubernetes")).expect("our own proxy")
}

/// All that a proxy of the class gets, as bytes.
fn translated(snapshot: &Snapshot, class: &ProxyClass) -> Vec<Vec<u8>> {
    let scope = Scope::of(snapshot, class);
    let extensions = Extensions::of(snapshot, &scope, class);
    let mut all = Vec::new();
    for view in &cluster::views(snapshot, &scope, class) {
        all.push(cluster::translate(view).value.encode_to_vec());
    }
    for view in &endpoint::views(snapshot, &scope, class) {
        all.push(endpoint::translate(view).value.encode_to_vec());
    }
    for view in &listener::views(snapshot, &scope, class) {
        let made = extensions.listener(view.context(), listener::translate(view));
        all.push(made.value.encode_to_vec());
    }
    for view in &route::views(snapshot, &scope, class) {
        all.push(route::translate(view).value.encode_to_vec());
    }
    all.push(nametable::translate(&nametable::view(snapshot, &scope, class)).value.encode_to_vec());
    all
}

fn live(object: &Value) {
    let snapshot = world(Some(object));
    let sidecar = proxy("sidecar", &json!({"app": "a"}));
    let gateway = proxy("router", &json!({"istio": "edge"}));
    for proxy in [sidecar, gateway] {
        let class = snapshot.class_of(&proxy);
        let first = translated(&snapshot, &class);
        assert!(
            first == translated(&snapshot, &class),
            "the same object, the same bytes: {object}"
        );
    }
}

/// As text, a few of whose characters are others.
fn made(u: &mut Unstructured<'_>) -> Result<String> {
    let object = super::object::any(u)?;
    let text = object.to_string();
    match u.ratio(1, 4)? {
        false => Ok(text),
        true => {
            let changes: Vec<(u16, u8)> = u.arbitrary()?;
            let changes: Vec<_> = changes.into_iter().take(4).collect();
            Ok(String::from_utf8_lossy(&crate::changed(text.as_bytes(), &changes)).into_owned())
        }
    }
}

pub(crate) fn target(bytes: &[u8]) {
    let Ok(text) = made(&mut Unstructured::new(bytes)) else { return };
    for object in ironsail_yaml::documents(&text).into_iter().flatten() {
        let Some(decoded) = decode_any(&object) else { continue };
        if let Ok(read) = &decoded.object {
            let _ = ironsail_discovery::judge(read);
            live(&object);
        }
    }
}
