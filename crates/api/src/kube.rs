//! Kubernetes' objects, trimmed at the door to what a mesh uses.
//!
//! Spec and status become one flat type; everything else is dropped here and costs no memory.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::wire::{Bytes, IntOrString, Reader, Wire, message};

/// How a whole object becomes its trimmed form.
pub(crate) trait FromObject: Wire {
    fn from_object(value: &Value, reader: &mut Reader) -> Self;
}

message! {
    /// A Service.
    pub struct Service {
        pub r#type: String,
        pub cluster_ip as "clusterIP": String,
        pub cluster_ips as "clusterIPs": Vec<String>,
        pub external_ips as "externalIPs": Vec<String>,
        pub external_name: String,
        pub ports: Vec<ServicePort>,
        pub selector: BTreeMap<String, String>,
        pub session_affinity: String,
        pub publish_not_ready_addresses: bool,
        pub internal_traffic_policy: String,
        pub external_traffic_policy: String,
        pub traffic_distribution: String,
        pub load_balancer_ip as "loadBalancerIP": String,
        pub ip_families: Vec<String>,
        /// From its status: where a load balancer made it reachable.
        pub ingress: Vec<LoadBalancerIngress>,
    }

    /// A port of a Service.
    pub struct ServicePort {
        pub name: String,
        pub protocol: String,
        pub app_protocol: String,
        pub port: u32,
        pub target_port: Option<IntOrString>,
        pub node_port: u32,
    }

    /// Where a load balancer made a Service reachable.
    pub struct LoadBalancerIngress {
        pub ip: String,
        pub hostname: String,
    }

    /// Some of the endpoints of a Service.
    pub struct EndpointSlice {
        pub address_type: String,
        pub endpoints: Vec<SliceEndpoint>,
        pub ports: Vec<EndpointPort>,
    }

    /// One endpoint.
    pub struct SliceEndpoint {
        pub addresses: Vec<String>,
        pub conditions: EndpointConditions,
        pub hostname: String,
        pub node_name: String,
        pub zone: String,
        pub target_ref: Option<ObjectReference>,
    }

    /// State of an endpoint; absent means unknown, which Kubernetes says to take for ready.
    pub struct EndpointConditions {
        pub ready: Option<bool>,
        pub serving: Option<bool>,
        pub terminating: Option<bool>,
    }

    /// An object that is referred to.
    pub struct ObjectReference {
        pub kind: String,
        pub namespace: String,
        pub name: String,
        pub uid: String,
    }

    /// A port of all endpoints of a slice.
    pub struct EndpointPort {
        pub name: String,
        pub port: Option<u32>,
        pub protocol: String,
        pub app_protocol: String,
    }

    /// A Pod.
    pub struct Pod {
        pub node_name: String,
        pub service_account_name: String,
        pub host_network: bool,
        pub hostname: String,
        pub subdomain: String,
        pub containers: Vec<Container>,
        pub init_containers: Vec<Container>,
        /// From its status.
        pub phase: String,
        /// From its status; the first one is the pod's main address.
        pub ips: Vec<String>,
        /// From its status: the condition Ready.
        pub ready: bool,
        /// From its status; the node's address.
        pub host_ip as "hostIP": String,
    }

    /// A container of a Pod.
    pub struct Container {
        pub name: String,
        pub restart_policy: String,
        pub ports: Vec<ContainerPort>,
    }

    /// A port of a container.
    pub struct ContainerPort {
        pub name: String,
        pub container_port: u32,
        pub protocol: String,
    }

    /// A Node; its place is in its labels.
    pub struct Node {
        pub pod_cidrs as "podCIDRs": Vec<String>,
        pub addresses: Vec<NodeAddress>,
    }

    /// An address of a Node.
    pub struct NodeAddress {
        pub r#type: String,
        pub address: String,
    }

    /// A Namespace; what matters are its labels.
    pub struct Namespace {
        /// From its status: Active or Terminating.
        pub phase: String,
    }

    /// A Secret.
    pub struct Secret {
        pub r#type: String,
        pub data: BTreeMap<String, Bytes>,
    }

    /// A ConfigMap.
    pub struct ConfigMap {
        pub data: BTreeMap<String, String>,
        pub binary_data: BTreeMap<String, Bytes>,
    }

    /// An Ingress: hosts and paths of HTTP, and the Services they lead to.
    pub struct Ingress {
        pub ingress_class_name: String,
        pub default_backend: Option<IngressBackend>,
        pub rules: Vec<IngressRule>,
        pub tls: Vec<IngressTls>,
    }

    /// Paths of one host.
    pub struct IngressRule {
        pub host: String,
        pub http: Option<IngressPaths>,
    }

    /// All paths of a host.
    pub struct IngressPaths {
        pub paths: Vec<IngressPath>,
    }

    /// One path.
    pub struct IngressPath {
        pub path: String,
        pub path_type: String,
        pub backend: Option<IngressBackend>,
    }

    /// Where requests go.
    pub struct IngressBackend {
        pub service: Option<IngressService>,
    }

    /// A Service and one of its ports.
    pub struct IngressService {
        pub name: String,
        pub port: Option<IngressPort>,
    }

    /// A port by number or by name.
    pub struct IngressPort {
        pub number: u32,
        pub name: String,
    }

    /// A Secret with the certificate of some hosts.
    pub struct IngressTls {
        pub hosts: Vec<String>,
        pub secret_name: String,
    }

    /// An IngressClass: who serves Ingresses of its name.
    pub struct IngressClass {
        pub controller: String,
    }

    /// A ServiceAccount.
    pub struct ServiceAccount {
        pub image_pull_secrets: Vec<LocalReference>,
        pub secrets: Vec<LocalReference>,
    }

    /// A name in the same namespace.
    pub struct LocalReference {
        pub name: String,
    }

    /// Objects by their labels, as Kubernetes has it.
    pub struct LabelSelector {
        pub match_labels: BTreeMap<String, String>,
        pub match_expressions: Vec<LabelExpression>,
    }

    /// A condition on a label.
    pub struct LabelExpression {
        pub key: String,
        /// In, NotIn, Exists or DoesNotExist.
        pub operator: String,
        pub values: Vec<String>,
    }

    /// The statuses of all kinds at once: only the fields that are used.
    pub struct RawStatus {
        pub load_balancer: RawLoadBalancer,
        pub phase: String,
        pub pod_ip as "podIP": String,
        pub pod_ips as "podIPs": Vec<RawPodIp>,
        pub host_ip as "hostIP": String,
        pub conditions: Vec<RawCondition>,
        pub addresses: Vec<NodeAddress>,
    }

    /// A load balancer's status.
    pub struct RawLoadBalancer {
        pub ingress: Vec<LoadBalancerIngress>,
    }

    /// An address of a pod.
    pub struct RawPodIp {
        pub ip: String,
    }

    /// A condition of a status.
    pub struct RawCondition {
        pub r#type: String,
        pub status: String,
    }
}

