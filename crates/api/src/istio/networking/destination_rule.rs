//! `DestinationRule`: how to talk to a service once it is chosen.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PortSelector;
use crate::istio::WorkloadSelector;
use crate::wire::{choice, message, oneof};

message! {
    /// Policies for traffic to a service after routing has happened.
    pub struct DestinationRule {
        /// Host of the service.
        pub host: String => required(),
        /// Policies for all of its ports and subsets.
        pub traffic_policy: Option<TrafficPolicy>,
        /// Named parts of the service, such as versions.
        pub subsets: Vec<Subset>,
        /// Namespaces that the rule is visible in.
        pub export_to: Vec<String>,
        /// Client workloads that the rule is for.
        pub workload_selector: Option<WorkloadSelector>,
    }

    /// Endpoints of a service by labels.
    pub struct Subset {
        /// Name that routes refer to.
        pub name: String => required(),
        /// Labels that the endpoints must have.
        pub labels: BTreeMap<String, String>,
        /// Policies of the subset; they replace those of the rule, field by field.
        pub traffic_policy: Option<TrafficPolicy>,
    }

    /// Policies for traffic to a destination.
    pub struct TrafficPolicy {
        /// How an endpoint is picked.
        pub load_balancer: Option<LoadBalancerSettings>,
        /// Limits of connections and requests.
        pub connection_pool: Option<ConnectionPoolSettings>,
        /// When an endpoint is left out for a while.
        pub outlier_detection: Option<OutlierDetection>,
        /// TLS towards the destination.
        pub tls: Option<ClientTlsSettings>,
        /// Policies of single ports; they replace the whole policy for that port.
        pub port_level_settings: Vec<PortTrafficPolicy> => max_items(4096),
        /// Tunnels TCP through another host.
        pub tunnel: Option<TunnelSettings>,
        /// Starts each connection with the PROXY protocol.
        pub proxy_protocol: Option<ProxyProtocol>,
        /// Limits retries relative to the load.
        pub retry_budget: Option<RetryBudget>,
    }

    /// Policies of one port.
    pub struct PortTrafficPolicy {
        /// The port.
        pub port: Option<PortSelector>,
        /// How an endpoint is picked.
        pub load_balancer: Option<LoadBalancerSettings>,
        /// Limits of connections and requests.
        pub connection_pool: Option<ConnectionPoolSettings>,
        /// When an endpoint is left out for a while.
        pub outlier_detection: Option<OutlierDetection>,
        /// TLS towards the destination.
        pub tls: Option<ClientTlsSettings>,
    }

    /// Tunnel by HTTP CONNECT or POST.
    pub struct TunnelSettings {
        /// CONNECT or POST.
        pub protocol: String,
        /// Host to reach through the tunnel.
        pub target_host: String => required(),
        /// Port to reach through the tunnel.
        pub target_port: u32 => required(),
    }

    /// The PROXY protocol.
    pub struct ProxyProtocol {
        /// Version that is sent.
        pub version: ProxyProtocolVersion,
    }

    /// Retries as a share of what is under way.
    pub struct RetryBudget {
        /// Share of active requests that may be retries.
        pub percent: Option<f64> => min(0).max(100),
        /// Retries that are always allowed.
        pub min_retry_concurrency: u32,
        /// Period over which requests are counted.
        pub budget_interval: Option<Duration>,
    }

    /// How an endpoint is picked.
    pub struct LoadBalancerSettings {
        /// The algorithm.
        pub policy: LbPolicy,
        /// Preference of near endpoints.
        pub locality_lb_setting: Option<LocalityLbSetting>,
        /// Preference of the own zone, by Envoy's own reckoning.
        pub zone_aware_lb_setting: Option<ZoneAwareLbSetting>,
        /// Older form of `warmup`.
        pub warmup_duration_secs: Option<Duration> => positive(),
        /// New endpoints get traffic gradually.
        pub warmup: Option<Warmup>,
    }

    /// New endpoints get traffic gradually.
    pub struct Warmup {
        /// How long it lasts.
        pub duration: Option<Duration> => required().positive(),
        /// Share of traffic at the beginning.
        pub minimum_percent: Option<f64> => min(0).max(100),
        /// Above 1 slower at first, below 1 faster.
        pub aggression: Option<f64> => min(0),
    }

    /// By what the endpoints report of their load.
    pub struct BackendUtilization {
        /// No weighting before an endpoint has reported that long.
        pub weight_stabilization_period: Option<Duration>,
        /// Weights are dropped when no report came for that long.
        pub weight_expiration_period: Option<Duration>,
        /// How often weights are computed.
        pub weight_update_period: Option<Duration>,
        /// How much errors count.
        pub error_utilization_penalty_percent: u32,
        /// Names of the reported metrics that count.
        pub metric_names_for_computing_utilization: Vec<String>,
    }

    /// The same client goes to the same endpoint.
    pub struct ConsistentHash {
        /// What is hashed.
        pub key: HashKey,
        /// How endpoints are arranged.
        pub algorithm: HashAlgorithm,
        /// Older form of `ringHash.minimumRingSize`.
        pub minimum_ring_size: u64,
    }

    /// Ring of hashes.
    pub struct RingHash {
        /// Least number of places on the ring.
        pub minimum_ring_size: u64,
    }

    /// Google's Maglev table.
    pub struct MagLev {
        /// Size of the table.
        pub table_size: u64,
    }

    /// A cookie that keeps a client at its endpoint; made if the client has none.
    pub struct HttpCookie {
        /// Name of the cookie.
        pub name: String => required(),
        /// Path of the cookie.
        pub path: String,
        /// How long it lives; none is made if left out.
        pub ttl: Option<Duration>,
        /// Further attributes of the cookie.
        pub attributes: Vec<CookieAttribute>,
    }

    /// An attribute of a cookie.
    pub struct CookieAttribute {
        /// Name of the attribute.
        pub name: String => required(),
        /// Its value.
        pub value: String,
    }

    /// Limits of connections and requests.
    pub struct ConnectionPoolSettings {
        /// For TCP and HTTP.
        pub tcp: Option<TcpSettings>,
        /// For HTTP.
        pub http: Option<HttpSettings>,
    }

    /// Limits of connections.
    pub struct TcpSettings {
        /// Most connections to the destination.
        pub max_connections: i32,
        /// How long connecting may take.
        pub connect_timeout: Option<Duration> => positive(),
        /// Keepalive of the sockets.
        pub tcp_keepalive: Option<TcpKeepalive>,
        /// How long a connection may live.
        pub max_connection_duration: Option<Duration> => positive(),
        /// How long a connection may be silent; 0s is for ever.
        pub idle_timeout: Option<Duration>,
    }

    /// Keepalive of a socket.
    pub struct TcpKeepalive {
        /// Probes without answer before the connection is dead.
        pub probes: u32,
        /// Silence before the first probe.
        pub time: Option<Duration> => positive(),
        /// Time between probes.
        pub interval: Option<Duration> => positive(),
    }

    /// Limits of requests.
    pub struct HttpSettings {
        /// Most requests that wait for a connection.
        pub http1_max_pending_requests: i32,
        /// Most requests under way.
        pub http2_max_requests: i32,
        /// Most requests on one connection; 0 is no limit, 1 is no keepalive.
        pub max_requests_per_connection: i32,
        /// Most retries under way.
        pub max_retries: i32,
        /// How long a connection may be without requests.
        pub idle_timeout: Option<Duration> => positive(),
        /// Whether HTTP/1.1 becomes HTTP/2.
        pub h2_upgrade_policy: H2UpgradePolicy,
        /// Keeps the protocol of the client.
        pub use_client_protocol: bool,
        /// Most streams on one HTTP/2 connection.
        pub max_concurrent_streams: i32,
        /// Pings of HTTP/2.
        pub http2_keep_alive: Option<Http2KeepAlive>,
    }

    /// Pings of HTTP/2.
    pub struct Http2KeepAlive {
        /// Time between pings.
        pub interval: Option<Duration> => positive(),
        /// How long to wait for the answer.
        pub timeout: Option<Duration> => positive(),
    }

    /// When an endpoint is left out for a while.
    pub struct OutlierDetection {
        /// Older form of `consecutive5xxErrors`, for gateway errors.
        pub consecutive_errors: i32,
        /// Tells errors of the own side from those of the endpoint.
        pub split_external_local_origin_errors: bool,
        /// Failures of the own side in a row.
        pub consecutive_local_origin_failures: Option<u32>,
        /// Gateway errors (502, 503, 504) in a row.
        pub consecutive_gateway_errors: Option<u32>,
        /// Server errors in a row.
        pub consecutive_5xx_errors: Option<u32>,
        /// Time between looks.
        pub interval: Option<Duration> => positive(),
        /// Least time out of the pool.
        pub base_ejection_time: Option<Duration> => positive(),
        /// Most endpoints that may be out.
        pub max_ejection_percent: i32,
        /// Below this share of healthy endpoints none is left out.
        pub min_health_percent: i32,
        /// HTTP codes that count as errors.
        pub outlier_detection_http_error_codes: Vec<u32> => each(|code| code.min(100).max(599)),
    }

    /// TLS towards a destination.
    pub struct ClientTlsSettings {
        /// Which kind of TLS.
        pub mode: ClientTlsMode,
        /// File with the client's certificate.
        pub client_certificate: String,
        /// File with the client's key.
        pub private_key: String,
        /// File with the certificates of authorities.
        pub ca_certificates: String,
        /// Secret with keys and certificates.
        pub credential_name: String,
        /// Names that the server's certificate may have.
        pub subject_alt_names: Vec<String>,
        /// Server name to ask for.
        pub sni: String,
        /// Does not verify the server.
        pub insecure_skip_verify: Option<bool>,
        /// File with revoked certificates.
        pub ca_crl: String,
    }

    /// Preference of near endpoints.
    pub struct LocalityLbSetting {
        /// Shares of traffic by place.
        pub distribute: Vec<Distribute>,
        /// Where to go when a region fails.
        pub failover: Vec<Failover>,
        /// Labels that make an endpoint near, most important first.
        pub failover_priority: Vec<String>,
        /// Turns it on or off for this destination.
        pub enabled: Option<bool>,
    }

    /// Shares of traffic from one place.
    pub struct Distribute {
        /// Place of the client: region, region/zone or region/zone/subzone.
        pub from: String,
        /// Percent by place of the endpoint.
        pub to: BTreeMap<String, u32>,
    }

    /// Where to go when a region fails.
    pub struct Failover {
        /// The region that fails.
        pub from: String,
        /// The region that takes over.
        pub to: String,
    }

    /// Preference of the own zone, by Envoy's own reckoning.
    pub struct ZoneAwareLbSetting {
        /// Where to go when a region fails.
        pub failover: Vec<Failover>,
        /// Labels that make an endpoint near, most important first.
        pub failover_priority: Vec<String>,
        /// Turns it on or off for this destination.
        pub enabled: Option<bool>,
        /// Fewer endpoints than this: no preference.
        pub min_cluster_size: Option<u32> => min(1),
    }
}

