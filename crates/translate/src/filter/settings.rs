//! What the mesh's configuration and a proxy's own come to, as far as listeners depend on it.
//!
//! Only resolved values: two proxies whose settings are equal share the bytes of their listeners.
//! All of it goes into the key of a view by `Hash`, so nothing here can be forgotten there.

mod resolve;

use std::collections::BTreeMap;
use std::time::Duration;

use ironsail_telemetry::config::{Metric, Override};

use crate::compliance::Compliance;

pub use resolve::family;
pub(crate) use resolve::mesh_tracing;

/// The settings that all listeners of a proxy share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    pub access: Vec<Access>,
    pub tracing: Sided<Option<Tracing>>,
    /// None if the proxy cannot count, or is not to.
    pub metrics: Option<Metrics>,
    pub paths: PathNormalization,
    pub headers: Headers,
    pub family: Family,
    pub interception: Interception,
    pub egress: Egress,
    /// Where iptables sends what leaves the pod.
    pub outbound_port: u16,
    /// Where iptables sends what comes to the pod.
    pub inbound_port: u16,
    /// How long a server may stay silent until its protocol counts as unknown. Zero: for ever.
    pub detection_timeout: Duration,
    pub idle_timeout: Option<Duration>,
    /// Requests of HTTP/1.0 are taken.
    pub http10: bool,
    pub exact_balance_inbound: bool,
    pub exact_balance_outbound: bool,
    /// Only ports from 1024 on can be bound.
    pub unprivileged: bool,
    pub mtls: MeshTls,
    /// Some service is looked up by name when a request comes.
    pub dynamic_names: bool,
    /// Pattern of the statistics' names of outbound TCP, if not the cluster's name.
    pub outbound_stat_name: String,
    pub inbound_stat_name: String,
}

/// What a workload does as a client, and what as a server. A gateway is a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sided<T> {
    pub client: T,
    pub server: T,
}

impl<T> Sided<T> {
    pub fn of(&self, side: Side) -> &T {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Side {
    #[default]
    Client,
    Server,
}

/// The metrics that are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Metrics {
    /// What differs from the standard.
    pub overrides: Sided<BTreeMap<Metric, Override>>,
    /// How often connections are counted while they are open.
    pub interval: Duration,
}

/// Where and how requests and connections are logged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    pub to: Sink,
    /// Connections that match no filter chain are logged too.
    pub listeners: bool,
    pub on: Sided<bool>,
    /// A CEL expression that must be true.
    pub filter: Option<String>,
}

