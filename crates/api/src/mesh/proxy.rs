//! `ProxyConfig`: settings of proxies, for all in the mesh config, for one in an annotation.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::istio::networking::{ClientTlsSettings, ProxyImage, ReadinessProbe, TcpKeepalive};
use crate::wire::{choice, message, oneof};

message! {
    /// Settings of a proxy.
    pub struct ProxyConfig {
        /// Directory of generated files.
        pub config_path: String = "./etc/istio/proxy".to_owned(),
        /// The proxy's program.
        pub binary_path: String = "/usr/local/bin/envoy".to_owned(),
        /// Name of the service in traces.
        pub cluster_name: ProxyClusterName
            = ProxyClusterName::ServiceCluster("istio-proxy".to_owned()),
        /// How long connections drain when a listener goes.
        pub drain_duration: Option<Duration> = Some(Duration::from_secs(45)),
        /// Not used any more.
        pub parent_shutdown_duration: Option<Duration>,
        /// Address of the control plane.
        pub discovery_address: String = "istiod.istio-system.svc:15012".to_owned(),
        /// Not used any more.
        pub discovery_refresh_delay: Option<Duration>,
        /// Older form of `tracing.zipkin.address`.
        pub zipkin_address: String,
        /// A statsd server.
        pub statsd_udp_address: String,
        /// Older form of `envoyMetricsService`.
        pub envoy_metrics_service_address: String,
        /// Port of the proxy's admin page.
        pub proxy_admin_port: i32 = 15000,
        /// Not used any more.
        pub availability_zone: String,
        /// How the proxy proves who it is to the control plane.
        pub control_plane_auth_policy: AuthenticationPolicy = AuthenticationPolicy::MutualTls,
        /// A bootstrap file to use instead of the generated one.
        pub custom_config_file: String,
        /// Longest name of a statistic.
        pub stat_name_length: i32 = 189,
        /// Worker threads; 0 is one a core; by the CPU limit if left out.
        pub concurrency: Option<i32>,
        /// A template for the bootstrap file.
        pub proxy_bootstrap_template_path: String,
        /// How inbound traffic is redirected.
        pub interception_mode: InterceptionMode,
        /// Traces.
        pub tracing: Option<ProxyTracing>,
        /// Not used any more.
        pub sds: Option<Sds>,
        /// Where access logs go.
        pub envoy_access_log_service: Option<RemoteService>,
        /// Where metrics go.
        pub envoy_metrics_service: Option<RemoteService>,
        /// Environment of the agent; ISTIO_META_… becomes node metadata.
        pub proxy_metadata: BTreeMap<String, String>,
        /// Envoy's runtime values.
        pub runtime_values: BTreeMap<String, String>,
        /// Port of the agent's health and metrics.
        pub status_port: i32 = 15020,
        /// Further dimensions of metrics.
        pub extra_stat_tags: Vec<String>,
        /// What stands before a gateway.
        pub gateway_topology: Option<Topology>,
        /// How long connections drain at the end.
        pub termination_drain_duration: Option<Duration> = Some(Duration::from_secs(5)),
        /// Name of the mesh.
        pub mesh_id: String,
        /// How the application is known to be ready, on virtual machines.
        pub readiness_probe: Option<ReadinessProbe>,
        /// Further statistics that are made.
        pub proxy_stats_matcher: Option<ProxyStatsMatcher>,
        /// The application starts after the proxy.
        pub hold_application_until_proxy_starts: Option<bool>,
        /// Further authorities.
        pub ca_certificates_pem: Vec<String>,
        /// Image of the proxy.
        pub image: Option<ProxyImage>,
        /// Hardware that does TLS.
        pub private_key_provider: Option<PrivateKeyProvider>,
        /// Headers that the proxy adds.
        pub proxy_headers: Option<ProxyHeaders>,
        /// How often access logs are written out.
        pub file_flush_interval: Option<Duration>,
        /// How much access log is held before it is written out.
        pub file_flush_min_size_kb: Option<u32>,
        /// Whether statistics are compressed.
        pub stats_compression: Option<bool>,
        /// Limits of connections to the proxy.
        pub connection_settings: Option<ConnectionSettings>,
    }

    /// Limits of connections to the proxy.
    pub struct ConnectionSettings {
        /// Most connections of clients at a time.
        pub global_downstream_connection_limit: Option<u32>,
    }

    /// A service that proxies report to.
    pub struct RemoteService {
        /// Its address.
        pub address: String,
        /// TLS towards it.
        pub tls_settings: Option<ClientTlsSettings>,
        /// Keepalive of the socket.
        pub tcp_keepalive: Option<TcpKeepalive>,
    }

    /// Further statistics that are made.
    pub struct ProxyStatsMatcher {
        /// By beginning.
        pub inclusion_prefixes: Vec<String>,
        /// By end.
        pub inclusion_suffixes: Vec<String>,
        /// By regular expression.
        pub inclusion_regexps: Vec<String>,
    }

    /// Not used any more.
    pub struct Sds {
        /// Turned on.
        pub enabled: bool,
        /// File with the token.
        pub k8s_sa_jwt_path: String,
    }

    /// What stands before a gateway.
    pub struct Topology {
        /// Proxies that are trusted.
        pub num_trusted_proxies: u32,
        /// What happens to the client's certificate.
        pub forward_client_cert_details: ForwardClientCertDetails,
        /// Expects the PROXY protocol.
        pub proxy_protocol: Option<ProxyProtocolConfiguration>,
    }

    /// Has no settings.
    pub struct ProxyProtocolConfiguration {}

    /// Traces.
    pub struct ProxyTracing {
        /// Where they go.
        pub tracer: Tracer,
        /// Tags of spans.
        pub custom_tags: BTreeMap<String, ProxyCustomTag>,
        /// Longest path in a span.
        pub max_path_tag_length: u32,
        /// Percent of requests that start a trace.
        pub sampling: f64,
        /// TLS towards the collector.
        pub tls_settings: Option<ClientTlsSettings>,
        /// Istio's own tags are added to spans.
        pub enable_istio_tags: Option<bool>,
    }

    /// Zipkin.
    pub struct ZipkinTracer {
        /// Its address.
        pub address: String,
    }

    /// Lightstep.
    pub struct LightstepTracer {
        /// Its address.
        pub address: String,
        /// Token for it.
        pub access_token: String,
    }

    /// Datadog.
    pub struct DatadogTracer {
        /// Its address.
        pub address: String,
    }

    /// Stackdriver.
    pub struct StackdriverTracer {
        /// Prints traces.
        pub debug: bool,
        /// Most attributes of a span.
        pub max_number_of_attributes: Option<i64>,
        /// Most annotations of a span.
        pub max_number_of_annotations: Option<i64>,
        /// Most message events of a span.
        pub max_number_of_message_events: Option<i64>,
    }

    /// An OpenCensus agent.
    pub struct OpenCensusAgentTracer {
        /// Its address.
        pub address: String,
        /// Trace headers that are used.
        pub context: Vec<TraceContext>,
    }

    /// A fixed text.
    pub struct ProxyLiteral {
        /// The text.
        pub value: String,
    }

    /// A variable or a header.
    pub struct ProxyNamed {
        /// Its name.
        pub name: String,
        /// Used if it is not there.
        pub default_value: String,
    }

    /// Hardware that does TLS.
    pub struct KeyAccelerator {
        /// How long to collect work.
        pub poll_delay: Option<Duration>,
        /// Goes on without the hardware if it is not there.
        pub fallback: Option<bool>,
    }

    /// Headers that the proxy adds.
    pub struct ProxyHeaders {
        /// What happens to the client's certificate.
        pub forwarded_client_cert: ForwardClientCertDetails,
        /// What of the certificate is passed on.
        pub set_current_client_cert_details: Option<ClientCertDetails>,
        /// `x-request-id`.
        pub request_id: Option<HeaderSwitch>,
        /// `server`.
        pub server: Option<ServerHeader>,
        /// `x-envoy-attempt-count`.
        pub attempt_count: Option<HeaderSwitch>,
        /// Envoy's own headers.
        pub envoy_debug_headers: Option<HeaderSwitch>,
        /// Headers that proxies tell each other about themselves.
        pub metadata_exchange_headers: Option<MetadataExchangeHeaders>,
        /// Keeps upper and lower case of HTTP/1.1 header names.
        pub preserve_http1_header_case: Option<bool>,
        /// `x-forwarded-host`.
        pub x_forwarded_host: Option<HeaderEnabled>,
        /// `x-forwarded-port`.
        pub x_forwarded_port: Option<HeaderEnabled>,
    }

    /// What of a certificate is passed on.
    pub struct ClientCertDetails {
        /// Its subject.
        pub subject: Option<bool>,
        /// All of it.
        pub cert: Option<bool>,
        /// Its chain.
        pub chain: Option<bool>,
        /// Its DNS names.
        pub dns: Option<bool>,
        /// Its URI.
        pub uri: Option<bool>,
    }

    /// Turns a header off.
    pub struct HeaderSwitch {
        /// Not added.
        pub disabled: Option<bool>,
    }

    /// Turns a header on.
    pub struct HeaderEnabled {
        /// Added.
        pub enabled: Option<bool>,
    }

    /// The header `server`.
    pub struct ServerHeader {
        /// Not added.
        pub disabled: Option<bool>,
        /// Its value.
        pub value: String,
    }

    /// Headers that proxies tell each other about themselves.
    pub struct MetadataExchangeHeaders {
        /// To whom.
        pub mode: MetadataExchangeMode,
    }
}

