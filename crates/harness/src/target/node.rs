//! The first request of a proxy: who it says it is, in any words.

use arbitrary::{Result, Unstructured};
use ironsail_api::ClusterId;
use ironsail_model::{Proxy, Scope};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use ironsail_proto::{Message, from_json};
use serde_json::{Value, json};

use crate::json;

fn made(u: &mut Unstructured<'_>) -> Result<Value> {
    let kind = *u.choose(&["sidecar", "router", "waypoint", "ztunnel", "agent", ""])?;
    let mut node = json!({"id": format!("{kind}~10.0.0.1~a.b~b.svc.cluster.local"), "cluster": "a.b",
        "locality": {"region": "r", "zone": "z", "subZone": "s"},
        "metadata": {"NAMESPACE": "b", "CLUSTER_ID": "Kubernetes", "LABELS": {"app": "a", "istio": "edge"},
            "ANNOTATIONS": {"a": "b"}, "INSTANCE_IPS": "10.0.0.1,fd00::1", "SERVICE_ACCOUNT": "a",
            "ISTIO_VERSION": "1.30.0", "POD_PORTS": "[{\"containerPort\":80}]", "NETWORK": "n",
            "INTERCEPTION_MODE": "REDIRECT", "PROXY_CONFIG": {"concurrency": 2}, "HTTP10": "1",
            "GENERATOR": "grpc", "DNS_CAPTURE": "true", "IDLE_TIMEOUT": "5s", "NODE_NAME": "n"}});
    for _ in 0..u.int_in_range(0..=5)? {
        let json::Json(with) = u.arbitrary()?;
        json::graft(u, &mut node, with)?;
    }
    Ok(node)
}

fn meet(node: &Node) {
    let Ok(proxy) = Proxy::parse(node, &ClusterId::from("Kubernetes")) else { return };
    let snapshot = super::resource::world(None);
    let class = snapshot.class_of(&proxy);
    assert!(class == snapshot.class_of(&proxy), "the same proxy, the same class");
    let _ = Scope::of(&snapshot, &class);
}

pub(crate) fn target(bytes: &[u8]) {
    if let Ok(request) = DiscoveryRequest::decode(bytes) {
        request.node.iter().for_each(meet);
    }
    if let Ok(request) = DeltaDiscoveryRequest::decode(bytes) {
        request.node.iter().for_each(meet);
    }
    if let Ok(node) = made(&mut Unstructured::new(bytes))
        && let Ok(node) = from_json::<Node>(&node)
    {
        meet(&node);
    }
}
