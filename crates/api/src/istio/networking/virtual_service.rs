//! `VirtualService`: routes of traffic to hosts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Destination;
use crate::wire::{Bytes, choice, message, oneof};

message! {
    /// Routes of traffic to hosts.
    pub struct VirtualService {
        /// Hosts that the traffic is for.
        pub hosts: Vec<String>,
        /// Gateways, and `mesh` for sidecars, that apply the routes.
        pub gateways: Vec<String>,
        /// Routes of HTTP; the first match wins.
        pub http: Vec<HttpRoute>,
        /// Routes of TLS that is not terminated.
        pub tls: Vec<TlsRoute>,
        /// Routes of TCP.
        pub tcp: Vec<TcpRoute>,
        /// Namespaces that the routes are visible in.
        pub export_to: Vec<String>,
    }

    /// The routes of another VirtualService are put in here.
    pub struct Delegate {
        /// Name of the VirtualService.
        pub name: String,
        /// Its namespace; the own one if left out.
        pub namespace: String,
    }

    /// A route of HTTP.
    pub struct HttpRoute {
        /// Name of the route, for logs.
        pub name: String,
        /// Conditions, of which one must hold.
        pub r#match: Vec<HttpMatchRequest>,
        /// Where requests go.
        pub route: Vec<HttpRouteDestination>,
        /// Answers with a redirect.
        pub redirect: Option<HttpRedirect>,
        /// Answers by itself.
        pub direct_response: Option<HttpDirectResponse>,
        /// Puts in the routes of another VirtualService.
        pub delegate: Option<Delegate>,
        /// Changes path or authority.
        pub rewrite: Option<HttpRewrite>,
        /// How long a request may take; for ever if left out.
        pub timeout: Option<Duration> => positive(),
        /// When a request is tried again.
        pub retries: Option<HttpRetry>,
        /// Delays and errors that are put in.
        pub fault: Option<HttpFaultInjection>,
        /// Copies requests to another place.
        pub mirror: Option<Destination>,
        /// Copies requests to several places.
        pub mirrors: Vec<HttpMirrorPolicy>,
        /// Older form of `mirrorPercentage`.
        pub mirror_percent: Option<u32> => also("mirror_percent"),
        /// Share of requests that is copied.
        pub mirror_percentage: Option<Percent>,
        /// Requests of browsers from other origins.
        pub cors_policy: Option<CorsPolicy>,
        /// Changes of headers.
        pub headers: Option<Headers>,
    }

    /// Changes of headers in both directions.
    pub struct Headers {
        /// Of the request.
        pub request: Option<HeaderOperations>,
        /// Of the response.
        pub response: Option<HeaderOperations>,
    }

    /// Changes of headers.
    pub struct HeaderOperations {
        /// Replaces these.
        pub set: BTreeMap<String, String>,
        /// Adds these.
        pub add: BTreeMap<String, String>,
        /// Removes these.
        pub remove: Vec<String>,
    }

    /// A route of TLS.
    pub struct TlsRoute {
        /// Conditions, of which one must hold.
        pub r#match: Vec<TlsMatchAttributes> => required(),
        /// Where connections go.
        pub route: Vec<RouteDestination>,
    }

    /// A route of TCP.
    pub struct TcpRoute {
        /// Conditions, of which one must hold.
        pub r#match: Vec<L4MatchAttributes>,
        /// Where connections go.
        pub route: Vec<RouteDestination>,
    }

    /// Conditions that a request must fulfil, all of them.
    pub struct HttpMatchRequest {
        /// Name of the condition, for logs.
        pub name: String,
        /// The path.
        pub uri: Option<StringMatch>,
        /// The scheme.
        pub scheme: Option<StringMatch>,
        /// The method.
        pub method: Option<StringMatch>,
        /// The authority, that is the Host header.
        pub authority: Option<StringMatch>,
        /// Headers by name; an empty condition asks only for the header.
        pub headers: BTreeMap<String, StringMatch>,
        /// Port that the request came to.
        pub port: u32,
        /// Labels of the client.
        pub source_labels: BTreeMap<String, String>,
        /// Gateways that the condition is for.
        pub gateways: Vec<String>,
        /// Parameters of the query by name.
        pub query_params: BTreeMap<String, StringMatch>,
        /// Upper and lower case are the same in the path.
        pub ignore_uri_case: bool,
        /// Headers that must not match.
        pub without_headers: BTreeMap<String, StringMatch>,
        /// Namespace of the client.
        pub source_namespace: String,
        /// Prefix of the statistics of the route.
        pub stat_prefix: String,
    }

    /// Where requests go.
    pub struct HttpRouteDestination {
        /// The service.
        pub destination: Destination => required(),
        /// Share among the destinations.
        pub weight: i32,
        /// Changes of headers.
        pub headers: Option<Headers>,
    }

    /// Where connections go.
    pub struct RouteDestination {
        /// The service.
        pub destination: Destination => required(),
        /// Share among the destinations.
        pub weight: i32,
    }

    /// Conditions of a TCP connection.
    pub struct L4MatchAttributes {
        /// Ranges of the destination address.
        pub destination_subnets: Vec<String>,
        /// Port that the connection came to.
        pub port: u32,
        /// Range of the client's address.
        pub source_subnet: String,
        /// Labels of the client.
        pub source_labels: BTreeMap<String, String>,
        /// Gateways that the condition is for.
        pub gateways: Vec<String>,
        /// Namespace of the client.
        pub source_namespace: String,
    }

    /// Conditions of a TLS connection.
    pub struct TlsMatchAttributes {
        /// Server names.
        pub sni_hosts: Vec<String> => required(),
        /// Ranges of the destination address.
        pub destination_subnets: Vec<String>,
        /// Port that the connection came to.
        pub port: u32,
        /// Labels of the client.
        pub source_labels: BTreeMap<String, String>,
        /// Gateways that the condition is for.
        pub gateways: Vec<String>,
        /// Namespace of the client.
        pub source_namespace: String,
    }

    /// Answers with a redirect.
    pub struct HttpRedirect {
        /// New path.
        pub uri: String,
        /// New authority.
        pub authority: String,
        /// New port.
        pub port: RedirectPort,
        /// New scheme.
        pub scheme: String,
        /// Status of the answer; 301 if left out.
        pub redirect_code: u32,
        /// Replaces the matched prefix of the path.
        pub prefix_rewrite: String,
    }

    /// Answers by itself.
    pub struct HttpDirectResponse {
        /// Status of the answer.
        pub status: u32 => required(),
        /// Body of the answer.
        pub body: Option<HttpBody>,
    }

    /// Changes path or authority.
    pub struct HttpRewrite {
        /// Replaces the path, or its matched prefix.
        pub uri: String,
        /// Replaces the authority.
        pub authority: String,
        /// Replaces in the path by a regular expression.
        pub uri_regex_rewrite: Option<RegexRewrite>,
    }

    /// Replacement by a regular expression.
    pub struct RegexRewrite {
        /// The expression.
        pub r#match: String,
        /// What takes its place.
        pub rewrite: String,
    }

    /// When a request is tried again.
    pub struct HttpRetry {
        /// How often.
        pub attempts: i32,
        /// How long each attempt may take.
        pub per_try_timeout: Option<Duration> => positive(),
        /// Reasons, separated by commas.
        pub retry_on: String,
        /// May go to other regions.
        pub retry_remote_localities: Option<bool>,
        /// Avoids endpoints that were tried already.
        pub retry_ignore_previous_hosts: Option<bool>,
        /// Time before the first retry.
        pub backoff: Option<Duration> => positive(),
    }

    /// Requests of browsers from other origins.
    pub struct CorsPolicy {
        /// Older form of `allowOrigins`.
        pub allow_origin: Vec<String>,
        /// Origins that may ask.
        pub allow_origins: Vec<StringMatch>,
        /// Methods that are allowed.
        pub allow_methods: Vec<String>,
        /// Request headers that are allowed.
        pub allow_headers: Vec<String>,
        /// Response headers that scripts may see.
        pub expose_headers: Vec<String>,
        /// How long the answer may be kept.
        pub max_age: Option<Duration> => positive(),
        /// May cookies be sent.
        pub allow_credentials: Option<bool>,
        /// What happens to preflights that match no origin.
        pub unmatched_preflights: UnmatchedPreflights,
    }

    /// Delays and errors that are put in.
    pub struct HttpFaultInjection {
        /// Delays.
        pub delay: Option<FaultDelay>,
        /// Errors.
        pub abort: Option<FaultAbort>,
    }

    /// A delay.
    pub struct FaultDelay {
        /// Older form of `percentage`.
        pub percent: i32,
        /// How long.
        pub duration: DelayDuration,
        /// Share of requests.
        pub percentage: Option<Percent>,
    }

    /// An error.
    pub struct FaultAbort {
        /// Which error.
        pub error: AbortError,
        /// Share of requests.
        pub percentage: Option<Percent>,
    }

    /// Copies requests to another place.
    pub struct HttpMirrorPolicy {
        /// Share of requests; all if left out.
        pub percentage: Option<Percent>,
        /// The place.
        pub destination: Destination => required(),
    }

    /// A share, from 0.0 to 100.0.
    pub struct Percent {
        /// The number.
        pub value: f64,
    }
}

