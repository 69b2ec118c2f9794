//! Settings of a proxy that somebody else runs: from what its node says of itself.
//!
//! In: a node as it comes with a request for a bootstrap; out: the settings that the proxy's own agent
//! would have gathered, as far as metadata carries them. What cannot be used is left out and said.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ironsail_api::mesh::ProxyConfig;
use ironsail_names::port;
use serde_json::{Map, Value};

use crate::{Family, Input, Node, Settings};

/// Where agents have their sockets; in the place of the first the proxy's configuration may say another.
const CONFIG_FOLDER: &str = "./etc/istio/proxy";
const SDS_SOCKET: &str = "./var/run/secrets/workload-spiffe-uds/socket";
/// Texts in metadata that are looked at.
const MAX_ITEMS: usize = 1024;

impl Settings {
    /// The settings of the proxy that this node is, and what is wrong with what it says.
    pub fn of_node(node: Node) -> (Self, Vec<String>) {
        let metadata = node.metadata.clone();
        let text = |key: &str| metadata.get(key).and_then(Value::as_str);
        let empty = Value::Object(Map::new());
        let own = metadata.get("PROXY_CONFIG").unwrap_or(&empty);
        let config = ProxyConfig::default().overlaid(own);
        let folder = match config.value.config_path.as_str() {
            "" => CONFIG_FOLDER,
            folder => folder,
        };
        let ips = addresses(text("INSTANCE_IPS").unwrap_or_default());
        let port = |key: &str, otherwise: u16| number(&metadata, key).unwrap_or(otherwise);
        let (settings, mut faults) = Self::new(Input {
            config: &config.value,
            annotations: &texts(metadata.get("ANNOTATIONS")),
            family: family(&ips),
            xds_socket: &format!("{}/XDS", folder.trim_end_matches('/')),
            sds_socket: SDS_SOCKET,
            outlier_log: text("OUTLIER_LOG_PATH").unwrap_or_default(),
            log_as_json: false,
            prometheus_port: port("ENVOY_PROMETHEUS_PORT", port::PROXY_METRICS),
            ready_port: port("ENVOY_STATUS_PORT", port::HEALTH),
            max_connections: text("GLOBAL_DOWNSTREAM_MAX_CONNECTIONS"),
            load_stats: text("LOAD_STATS_CONFIG_JSON"),
            ips: &ips,
            until_idle: text("EXIT_ON_ZERO_ACTIVE_CONNECTIONS") == Some("true"),
            node,
        });
        faults.extend(config.problems.iter().map(|p| format!("PROXY_CONFIG.{}", p.field)));
        (settings, faults)
    }
}

fn addresses(text: &str) -> Vec<IpAddr> {
    text.split(',').take(MAX_ITEMS).filter_map(|ip| ip.trim().parse().ok()).collect()
}

/// A number, or a text that is one.
fn number(metadata: &Map<String, Value>, key: &str) -> Option<u16> {
    match metadata.get(key)? {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64().and_then(|number| u16::try_from(number).ok()),
    }
}

fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let fields = value.and_then(Value::as_object).into_iter().flatten().take(MAX_ITEMS);
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn family(ips: &[IpAddr]) -> Family {
    let v6 = ips.iter().filter(|ip| ip.is_ipv6()).count();
    match ips.first() {
        Some(_) if v6 == ips.len() => Family::V6,
        Some(IpAddr::V6(_)) => Family::V6AndV4,
        Some(IpAddr::V4(_)) if v6 > 0 => Family::V4AndV6,
        _ => Family::V4,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_says_what_its_agent_would() {
        let metadata = json!({
            "INSTANCE_IPS": "10.0.0.1,fd00::1", "ENVOY_STATUS_PORT": 15021,
            "ANNOTATIONS": {"sidecar.istio.io/statsFlushInterval": "7s"},
            "PROXY_CONFIG": {"configPath": "./elsewhere", "proxyAdminPort": 15009, "nonsense": 1},
        });
        let Value::Object(metadata) = metadata else { unreachable!("it is written so above") };
        let node = Node { id: "sidecar~a".into(), metadata, ..Node::default() };
        let (settings, faults) = Settings::of_node(node);
        assert_eq!(settings.xds_socket, "./elsewhere/XDS");
        assert_eq!((settings.admin_port, settings.ready_port), (15009, 15021));
        assert_eq!(settings.family, Family::V4AndV6);
        assert_eq!(settings.stats.flush_interval, Some(7));
        assert_eq!(faults, ["PROXY_CONFIG.nonsense"]);
        assert_eq!(crate::envoy(&settings)["node"]["id"], "sidecar~a");
    }
}
