//! Annotations that mean something to the mesh.

// Injection.
pub const INJECT: &str = "sidecar.istio.io/inject";
pub const INJECT_TEMPLATES: &str = "inject.istio.io/templates";
pub const STATUS: &str = "sidecar.istio.io/status";
pub const PROXY_CONFIG: &str = "proxy.istio.io/config";
pub const PROXY_OVERRIDES: &str = "proxy.istio.io/overrides";
pub const PROXY_IMAGE: &str = "sidecar.istio.io/proxyImage";
pub const PROXY_IMAGE_TYPE: &str = "sidecar.istio.io/proxyImageType";
pub const PROXY_CPU: &str = "sidecar.istio.io/proxyCPU";
pub const PROXY_CPU_LIMIT: &str = "sidecar.istio.io/proxyCPULimit";
pub const PROXY_MEMORY: &str = "sidecar.istio.io/proxyMemory";
pub const PROXY_MEMORY_LIMIT: &str = "sidecar.istio.io/proxyMemoryLimit";
pub const REWRITE_APP_PROBES: &str = "sidecar.istio.io/rewriteAppHTTPProbers";
pub const DISCOVERY_ADDRESS: &str = "sidecar.istio.io/discoveryAddress";
pub const INTERCEPTION_MODE: &str = "sidecar.istio.io/interceptionMode";
pub const LOG_LEVEL: &str = "sidecar.istio.io/logLevel";
pub const COMPONENT_LOG_LEVEL: &str = "sidecar.istio.io/componentLogLevel";
pub const AGENT_LOG_LEVEL: &str = "sidecar.istio.io/agentLogLevel";
pub const STATUS_PORT: &str = "status.sidecar.istio.io/port";
pub const READINESS_INITIAL_DELAY: &str = "readiness.status.sidecar.istio.io/initialDelaySeconds";
pub const READINESS_PERIOD: &str = "readiness.status.sidecar.istio.io/periodSeconds";
pub const READINESS_FAILURES: &str = "readiness.status.sidecar.istio.io/failureThreshold";
pub const NATIVE_SIDECAR: &str = "sidecar.istio.io/nativeSidecar";

// Redirection.
pub const INCLUDE_OUTBOUND_RANGES: &str = "traffic.sidecar.istio.io/includeOutboundIPRanges";
pub const EXCLUDE_OUTBOUND_RANGES: &str = "traffic.sidecar.istio.io/excludeOutboundIPRanges";
pub const INCLUDE_OUTBOUND_PORTS: &str = "traffic.sidecar.istio.io/includeOutboundPorts";
pub const EXCLUDE_OUTBOUND_PORTS: &str = "traffic.sidecar.istio.io/excludeOutboundPorts";
pub const INCLUDE_INBOUND_PORTS: &str = "traffic.sidecar.istio.io/includeInboundPorts";
pub const EXCLUDE_INBOUND_PORTS: &str = "traffic.sidecar.istio.io/excludeInboundPorts";
pub const EXCLUDE_INTERFACES: &str = "traffic.sidecar.istio.io/excludeInterfaces";
pub const KUBEVIRT_INTERFACES: &str = "traffic.sidecar.istio.io/kubevirtInterfaces";
pub const AMBIENT_REDIRECTION: &str = "ambient.istio.io/redirection";

// Services and gateways.
pub const EXPORT_TO: &str = "networking.istio.io/exportTo";
pub const TRAFFIC_DISTRIBUTION: &str = "networking.istio.io/traffic-distribution";
pub const CANONICAL_ACCOUNTS: &str = "alpha.istio.io/canonical-serviceaccounts";
pub const KUBERNETES_ACCOUNTS: &str = "alpha.istio.io/kubernetes-serviceaccounts";
pub const GATEWAY_SERVICE_TYPE: &str = "networking.istio.io/service-type";

// Telemetry and the rest.
pub const PROMETHEUS_MERGE: &str = "prometheus.istio.io/merge-metrics";
pub const PROMETHEUS_PATH: &str = "prometheus.io/path";
pub const PROMETHEUS_PORT: &str = "prometheus.io/port";
pub const PROMETHEUS_SCRAPE: &str = "prometheus.io/scrape";
pub const AUTHZ_DRY_RUN: &str = "istio.io/dry-run";