oneof! {
    /// Name of the service in traces.
    pub enum ProxyClusterName {
        /// This name.
        ServiceCluster(String) = service_cluster,
        /// By rule.
        TracingServiceName(TracingServiceName) = tracing_service_name,
    }

    /// Where traces go.
    pub enum Tracer {
        /// Zipkin.
        Zipkin(ZipkinTracer) = zipkin,
        /// Lightstep.
        Lightstep(LightstepTracer) = lightstep,
        /// Datadog.
        Datadog(DatadogTracer) = datadog,
        /// Stackdriver.
        Stackdriver(StackdriverTracer) = stackdriver,
        /// An OpenCensus agent.
        OpenCensusAgent(OpenCensusAgentTracer) = open_census_agent,
    }

    /// Where the text of a tag comes from.
    pub enum ProxyCustomTag {
        /// A fixed text.
        Literal(ProxyLiteral) = literal,
        /// A variable of the proxy's environment.
        Environment(ProxyNamed) = environment,
        /// A header of the request.
        Header(ProxyNamed) = header,
        /// An Envoy format string.
        Formatter(ProxyLiteral) = formatter,
    }

    /// Hardware that does TLS.
    pub enum PrivateKeyProvider {
        /// Intel's vector instructions.
        CryptoMb(KeyAccelerator) = cryptomb,
        /// Intel's QuickAssist.
        Qat(KeyAccelerator) = qat,
    }
}

