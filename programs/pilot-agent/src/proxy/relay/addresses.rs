//! Who has which address, as the proxy's own endpoints say: a file for the module that counts.
//!
//! In: load assignments on their way to the proxy; out: one line a workload, `ADDRESS WORKLOAD`, replaced
//! as a whole. The proxy's module reads it for peers that say nothing of themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::address::Address;
use ironsail_proto::envoy::config::endpoint::v3::ClusterLoadAssignment;
use ironsail_proto::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use ironsail_proto::google::protobuf::Any;
use ironsail_proto::google::protobuf::value::Kind;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub(super) const ENDPOINTS: &str =
    "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// The file is written no more often.
const PAUSE: Duration = Duration::from_millis(500);

/// What is known, by cluster.
#[derive(Default)]
pub(crate) struct Addresses {
    clusters: Mutex<BTreeMap<String, Vec<(String, String)>>>,
    changed: Notify,
}

impl Addresses {
    /// Takes in what goes to the proxy.
    pub(super) fn learn(&self, assignments: &[Any], removed: &[String]) {
        let mut changed = false;
        let mut clusters = self.clusters.lock();
        for one in assignments {
            let Ok(one) = ClusterLoadAssignment::decode(one.value.clone()) else { continue };
            let found = workloads(&one);
            changed |= clusters.get(&one.cluster_name) != Some(&found);
            clusters.insert(one.cluster_name, found);
        }
        for name in removed {
            changed |= clusters.remove(name).is_some();
        }
        drop(clusters);
        if changed {
            self.changed.notify_one();
        }
    }

    /// The file's text, in the order of addresses.
    fn text(&self) -> String {
        let clusters = self.clusters.lock();
        let all: BTreeMap<&str, &str> =
            clusters.values().flatten().map(|(at, who)| (at.as_str(), who.as_str())).collect();
        all.into_iter().map(|(at, who)| format!("{at} {who}\n")).collect()
    }

    /// Writes the file whenever there is something new, until told to stop.
    pub(crate) async fn keep(self: Arc<Self>, file: PathBuf, stop: CancellationToken) {
        while stop.run_until_cancelled(self.changed.notified()).await.is_some() {
            let draft = file.with_extension("new");
            let written =
                std::fs::write(&draft, self.text()).and_then(|()| std::fs::rename(&draft, &file));
            if let Err(error) = written {
                warn!(target: "agent", "writing {}: {error}", file.display());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Address and workload of each endpoint that says both.
fn workloads(assignment: &ClusterLoadAssignment) -> Vec<(String, String)> {
    let endpoints = assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints);
    endpoints
        .filter_map(|endpoint| {
            let Some(HostIdentifier::Endpoint(host)) = &endpoint.host_identifier else {
                return None;
            };
            let Some(Address::SocketAddress(address)) = host.address.as_ref()?.address.as_ref()
            else {
                return None;
            };
            let fields = &endpoint.metadata.as_ref()?.filter_metadata.get("istio")?.fields;
            match fields.get("workload")?.kind.as_ref()? {
                Kind::StringValue(who) if !who.contains('\n') => {
                    Some((address.address.clone(), who.clone()))
                }
                _ => None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironsail_proto::pack;
    use serde_json::json;

    fn assignment(cluster: &str, endpoints: &[(&str, &str)]) -> Any {
        let endpoints: Vec<_> = endpoints
            .iter()
            .map(|(at, who)| {
                json!({
                    "endpoint": {"address": {"socketAddress": {"address": at, "portValue": 80}}},
                    "metadata": {"filterMetadata": {"istio": {"workload": who}}},
                })
            })
            .collect();
        let text = json!({"clusterName": cluster, "endpoints": [{"lbEndpoints": endpoints}]});
        let one: ClusterLoadAssignment = ironsail_proto::from_json(&text).unwrap();
        pack(&one)
    }

    #[test]
    fn the_last_word_of_each_cluster_counts() {
        let addresses = Addresses::default();
        addresses
            .learn(&[assignment("a", &[("10.0.0.2", "x;n;x;v1;k"), ("10.0.0.1", "y;n")])], &[]);
        addresses.learn(&[assignment("b", &[("10.0.0.3", "z;n")])], &[]);
        assert_eq!(addresses.text(), "10.0.0.1 y;n\n10.0.0.2 x;n;x;v1;k\n10.0.0.3 z;n\n");
        addresses.learn(&[assignment("a", &[("10.0.0.2", "w;n")])], &["b".to_owned()]);
        assert_eq!(addresses.text(), "10.0.0.2 w;n\n");
    }

    #[tokio::test]
    async fn the_file_is_replaced_when_something_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("workloads");
        let addresses = Arc::new(Addresses::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn(addresses.clone().keep(file.clone(), stop.clone()));
        addresses.learn(&[assignment("a", &[("10.0.0.1", "y;n")])], &[]);
        while std::fs::read_to_string(&file).unwrap_or_default() != "10.0.0.1 y;n\n" {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        task.await.unwrap();
    }
}