impl Access {
    /// On both sides and all of it.
    pub fn to(to: Sink, listeners: bool) -> Self {
        Self { to, listeners, on: Sided { client: true, server: true }, filter: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sink {
    File {
        path: String,
        format: AccessFormat,
        omit_empty: bool,
    },
    /// The access log service of the bootstrap.
    Service,
    /// A gRPC service for HTTP, or for TCP.
    Grpc {
        tcp: bool,
        cluster: String,
        /// The name that it is asked for by; that of a cluster is none.
        authority: String,
        log_name: String,
        filter_state: Vec<String>,
        request_headers: Vec<String>,
        response_headers: Vec<String>,
        response_trailers: Vec<String>,
    },
    /// OpenTelemetry over gRPC.
    Otel {
        cluster: String,
        authority: String,
        log_name: String,
        /// Empty: Istio's default line.
        text: String,
        /// Attribute and format, in order.
        labels: Vec<(String, String)>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccessFormat {
    /// Empty: Istio's default line.
    Text(String),
    /// A JSON object of formats; empty: Istio's default fields.
    Json(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tracing {
    /// Of all requests, in ten-thousandths of a percent.
    pub sampling: u32,
    pub max_path_length: Option<u32>,
    pub tags: BTreeMap<String, Tag>,
    /// None: the tracer of the bootstrap.
    pub provider: Option<TraceProvider>,
    /// Whether a trace goes on follows from the request's id.
    pub by_request_id: bool,
}

/// How long a report of spans may take, unless somebody says otherwise.
pub const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where spans go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TraceProvider {
    Zipkin {
        cluster: String,
        host: String,
        path: String,
        short_ids: bool,
        w3c: bool,
        timeout: Option<Duration>,
        headers: Vec<(String, String)>,
    },
    OtelGrpc {
        cluster: String,
        authority: String,
        service: String,
        timeout: Option<Duration>,
        metadata: Vec<(String, String)>,
        environment: bool,
    },
    OtelHttp {
        cluster: String,
        uri: String,
        service: String,
        timeout: Duration,
        headers: Vec<(String, String)>,
        environment: bool,
    },
    Datadog {
        cluster: String,
        host: String,
        service: String,
    },
    SkyWalking {
        cluster: String,
        authority: String,
        service: String,
        token: String,
    },
}

/// Where the value of a span's tag comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    Literal(String),
    Environment {
        name: String,
        default: String,
    },
    Header {
        name: String,
        default: String,
    },
    /// Written by an authorization filter in dry run; the key in its metadata.
    DryRun(String),
    /// From the metadata of the proxy's own node.
    Node {
        path: Vec<String>,
        default: String,
    },
    /// As in an access log.
    Format(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathNormalization {
    None,
    #[default]
    Base,
    MergeSlashes,
    DecodeAndMergeSlashes,
}

/// The headers that the proxy adds, and whether it may.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Headers {
    pub attempt_count: bool,
    pub server: Server,
    pub request_id: bool,
    pub debug: bool,
    pub forwarded: ForwardedCert,
    pub details: CertDetails,
    /// Of a gateway, which has its own way to say it.
    pub gateway: ForwardedCert,
    pub trusted_proxies: u32,
    /// A gateway's connections start with the PROXY protocol.
    pub proxy_protocol: bool,
    /// Names of HTTP/1.1 headers keep their upper and lower case.
    pub preserve_case: bool,
    pub forwarded_host: bool,
    pub forwarded_port: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// `istio-envoy`, or Envoy's own name from a client's side.
    Default,
    /// The server's own header passes.
    PassThrough,
    Name(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForwardedCert {
    Sanitize,
    ForwardOnly,
    AppendForward,
    SanitizeSet,
    AlwaysForwardOnly,
}

/// What of a client's certificate is written into `x-forwarded-client-cert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CertDetails {
    pub subject: bool,
    pub cert: bool,
    pub chain: bool,
    pub dns: bool,
    pub uri: bool,
}

/// The addresses that a proxy has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    #[default]
    V4,
    V6,
    Dual,
}

impl Family {
    /// All addresses, the first of which names the listener.
    pub fn wildcards(self) -> &'static [&'static str] {
        match self {
            Self::V4 => &["0.0.0.0"],
            Self::V6 => &["::"],
            Self::Dual => &["0.0.0.0", "::"],
        }
    }

    pub fn wildcard(self) -> &'static str {
        self.wildcards()[0]
    }

    pub fn localhosts(self) -> &'static [&'static str] {
        match self {
            Self::V4 => &["127.0.0.1"],
            Self::V6 => &["::1"],
            Self::Dual => &["127.0.0.1", "::1"],
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interception {
    #[default]
    Redirect,
    Tproxy,
    None,
}

/// What becomes of traffic to where the proxy knows nothing of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Egress {
    #[default]
    AllowAny,
    /// All of it goes to this cluster.
    Through(String),
    RegistryOnly,
}

impl Egress {
    pub fn cluster(&self) -> &str {
        match self {
            Self::AllowAny => ironsail_names::PASSTHROUGH_CLUSTER,
            Self::Through(cluster) => cluster,
            Self::RegistryOnly => ironsail_names::BLACK_HOLE_CLUSTER,
        }
    }
}

/// What the mesh says about its own mTLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MeshTls {
    /// Whose identities are let in.
    pub trust_domains: Vec<String>,
    pub tls13_only: bool,
    pub cipher_suites: Vec<String>,
    pub compliance: Compliance,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            access: Vec::new(),
            tracing: Sided::default(),
            metrics: None,
            paths: PathNormalization::Base,
            headers: Headers::default(),
            family: Family::V4,
            interception: Interception::Redirect,
            egress: Egress::AllowAny,
            outbound_port: ironsail_names::port::OUTBOUND,
            inbound_port: ironsail_names::port::INBOUND,
            detection_timeout: Duration::ZERO,
            idle_timeout: None,
            http10: false,
            exact_balance_inbound: false,
            exact_balance_outbound: false,
            unprivileged: false,
            mtls: MeshTls::default(),
            dynamic_names: false,
            outbound_stat_name: String::new(),
            inbound_stat_name: String::new(),
        }
    }
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            attempt_count: true,
            server: Server::Default,
            request_id: true,
            debug: true,
            forwarded: ForwardedCert::AppendForward,
            details: CertDetails { subject: true, cert: false, chain: false, dns: true, uri: true },
            gateway: ForwardedCert::SanitizeSet,
            trusted_proxies: 0,
            proxy_protocol: false,
            preserve_case: false,
            forwarded_host: false,
            forwarded_port: false,
        }
    }
}