/// Reads the part of an object that stands under `name`.
fn part<T: Wire>(value: &Value, name: &str, reader: &mut Reader) -> T {
    reader.enter_field(name);
    let read = match value.get(name) {
        None | Some(Value::Null) => T::default(),
        Some(part) => T::read(part, reader),
    };
    reader.leave();
    read
}

fn status(value: &Value, reader: &mut Reader) -> RawStatus {
    part(value, "status", reader)
}

impl FromObject for Service {
    fn from_object(value: &Value, reader: &mut Reader) -> Self {
        let mut service: Self = part(value, "spec", reader);
        service.ingress = status(value, reader).load_balancer.ingress;
        service
    }
}

impl FromObject for Pod {
    fn from_object(value: &Value, reader: &mut Reader) -> Self {
        let mut pod: Self = part(value, "spec", reader);
        let status = status(value, reader);
        pod.phase = status.phase;
        pod.host_ip = status.host_ip;
        pod.ready =
            status.conditions.iter().any(|one| one.r#type == "Ready" && one.status == "True");
        pod.ips = status.pod_ips.into_iter().map(|ip| ip.ip).collect();
        if pod.ips.is_empty() && !status.pod_ip.is_empty() {
            pod.ips.push(status.pod_ip);
        }
        pod
    }
}

impl FromObject for Node {
    fn from_object(value: &Value, reader: &mut Reader) -> Self {
        let mut node: Self = part(value, "spec", reader);
        node.addresses = status(value, reader).addresses;
        node
    }
}

impl FromObject for Ingress {
    fn from_object(value: &Value, reader: &mut Reader) -> Self {
        part(value, "spec", reader)
    }
}

impl FromObject for IngressClass {
    fn from_object(value: &Value, reader: &mut Reader) -> Self {
        part(value, "spec", reader)
    }
}

impl FromObject for Namespace {
    fn from_object(value: &Value, reader: &mut Reader) -> Self {
        Self { phase: status(value, reader).phase }
    }
}

/// Kinds whose fields stand at the top of the object.
macro_rules! flat {
    ($($kind:ident)+) => { $(
        impl FromObject for $kind {
            fn from_object(value: &Value, reader: &mut Reader) -> Self {
                Self::read(value, reader)
            }
        }
    )+ };
}

flat! { EndpointSlice Secret ConfigMap ServiceAccount }

impl Pod {
    /// The pod's main address.
    #[must_use]
    pub fn ip(&self) -> Option<&str> {
        self.ips.first().map(String::as_str)
    }
}

impl LabelSelector {
    /// An unknown operator matches nothing.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let holds = |condition: &LabelExpression| {
            let value = labels.get(&condition.key);
            match condition.operator.as_str() {
                "In" => value.is_some_and(|value| condition.values.contains(value)),
                "NotIn" => value.is_none_or(|value| !condition.values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        };
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(holds)
    }
}
