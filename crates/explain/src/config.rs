//! What a proxy has: its listeners, routes, clusters and endpoints.
//!
//! In: Envoy's configuration dump (with endpoints) and its list of hosts, as JSON; or messages. Out:
//! typed resources by name. A resource that cannot be read is left out and named.

use std::collections::{BTreeMap, BTreeSet};

use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::endpoint::v3::ClusterLoadAssignment;
use ironsail_proto::envoy::config::listener::v3::Listener;
use ironsail_proto::envoy::config::route::v3::RouteConfiguration;
use ironsail_proto::{Name, from_json};
use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub struct Config {
    pub listeners: BTreeMap<String, Listener>,
    pub routes: BTreeMap<String, RouteConfiguration>,
    pub clusters: BTreeMap<String, Cluster>,
    pub endpoints: BTreeMap<String, ClusterLoadAssignment>,
    /// What the proxy itself found out about endpoints, by cluster and `ADDRESS:PORT`.
    pub health: BTreeMap<(String, String), BTreeSet<Health>>,
    /// Resources that could not be read, and why.
    pub unread: Vec<String>,
}

/// Why a proxy does not use an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Outlier detection took it out.
    Ejected,
    /// An active health check fails.
    Checked,
    /// The control plane says so.
    Told,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading a configuration dump: it has no list of configs")]
    NoDump,
}

impl Config {
    /// Reads `config_dump?include_eds`.
    pub fn from_dump(dump: &Value) -> Result<Self, Error> {
        let mut config = Self::default();
        for section in dump["configs"].as_array().ok_or(Error::NoDump)? {
            for key in ["static_listeners", "dynamic_listeners"] {
                for entry in each(section, key) {
                    let state = match entry.get("active_state") {
                        Some(state) => &state["listener"],
                        None => &entry["listener"],
                    };
                    config
                        .read(state, |c, l: Listener| drop(c.listeners.insert(l.name.clone(), l)));
                }
            }
            for key in ["static_clusters", "dynamic_active_clusters"] {
                for entry in each(section, key) {
                    let one = &entry["cluster"];
                    config.read(one, |c, l: Cluster| drop(c.clusters.insert(l.name.clone(), l)));
                }
            }
            for key in ["static_route_configs", "dynamic_route_configs"] {
                for entry in each(section, key) {
                    config.read(&entry["route_config"], |c, r: RouteConfiguration| {
                        c.routes.insert(r.name.clone(), r);
                    });
                }
            }
            for key in ["static_endpoint_configs", "dynamic_endpoint_configs"] {
                for entry in each(section, key) {
                    config.read(&entry["endpoint_config"], |c, e: ClusterLoadAssignment| {
                        c.endpoints.insert(e.cluster_name.clone(), e);
                    });
                }
            }
        }
        Ok(config)
    }

    /// Reads `clusters?format=json`: what the proxy thinks of each host.
    pub fn add_health(&mut self, clusters: &Value) {
        for cluster in each(clusters, "cluster_statuses") {
            let name = cluster["name"].as_str().unwrap_or_default();
            for host in each(cluster, "host_statuses") {
                let address = &host["address"]["socket_address"];
                let (Some(ip), Some(port)) =
                    (address["address"].as_str(), address["port_value"].as_u64())
                else {
                    continue;
                };
                let status = &host["health_status"];
                let mut found = BTreeSet::new();
                if status["failed_outlier_check"] == true {
                    found.insert(Health::Ejected);
                }
                if status["failed_active_health_check"] == true {
                    found.insert(Health::Checked);
                }
                if status["eds_health_status"].as_str().is_some_and(|s| s == "UNHEALTHY") {
                    found.insert(Health::Told);
                }
                if !found.is_empty() {
                    self.health.insert((name.to_owned(), format!("{ip}:{port}")), found);
                }
            }
        }
    }

    /// Reads one resource, whose JSON says its type too.
    fn read<M: Name + Default>(&mut self, json: &Value, put: impl FnOnce(&mut Self, M)) {
        let Value::Object(fields) = json else { return };
        let mut fields = fields.clone();
        fields.remove("@type");
        let name = fields.get("name").or(fields.get("cluster_name"));
        let name = name.and_then(Value::as_str).unwrap_or("?").to_owned();
        match from_json::<M>(&Value::Object(fields)) {
            Ok(message) => put(self, message),
            Err(error) => {
                let mut why = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    why.push_str(&format!(": {cause}"));
                    source = cause.source();
                }
                self.unread.push(format!("{name}: {why}"));
            }
        }
    }
}

fn each<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_dump_is_read_and_what_cannot_be_read_is_named() {
        let dump = json!({"configs": [
            {"dynamic_listeners": [{"name": "a", "active_state": {"listener": {
                "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
                "name": "a", "use_original_dst": true}}}]},
            {"dynamic_active_clusters": [
                {"cluster": {"@type": "x", "name": "good", "type": "EDS"}},
                {"cluster": {"@type": "x", "name": "bad", "type": "NOBODY_KNOWS"}}]},
            {"dynamic_endpoint_configs": [{"endpoint_config": {"cluster_name": "good"}}]},
        ]});
        let config = Config::from_dump(&dump).unwrap();
        assert_eq!(config.listeners.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(config.clusters.keys().collect::<Vec<_>>(), ["good"]);
        assert_eq!(config.endpoints.len(), 1);
        assert!(config.unread[0].starts_with("bad: "), "{:?}", config.unread);
        assert!(Config::from_dump(&json!({})).is_err());
    }

    #[test]
    fn hosts_that_a_proxy_has_given_up_are_known() {
        let mut config = Config::default();
        config.add_health(&json!({"cluster_statuses": [{"name": "c", "host_statuses": [
            {"address": {"socket_address": {"address": "10.0.0.1", "port_value": 80}},
             "health_status": {"failed_outlier_check": true, "eds_health_status": "HEALTHY"}},
            {"address": {"socket_address": {"address": "10.0.0.2", "port_value": 80}},
             "health_status": {"eds_health_status": "HEALTHY"}}]}]}));
        assert_eq!(config.health.len(), 1);
        let found = &config.health[&("c".to_owned(), "10.0.0.1:80".to_owned())];
        assert!(found.contains(&Health::Ejected));
    }
}
