//! Who a simulated proxy says it is: the node that Istio's agent would write.

use ironsail_proto::envoy::config::core::v3::{Locality, Node};
use ironsail_proto::google::protobuf::Struct;
use serde_json::json;

/// The shape of the simulated mesh.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) workloads: usize,
    pub(crate) namespaces: usize,
    pub(crate) domain: String,
}

impl Shape {
    pub(crate) fn namespace(&self, workload: usize) -> String {
        format!("load-{}", workload % self.namespaces)
    }
}

/// The node of proxy `index`: proxies of a workload differ in name and address only.
pub(crate) fn node(shape: &Shape, index: usize) -> Node {
    let workload = index % shape.workloads;
    let (namespace, app) = (shape.namespace(workload), format!("svc-{workload}"));
    let pod = format!("{app}-7d4b9c6f5-{index:05}");
    // Outside of what `generate` gives to endpoints.
    let ip = format!("10.{}.{}.{}", 128 + index / 65_536, index / 256 % 256, index % 256);
    let domain = format!("{namespace}.svc.{}", shape.domain);
    let metadata = json!({
        "NAME": pod, "NAMESPACE": namespace, "SERVICE_ACCOUNT": app, "WORKLOAD_NAME": app,
        "CLUSTER_ID": "Kubernetes", "MESH_ID": "cluster.local", "ISTIO_VERSION": "1.30.0",
        "INSTANCE_IPS": ip, "INTERCEPTION_MODE": "REDIRECT", "NODE_NAME": format!("node-{}", index % 50),
        "OWNER": format!("kubernetes://apis/apps/v1/namespaces/{namespace}/deployments/{app}"),
        "LABELS": {"app": app, "pod-template-hash": "7d4b9c6f5", "version": "v1",
            "security.istio.io/tlsMode": "istio", "service.istio.io/canonical-name": app,
            "service.istio.io/canonical-revision": "v1"},
        "APP_CONTAINERS": "app", "ENVOY_PROMETHEUS_PORT": 15090, "ENVOY_STATUS_PORT": 15021,
        "PILOT_SAN": ["istiod.istio-system.svc"],
        "POD_PORTS": "[{\"containerPort\":8080,\"protocol\":\"TCP\"}]",
        "PROXY_CONFIG": {"discoveryAddress": "istiod.istio-system.svc:15012", "serviceCluster": "istio-proxy",
            "concurrency": 2, "drainDuration": "45s", "parentShutdownDuration": "60s",
            "proxyAdminPort": 15000, "statusPort": 15020, "terminationDrainDuration": "5s"}
    });
    Node {
        id: format!("sidecar~{ip}~{pod}.{namespace}~{domain}"),
        cluster: format!("{app}.{namespace}"),
        metadata: metadata.as_object().cloned().map(Struct::from),
        locality: Some(Locality {
            region: "region".into(),
            zone: format!("zone-{}", workload % 3),
            ..Locality::default()
        }),
        user_agent_name: "envoy".into(),
        ..Node::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Shape, node};

    #[test]
    fn proxies_of_a_workload_differ_in_name_and_address() {
        let shape = Shape { workloads: 3, namespaces: 2, domain: "cluster.local".into() };
        let (a, b) = (node(&shape, 1), node(&shape, 4));
        assert_eq!((&a.cluster, &a.locality), (&b.cluster, &b.locality));
        assert_ne!(a.id, b.id);
        assert_eq!(
            a.id,
            "sidecar~10.128.0.1~svc-1-7d4b9c6f5-00001.load-1~load-1.svc.cluster.local"
        );
    }
}
