//! The ports that the mesh's programs use among themselves.

/// Envoy's administration, loopback only.
pub const ENVOY_ADMIN: u16 = 15000;
/// All outbound traffic of a pod is sent here.
pub const OUTBOUND: u16 = 15001;
/// istioctl's way into a proxy's debug data.
pub const AGENT_DEBUG: u16 = 15004;
/// All inbound traffic of a pod is sent here.
pub const INBOUND: u16 = 15006;
/// HBONE: mTLS tunnels of ambient mode.
pub const HBONE: u16 = 15008;
/// HBONE that ztunnel passes on without its own TLS.
pub const HBONE_PLAINTEXT: u16 = 15009;
/// Discovery without TLS.
pub const XDS_PLAINTEXT: u16 = 15010;
/// Discovery and certificates, with TLS.
pub const XDS: u16 = 15012;
/// The control plane's metrics.
pub const CONTROL_METRICS: u16 = 15014;
/// East-west gateways: mTLS by server name.
pub const MULTI_NETWORK: u16 = 15443;
/// Injection and validation, as the control plane serves them.
pub const WEBHOOK: u16 = 15017;
/// The agent's own health and the merged metrics of proxy and application.
pub const AGENT_STATUS: u16 = 15020;
/// Readiness of the proxy.
pub const HEALTH: u16 = 15021;
/// The agent's own xDS debug interface.
pub const AGENT_XDS: u16 = 15023;
/// DNS of the proxy.
pub const DNS: u16 = 15053;
/// Envoy's metrics.
pub const PROXY_METRICS: u16 = 15090;
/// The control plane's readiness and debug pages.
pub const CONTROL_HTTP: u16 = 8080;
/// ControlZ.
pub const CONTROL_INTROSPECTION: u16 = 9876;
/// ztunnel's readiness.
pub const ZTUNNEL_READY: u16 = 15021;
/// ztunnel's metrics.
pub const ZTUNNEL_METRICS: u16 = 15020;
