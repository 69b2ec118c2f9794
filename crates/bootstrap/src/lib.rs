//! What Envoy and gRPC clients are started with: the files that the agent writes beside them.
//!
//! In: settings that somebody else gathered; out: `envoy-rev.json` and `grpc-bootstrap.json` as JSON
//! trees. Reads no file, no environment and no clock, so equal settings give equal files.

mod asked;
mod cluster;
mod envoy;
mod grpc;
mod listener;
mod module;
mod remote;
mod settings;
mod stats;
mod template;

use std::collections::BTreeMap;

use ironsail_names::Locality;
use serde_json::{Map, Value};

pub use envoy::envoy;
pub use grpc::grpc;
pub use remote::{Keepalive, Remote, RemoteTls, Tracer};
pub use settings::Input;
pub use stats::{Histogram, Stats};
pub use template::{Template, TemplateError};

/// Everything the files depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    pub node: Node,
    pub family: Family,
    pub admin_port: u16,
    /// Envoy serves `/stats/prometheus` here to whoever scrapes it directly.
    pub prometheus_port: u16,
    /// And only to this machine.
    pub prometheus_local_only: bool,
    /// Envoy serves `/healthz/ready` here, and asks the agent.
    pub ready_port: u16,
    /// The agent's own port on loopback.
    pub agent_port: u16,
    /// The agent's sockets.
    pub xds_socket: String,
    pub sds_socket: String,
    pub stats: Stats,
    /// Runtime flags of the user, over ours.
    pub runtime: BTreeMap<String, String>,
    /// None: as good as no limit.
    pub max_connections: Option<u32>,
    /// Where outlier events are logged; None: nowhere.
    pub outlier_log: Option<String>,
    pub log_as_json: bool,
    /// How Envoy reports load, as JSON; None: it does not.
    pub load_stats: Option<Value>,
    pub tracer: Option<Tracer>,
    /// UDP address of a statsd.
    pub statsd: Option<Remote>,
    pub metrics_service: Option<Remote>,
    pub access_log_service: Option<Remote>,
}

/// Who the proxy says it is.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub id: String,
    pub cluster: String,
    pub locality: Locality,
    pub metadata: Map<String, Value>,
}

/// Which addresses the proxy's machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    #[default]
    V4,
    V6,
    /// Both, IPv4 first.
    V4AndV6,
    /// Both, IPv6 first.
    V6AndV4,
}

const V4_ANY: &str = "0.0.0.0";
const V6_ANY: &str = "::";

impl Family {
    fn is_v6(self) -> bool {
        matches!(self, Self::V6 | Self::V6AndV4)
    }

    fn any(self) -> &'static str {
        if self.is_v6() { V6_ANY } else { V4_ANY }
    }

    /// The wildcard of the other family, if the machine has both.
    fn other_any(self) -> Option<&'static str> {
        match self {
            Self::V4 | Self::V6 => None,
            Self::V4AndV6 => Some(V6_ANY),
            Self::V6AndV4 => Some(V4_ANY),
        }
    }

    fn loopback(self) -> &'static str {
        if self.is_v6() { "::1" } else { "127.0.0.1" }
    }

    fn lookup(self) -> &'static str {
        match self {
            Self::V4 => "V4_ONLY",
            Self::V6 => "V6_ONLY",
            Self::V4AndV6 | Self::V6AndV4 => "ALL",
        }
    }
}

/// A setting that cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("{what}: {text:?} is not host:port")]
    Address { what: &'static str, text: String },
    #[error(
        "the stats eviction interval {eviction_seconds}s is not a multiple of the flush interval {flush_seconds}s"
    )]
    Eviction { eviction_seconds: u64, flush_seconds: u64 },
}