oneof! {
    /// How a text must look; case matters.
    pub enum StringMatch {
        /// Equal to this.
        Exact(String) = exact,
        /// Begins with this.
        Prefix(String) = prefix,
        /// Matches this regular expression as a whole (RE2).
        Regex(String) = regex,
    }

    /// Port of a redirect.
    pub enum RedirectPort {
        /// This one.
        Port(u32) = port,
        /// By rule.
        DerivePort(RedirectPortSelection) = derive_port,
    }

    /// Body of an answer.
    pub enum HttpBody {
        /// As text.
        String(String) = string,
        /// As bytes.
        Bytes(Bytes) = bytes,
    }

    /// How long a delay is.
    pub enum DelayDuration {
        /// Always the same.
        FixedDelay(Duration) = fixed_delay => positive(),
        /// Not used.
        ExponentialDelay(Duration) = exponential_delay => positive(),
    }

    /// Which error is put in.
    pub enum AbortError {
        /// An HTTP status.
        HttpStatus(i32) = http_status,
        /// A gRPC status.
        GrpcStatus(String) = grpc_status,
        /// Not used.
        Http2Error(String) = http2_error,
    }
}

choice! {
    /// Rule for the port of a redirect.
    pub enum RedirectPortSelection {
        FromProtocolDefault = "FROM_PROTOCOL_DEFAULT",
        FromRequestPort = "FROM_REQUEST_PORT",
    }

    /// What happens to preflights that match no origin.
    pub enum UnmatchedPreflights {
        Unspecified = "UNSPECIFIED",
        Forward = "FORWARD",
        Ignore = "IGNORE",
    }
}
