//! `extensionProviders`: services outside of the mesh's own code that proxies ask or report to.

use std::collections::BTreeMap;
use std::time::Duration;

use super::TraceContext;
use crate::wire::{Struct, choice, message, oneof};

/// The providers that are there without being declared.
pub(super) fn default_providers() -> Vec<ExtensionProvider> {
    let provider = |name: &str, provider| ExtensionProvider { name: name.to_owned(), provider };
    let file = FileAccessLog { path: "/dev/stdout".to_owned(), ..FileAccessLog::default() };
    vec![
        provider("prometheus", Provider::Prometheus(PrometheusMetrics::default())),
        provider("stackdriver", Provider::Stackdriver(Stackdriver::default())),
        provider("envoy", Provider::EnvoyFileAccessLog(file)),
    ]
}

message! {
    /// A provider, by the name that policies refer to.
    pub struct ExtensionProvider {
        /// Its name.
        pub name: String,
        /// What it is.
        pub provider: Provider,
    }

    /// External authorization over HTTP.
    pub struct ExtAuthzHttp {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// How long an answer may take.
        pub timeout: Option<Duration>,
        /// Put before the path.
        pub path_prefix: String,
        /// Lets requests through when it cannot be asked.
        pub fail_open: bool,
        /// The route is chosen anew after the check.
        pub clear_route_cache: Option<bool>,
        /// Status for clients when it cannot be asked.
        pub status_on_error: String,
        /// Older form of `includeRequestHeadersInCheck`.
        pub include_headers_in_check: Vec<String>,
        /// Headers that it is told.
        pub include_request_headers_in_check: Vec<String>,
        /// Fixed headers that it is told.
        pub include_additional_headers_in_check: BTreeMap<String, String>,
        /// The body that it is told.
        pub include_request_body_in_check: Option<ExtAuthzRequestBody>,
        /// Its headers that go on when it allows.
        pub headers_to_upstream_on_allow: Vec<String>,
        /// Its headers that go back when it denies.
        pub headers_to_downstream_on_deny: Vec<String>,
        /// Its headers that go back when it allows.
        pub headers_to_downstream_on_allow: Vec<String>,
    }

    /// External authorization over gRPC.
    pub struct ExtAuthzGrpc {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// How long an answer may take.
        pub timeout: Option<Duration>,
        /// Lets requests through when it cannot be asked.
        pub fail_open: bool,
        /// The route is chosen anew after the check.
        pub clear_route_cache: Option<bool>,
        /// Status for clients when it cannot be asked.
        pub status_on_error: String,
        /// The body that it is told.
        pub include_request_body_in_check: Option<ExtAuthzRequestBody>,
    }

    /// The body that an authorizer is told.
    pub struct ExtAuthzRequestBody {
        /// Most bytes of it.
        pub max_request_bytes: u32,
        /// Sends the beginning of longer ones.
        pub allow_partial_message: bool,
        /// As bytes instead of text.
        pub pack_as_bytes: bool,
    }

    /// Traces in Zipkin's form.
    pub struct Zipkin {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// Longest path in a span.
        pub max_tag_length: u32,
        /// Trace ids of 64 bits.
        pub enable_64bit_trace_id: bool,
        /// Path of its API.
        pub path: String,
        /// Which trace headers are used.
        pub trace_context_option: TraceContextOption,
        /// How long a report may take.
        pub timeout: Option<Duration>,
        /// Headers of a report.
        pub headers: Vec<ProviderHeader>,
    }

    /// Traces to Lightstep.
    pub struct Lightstep {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// Token for it.
        pub access_token: String,
        /// Longest path in a span.
        pub max_tag_length: u32,
    }

    /// Traces to Datadog.
    pub struct Datadog {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// Longest path in a span.
        pub max_tag_length: u32,
    }

    /// Traces to SkyWalking.
    pub struct SkyWalking {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// Token for it.
        pub access_token: String,
    }

    /// Stackdriver.
    pub struct Stackdriver {
        /// Prints traces.
        pub debug: bool,
        /// Most attributes of a span.
        pub max_number_of_attributes: Option<i64>,
        /// Most annotations of a span.
        pub max_number_of_annotations: Option<i64>,
        /// Most message events of a span.
        pub max_number_of_message_events: Option<i64>,
        /// Longest path in a span.
        pub max_tag_length: u32,
        /// Logs.
        pub logging: Option<StackdriverLogging>,
    }

    /// Logs to Stackdriver.
    pub struct StackdriverLogging {
        /// Labels of a log entry.
        pub labels: BTreeMap<String, String>,
    }

    /// Traces to an OpenCensus agent.
    pub struct OpenCensus {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// Trace headers that are used.
        pub context: Vec<TraceContext>,
        /// Longest path in a span.
        pub max_tag_length: u32,
    }

    /// Traces by OpenTelemetry.
    pub struct OpenTelemetry {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// Longest path in a span.
        pub max_tag_length: u32,
        /// Over HTTP instead of gRPC.
        pub http: Option<HttpService>,
        /// Over gRPC.
        pub grpc: Option<GrpcService>,
        /// Where attributes of the resource come from.
        pub resource_detectors: Option<ResourceDetectors>,
        /// Sampling as Dynatrace wishes.
        pub dynatrace_sampler: Option<DynatraceSampler>,
    }

    /// A service over HTTP.
    pub struct HttpService {
        /// Its path.
        pub path: String,
        /// How long a request may take.
        pub timeout: Option<Duration>,
        /// Headers of a request.
        pub headers: Vec<ProviderHeader>,
    }

    /// A service over gRPC.
    pub struct GrpcService {
        /// How long a request may take.
        pub timeout: Option<Duration>,
        /// Metadata of a request.
        pub initial_metadata: Vec<ProviderHeader>,
    }

    /// A header of a request.
    pub struct ProviderHeader {
        /// Its name.
        pub name: String,
        /// Its value.
        pub value: HeaderValue,
    }

    /// Where attributes of the resource come from.
    pub struct ResourceDetectors {
        /// The environment.
        pub environment: Option<Nothing>,
        /// Files of Dynatrace.
        pub dynatrace: Option<Nothing>,
    }

    /// Has no settings.
    pub struct Nothing {}

    /// Sampling as Dynatrace wishes.
    pub struct DynatraceSampler {
        /// Tenant.
        pub tenant: String,
        /// Cluster.
        pub cluster_id: i32,
        /// Root spans a minute, as long as Dynatrace did not say otherwise.
        pub root_spans_per_minute: u32,
        /// Where to ask.
        pub http_service: Option<DynatraceApi>,
    }

    /// Where Dynatrace is asked.
    pub struct DynatraceApi {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// Path and so on.
        pub http: Option<HttpService>,
    }

    /// Metrics that Prometheus fetches.
    pub struct PrometheusMetrics {}

    /// Access logs in a file.
    pub struct FileAccessLog {
        /// The file; /dev/stdout if left out.
        pub path: String,
        /// Their format.
        pub log_format: Option<LogFormat>,
        /// Leaves out what is empty.
        pub omit_empty_values: bool,
    }

    /// Access logs of HTTP to a gRPC service.
    pub struct HttpAls {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// Name of the log.
        pub log_name: String,
        /// Filter state that is logged.
        pub filter_state_objects_to_log: Vec<String>,
        /// Request headers that are logged.
        pub additional_request_headers_to_log: Vec<String>,
        /// Response headers that are logged.
        pub additional_response_headers_to_log: Vec<String>,
        /// Response trailers that are logged.
        pub additional_response_trailers_to_log: Vec<String>,
    }

    /// Access logs of TCP to a gRPC service.
    pub struct TcpAls {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// Name of the log.
        pub log_name: String,
        /// Filter state that is logged.
        pub filter_state_objects_to_log: Vec<String>,
    }

    /// Access logs by OpenTelemetry.
    pub struct OtelAls {
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
        /// Name of the log.
        pub log_name: String,
        /// Their format.
        pub log_format: Option<OtelLogFormat>,
    }

    /// Format of a log entry.
    pub struct OtelLogFormat {
        /// Its body.
        pub text: String,
        /// Its attributes.
        pub labels: Option<Struct>,
    }

    /// Secrets from another service.
    pub struct SdsProvider {
        /// Name of the secret source.
        pub name: String,
        /// Its service: host, or namespace/host.
        pub service: String,
        /// Its port.
        pub port: u32,
    }
}

