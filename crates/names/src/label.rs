//! Labels that mean something to the mesh.

// On namespaces and pods: injection and revisions.
pub const INJECTION: &str = "istio-injection";
pub const REVISION: &str = "istio.io/rev";
pub const SIDECAR_INJECT: &str = "sidecar.istio.io/inject";
pub const TAG: &str = "istio.io/tag";

// Ambient mode.
pub const DATAPLANE_MODE: &str = "istio.io/dataplane-mode";
pub const USE_WAYPOINT: &str = "istio.io/use-waypoint";
pub const USE_WAYPOINT_NAMESPACE: &str = "istio.io/use-waypoint-namespace";
pub const INGRESS_USE_WAYPOINT: &str = "istio.io/ingress-use-waypoint";
pub const WAYPOINT_FOR: &str = "istio.io/waypoint-for";
pub const SERVICE_SCOPE: &str = "istio.io/global";

// On pods, written by injection.
pub const TLS_MODE: &str = "security.istio.io/tlsMode";
pub const CANONICAL_NAME: &str = "service.istio.io/canonical-name";
pub const CANONICAL_REVISION: &str = "service.istio.io/canonical-revision";
pub const WORKLOAD_NAME: &str = "service.istio.io/workload-name";
pub const TUNNEL: &str = "networking.istio.io/tunnel";

// Where something is.
pub const NETWORK: &str = "topology.istio.io/network";
pub const CLUSTER: &str = "topology.istio.io/cluster";
pub const SUBZONE: &str = "topology.istio.io/subzone";
pub const LOCALITY: &str = "istio-locality";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOSTNAME: &str = "kubernetes.io/hostname";

// Gateways.
pub const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";
pub const GATEWAY_CLASS: &str = "gateway.networking.k8s.io/gateway-class-name";
pub const GATEWAY_MANAGED: &str = "gateway.istio.io/managed";

// From which names of workloads are taken.
pub const APP: &str = "app";
pub const VERSION: &str = "version";
pub const K8S_NAME: &str = "app.kubernetes.io/name";
pub const K8S_VERSION: &str = "app.kubernetes.io/version";
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