choice! {
    /// How a proxy proves who it is; `INHERIT` is 1000 in the proto file and only goes by name here.
    pub enum AuthenticationPolicy {
        None = "NONE",
        MutualTls = "MUTUAL_TLS",
        Inherit = "INHERIT",
    }

    /// Rule for the name of the service in traces.
    pub enum TracingServiceName {
        AppLabelAndNamespace = "APP_LABEL_AND_NAMESPACE",
        CanonicalNameOnly = "CANONICAL_NAME_ONLY",
        CanonicalNameAndNamespace = "CANONICAL_NAME_AND_NAMESPACE",
    }

    /// How inbound traffic is redirected.
    pub enum InterceptionMode {
        Redirect = "REDIRECT",
        Tproxy = "TPROXY",
        None = "NONE",
    }

    /// What happens to the client's certificate.
    pub enum ForwardClientCertDetails {
        Undefined = "UNDEFINED",
        Sanitize = "SANITIZE",
        ForwardOnly = "FORWARD_ONLY",
        AppendForward = "APPEND_FORWARD",
        SanitizeSet = "SANITIZE_SET",
        AlwaysForwardOnly = "ALWAYS_FORWARD_ONLY",
    }

    /// Trace headers.
    pub enum TraceContext {
        Unspecified = "UNSPECIFIED",
        W3cTraceContext = "W3C_TRACE_CONTEXT",
        GrpcBin = "GRPC_BIN",
        CloudTraceContext = "CLOUD_TRACE_CONTEXT",
        B3 = "B3",
    }

    /// To whom proxies tell about themselves.
    pub enum MetadataExchangeMode {
        Undefined = "UNDEFINED",
        InMesh = "IN_MESH",
    }
}
