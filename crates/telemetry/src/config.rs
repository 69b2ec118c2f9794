//! What the Envoy module is told: by the agent at start, by the control plane for each filter.
//!
//! All of it travels as JSON. Unknown fields are ignored, so that an older module takes the
//! configuration of a newer control plane.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The name that Envoy loads the module by: the file is `libironsail_envoy.so`.
pub const MODULE: &str = "ironsail_envoy";
/// The key of a node's metadata by which a proxy says that it has the module.
pub const NODE_KEY: &str = "IRONSAIL_MODULE";
/// Its value: the version of what is agreed on here.
pub const NODE_VALUE: &str = "1";
/// The file of addresses and workloads that the agent keeps beside its sockets.
pub const TABLE: &str = "workloads";
/// The prefix of the module's statistics inside Envoy, which it gives to all of a module's clusters. The
/// bootstrap has it cut off.
pub const STAT_NAMESPACE: &str = "dynamicmodulescustom";
/// The cluster of the bootstrap that owns the metrics.
pub const OWNER: &str = "ironsail_telemetry";
/// The key in a cluster's `istio` metadata that holds [`Service::write`].
pub const SERVICE_KEY: &str = "destination";

/// Labels that metrics may be given without a word in the proxy's configuration.
pub const EXTRA_LABELS: [&str; 8] = [
    "destination_port",
    "request_host",
    "request_method",
    "request_operation",
    "request_path",
    "request_url_path",
    "source_ip",
    "user_agent",
];

/// Who the proxy is; from the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Local {
    /// The node's id, which peers cache by.
    pub id: String,
    pub name: String,
    pub namespace: String,
    pub workload: String,
    pub cluster: String,
    pub owner: String,
    pub labels: BTreeMap<String, String>,
    /// For `istio_build`.
    pub version: String,
    /// A file of addresses and their workloads; empty: there is none.
    pub table: String,
    /// Labels of the user's own that metrics may have, besides [`EXTRA_LABELS`]: Envoy takes no new
    /// ones after its start.
    pub extra_labels: Vec<String>,
}

/// Which side of a workload a filter stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Inbound,
    Outbound,
}

/// The exchange of metadata in one connection manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Filter {
    pub direction: Direction,
}

/// Who a metric speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reporter {
    Source,
    Destination,
    Waypoint,
}

impl Reporter {
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Destination => "destination",
            Self::Waypoint => "waypoint",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    Http,
    Tcp,
}

/// What one logger counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Logger {
    pub reporter: Reporter,
    pub traffic: Traffic,
    /// Of a TCP chain, whose logger cannot ask the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// What differs from the standard metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<Metric, Override>,
}

/// The standard metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    Requests,
    Duration,
    RequestBytes,
    ResponseBytes,
    RequestMessages,
    ResponseMessages,
    TcpSent,
    TcpReceived,
    TcpOpened,
    TcpClosed,
}

impl Metric {
    pub const ALL: [Self; 10] = [
        Self::Requests,
        Self::Duration,
        Self::RequestBytes,
        Self::ResponseBytes,
        Self::RequestMessages,
        Self::ResponseMessages,
        Self::TcpSent,
        Self::TcpReceived,
        Self::TcpOpened,
        Self::TcpClosed,
    ];

    /// As Prometheus shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "istio_requests_total",
            Self::Duration => "istio_request_duration_milliseconds",
            Self::RequestBytes => "istio_request_bytes",
            Self::ResponseBytes => "istio_response_bytes",
            Self::RequestMessages => "istio_request_messages_total",
            Self::ResponseMessages => "istio_response_messages_total",
            Self::TcpSent => "istio_tcp_sent_bytes_total",
            Self::TcpReceived => "istio_tcp_received_bytes_total",
            Self::TcpOpened => "istio_tcp_connections_opened_total",
            Self::TcpClosed => "istio_tcp_connections_closed_total",
        }
    }

    pub fn traffic(self) -> Traffic {
        match self {
            Self::TcpSent | Self::TcpReceived | Self::TcpOpened | Self::TcpClosed => Traffic::Tcp,
            _ => Traffic::Http,
        }
    }

    pub fn is_histogram(self) -> bool {
        matches!(self, Self::Duration | Self::RequestBytes | Self::ResponseBytes)
    }
}

/// What a user changed about one metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Override {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// By label: an expression for its value, or none if the label is dropped.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
}

/// The service that a cluster or chain stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    pub host: String,
    pub name: String,
    pub namespace: String,
}

impl Service {
    /// One text, for metadata of which only texts can be read.
    pub fn write(host: &str, name: &str, namespace: &str) -> String {
        format!("{host};{name};{namespace}")
    }

    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ';').map(str::to_owned);
        Some(Self { host: parts.next()?, name: parts.next()?, namespace: parts.next()? })
    }

    /// What the name of an outbound cluster says: its host, and of a Kubernetes name more.
    pub fn of_cluster(cluster: &str) -> Option<Self> {
        let mut parts = cluster.split('|');
        if parts.next() != Some("outbound") {
            return None;
        }
        let host = parts.nth(2).filter(|host| !host.is_empty())?;
        let mut labels = host.split('.');
        let (name, namespace, svc) = (labels.next()?, labels.next(), labels.next());
        Some(match (namespace, svc) {
            (Some(namespace), Some("svc")) => {
                Self { host: host.into(), name: name.into(), namespace: namespace.into() }
            }
            _ => Self { host: host.into(), name: host.into(), namespace: String::new() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logger_is_the_same_after_its_way_through_json() {
        let labels = [("a".to_owned(), Some("request.method".to_owned())), ("b".to_owned(), None)];
        let logger = Logger {
            reporter: Reporter::Destination,
            traffic: Traffic::Tcp,
            service: Some(Service { host: "h".into(), name: "n".into(), namespace: "s".into() }),
            overrides: [(Metric::TcpOpened, Override { disabled: true, labels: labels.into() })]
                .into(),
        };
        let text = serde_json::to_string(&logger).unwrap();
        assert_eq!(serde_json::from_str::<Logger>(&text).unwrap(), logger, "{text}");
    }

    #[test]
    fn a_cluster_s_name_says_its_service() {
        let found = Service::of_cluster("outbound|8000|v1|web.shop.svc.cluster.local").unwrap();
        assert_eq!((found.name.as_str(), found.namespace.as_str()), ("web", "shop"));
        let found = Service::of_cluster("outbound|443||api.example.com").unwrap();
        assert_eq!((found.name.as_str(), found.namespace.as_str()), ("api.example.com", ""));
        for other in ["inbound|80||", "PassthroughCluster", "", "outbound|80||"] {
            assert_eq!(Service::of_cluster(other), None, "{other}");
        }
    }
}