oneof! {
    /// What a provider is.
    pub enum Provider {
        /// External authorization over HTTP.
        EnvoyExtAuthzHttp(ExtAuthzHttp) = envoy_ext_authz_http,
        /// External authorization over gRPC.
        EnvoyExtAuthzGrpc(ExtAuthzGrpc) = envoy_ext_authz_grpc,
        /// Traces in Zipkin's form.
        Zipkin(Zipkin) = zipkin,
        /// Traces to Lightstep.
        Lightstep(Lightstep) = lightstep,
        /// Traces to Datadog.
        Datadog(Datadog) = datadog,
        /// Stackdriver.
        Stackdriver(Stackdriver) = stackdriver,
        /// Traces to an OpenCensus agent.
        OpenCensus(OpenCensus) = opencensus,
        /// Traces to SkyWalking.
        SkyWalking(SkyWalking) = skywalking,
        /// Traces by OpenTelemetry.
        OpenTelemetry(OpenTelemetry) = opentelemetry,
        /// Metrics that Prometheus fetches.
        Prometheus(PrometheusMetrics) = prometheus,
        /// Access logs in a file.
        EnvoyFileAccessLog(FileAccessLog) = envoy_file_access_log,
        /// Access logs of HTTP to a gRPC service.
        EnvoyHttpAls(HttpAls) = envoy_http_als,
        /// Access logs of TCP to a gRPC service.
        EnvoyTcpAls(TcpAls) = envoy_tcp_als,
        /// Access logs by OpenTelemetry.
        EnvoyOtelAls(OtelAls) = envoy_otel_als,
        /// Secrets from another service.
        Sds(SdsProvider) = sds,
    }

    /// Format of access logs.
    pub enum LogFormat {
        /// A line of text.
        Text(String) = text,
        /// A JSON object.
        Labels(Struct) = labels,
    }

    /// Value of a header.
    pub enum HeaderValue {
        /// This text.
        Value(String) = value,
        /// A variable of the proxy's environment.
        EnvName(String) = env_name,
    }
}

choice! {
    /// Which trace headers Zipkin uses.
    pub enum TraceContextOption {
        UseB3 = "USE_B3",
        UseB3WithW3cPropagation = "USE_B3_WITH_W3C_PROPAGATION",
    }
}
