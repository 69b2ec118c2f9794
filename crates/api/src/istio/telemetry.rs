//! Group `telemetry.istio.io`: what proxies tell about the traffic they see.

use std::collections::BTreeMap;
use std::time::Duration;

use super::security::ONE_TARGET;
use super::{PolicyTargetReference, WorkloadSelector};
use crate::wire::{choice, message, oneof};

message! {
    /// Metrics, traces and access logs of workloads.
    pub struct Telemetry => rule(ONE_TARGET.0, ONE_TARGET.1) {
        /// Workloads that it is for; all of the namespace if left out.
        pub selector: Option<WorkloadSelector>,
        /// Older form of `targetRefs`.
        pub target_ref: Option<PolicyTargetReference>,
        /// Objects that it is attached to.
        pub target_refs: Vec<PolicyTargetReference> => max_items(16),
        /// Traces.
        pub tracing: Vec<Tracing>,
        /// Metrics.
        pub metrics: Vec<Metrics>,
        /// Access logs.
        pub access_logging: Vec<AccessLogging>,
    }

    /// Traces.
    pub struct Tracing {
        /// Which side of traffic.
        pub r#match: Option<TracingSelector>,
        /// Where spans go.
        pub providers: Vec<ProviderRef>,
        /// Share of requests that start a trace.
        pub random_sampling_percentage: Option<f64> => min(0).max(100),
        /// No spans are reported.
        pub disable_span_reporting: Option<bool>,
        /// Trace headers are neither made nor changed.
        pub disable_context_propagation: Option<bool>,
        /// Tags that are added to spans.
        pub custom_tags: BTreeMap<String, CustomTag>,
        /// Istio's own tags are added to spans.
        pub enable_istio_tags: Option<bool>,
        /// The request id decides what is sampled.
        pub use_request_id_for_trace_sampling: Option<bool>,
    }

    /// Which side of traffic.
    pub struct TracingSelector {
        /// Client, server or both.
        pub mode: WorkloadMode,
    }

    /// A provider by name in the mesh config.
    pub struct ProviderRef {
        /// Name of the provider.
        pub name: String => required().min_len(1),
    }

    /// A fixed text.
    pub struct LiteralTag {
        /// The text.
        pub value: String => required().min_len(1),
    }

    /// A variable of the proxy's environment.
    pub struct EnvironmentTag {
        /// Name of the variable.
        pub name: String => required().min_len(1),
        /// Used if it is not set.
        pub default_value: String,
    }

    /// A header of the request.
    pub struct HeaderTag {
        /// Name of the header.
        pub name: String => required().min_len(1),
        /// Used if it is not there.
        pub default_value: String,
    }

    /// An Envoy format string.
    pub struct FormatterTag {
        /// The format.
        pub value: String => required().min_len(1),
    }

    /// Metrics.
    pub struct Metrics {
        /// Who collects them.
        pub providers: Vec<ProviderRef>,
        /// Changes of single metrics.
        pub overrides: Vec<MetricsOverrides>,
        /// Time between reports.
        pub reporting_interval: Option<Duration> => positive(),
    }

    /// Changes of metrics.
    pub struct MetricsOverrides {
        /// Which metrics.
        pub r#match: Option<MetricSelector>,
        /// They are not made.
        pub disabled: Option<bool>,
        /// Changes of their dimensions.
        pub tag_overrides: BTreeMap<String, TagOverride>,
    }

    /// Which metrics.
    pub struct MetricSelector {
        /// Which one.
        pub name: MetricName,
        /// Client, server or both.
        pub mode: WorkloadMode,
    }

    /// Change of a dimension.
    pub struct TagOverride
        => rule("value must be set when operation is UPSERT",
            r#"((has(self.operation) ? self.operation : "") == "UPSERT") ? (self.value != "") : true"#)
        .rule("value must not be set when operation is REMOVE",
            r#"((has(self.operation) ? self.operation : "") == "REMOVE") ? !has(self.value) : true"#)
    {
        /// Set or remove.
        pub operation: TagOperation,
        /// CEL expression or text.
        pub value: String,
    }

    /// Access logs.
    pub struct AccessLogging {
        /// Which side of traffic.
        pub r#match: Option<LogSelector>,
        /// Where logs go.
        pub providers: Vec<ProviderRef>,
        /// Nothing is logged.
        pub disabled: Option<bool>,
        /// Which requests are logged.
        pub filter: Option<LogFilter>,
    }

    /// Which side of traffic.
    pub struct LogSelector {
        /// Client, server or both.
        pub mode: WorkloadMode,
    }

    /// Which requests are logged.
    pub struct LogFilter {
        /// CEL expression that must be true.
        pub expression: String,
    }
}

oneof! {
    /// Where the text of a tag comes from.
    pub enum CustomTag {
        /// A fixed text.
        Literal(LiteralTag) = literal,
        /// A variable of the proxy's environment.
        Environment(EnvironmentTag) = environment,
        /// A header of the request.
        Header(HeaderTag) = header,
        /// An Envoy format string.
        Formatter(FormatterTag) = formatter,
    }

    /// Which metric.
    pub enum MetricName {
        /// One of Istio's.
        Metric(IstioMetric) = metric,
        /// Another one.
        CustomMetric(String) = custom_metric => min_len(1),
    }
}

choice! {
    /// Client, server or both.
    pub enum WorkloadMode {
        ClientAndServer = "CLIENT_AND_SERVER",
        Client = "CLIENT",
        Server = "SERVER",
    }

    /// Istio's metrics.
    pub enum IstioMetric {
        AllMetrics = "ALL_METRICS",
        RequestCount = "REQUEST_COUNT",
        RequestDuration = "REQUEST_DURATION",
        RequestSize = "REQUEST_SIZE",
        ResponseSize = "RESPONSE_SIZE",
        TcpOpenedConnections = "TCP_OPENED_CONNECTIONS",
        TcpClosedConnections = "TCP_CLOSED_CONNECTIONS",
        TcpSentBytes = "TCP_SENT_BYTES",
        TcpReceivedBytes = "TCP_RECEIVED_BYTES",
        GrpcRequestMessages = "GRPC_REQUEST_MESSAGES",
        GrpcResponseMessages = "GRPC_RESPONSE_MESSAGES",
    }

    /// Set or remove a dimension.
    pub enum TagOperation {
        Upsert = "UPSERT",
        Remove = "REMOVE",
    }
}