oneof! {
    /// The algorithm that picks an endpoint.
    pub enum LbPolicy {
        /// One of the usual algorithms.
        Simple(SimpleLb) = simple,
        /// The same client goes to the same endpoint.
        ConsistentHash(ConsistentHash) = consistent_hash,
        /// By what the endpoints report of their load.
        BackendUtilization(BackendUtilization) = backend_utilization,
    }

    /// What consistent hashing looks at.
    pub enum HashKey {
        /// A header of the request.
        HttpHeaderName(String) = http_header_name,
        /// A cookie.
        HttpCookie(HttpCookie) = http_cookie,
        /// The client's address.
        UseSourceIp(bool) = use_source_ip,
        /// A parameter of the query.
        HttpQueryParameterName(String) = http_query_parameter_name,
    }

    /// How endpoints are arranged for hashing.
    pub enum HashAlgorithm {
        /// Ring of hashes.
        RingHash(RingHash) = ring_hash,
        /// Google's Maglev table.
        MagLev(MagLev) = maglev,
    }
}

choice! {
    /// The usual algorithms.
    pub enum SimpleLb {
        Unspecified = "UNSPECIFIED",
        LeastConn = "LEAST_CONN",
        Random = "RANDOM",
        Passthrough = "PASSTHROUGH",
        RoundRobin = "ROUND_ROBIN",
        LeastRequest = "LEAST_REQUEST",
    }

    /// Whether HTTP/1.1 becomes HTTP/2.
    pub enum H2UpgradePolicy {
        Default = "DEFAULT",
        DoNotUpgrade = "DO_NOT_UPGRADE",
        Upgrade = "UPGRADE",
    }

    /// Kind of TLS towards a destination.
    pub enum ClientTlsMode {
        Disable = "DISABLE",
        Simple = "SIMPLE",
        Mutual = "MUTUAL",
        IstioMutual = "ISTIO_MUTUAL",
    }

    /// Version of the PROXY protocol.
    pub enum ProxyProtocolVersion {
        V1 = "V1",
        V2 = "V2",
    }
}
