//! Patches of clusters.

use ironsail_api::istio::networking::{ApplyTo, ClusterMatch, ObjectMatch, Operation};
use ironsail_names::{ClusterName, Direction};
use ironsail_proto::envoy::config::cluster::v3::Cluster;

use super::listener::{attempt, merged_socket};
use super::merge::{Lists, merge};
use super::{Context, Patch, Patches, rules, value};
use crate::Translated;

impl Patches<'_> {
    /// The cluster with every patch that fits; None if one removes it. `hosts` are the services that a
    /// cluster of the workload's own port is for.
    pub fn cluster(
        &self,
        context: Context,
        hosts: &[&str],
        made: Translated<Cluster>,
    ) -> Translated<Option<Cluster>> {
        let Translated { value: mut cluster, diagnostics: mut found } = made;
        for patch in self.to(ApplyTo::Cluster, context) {
            if !fits(&cluster.name, hosts, &patch) {
                continue;
            }
            match patch.operation() {
                Operation::Remove => return Translated { value: None, diagnostics: found },
                _ if patch.merges() => attempt(&mut cluster, &patch, &mut found, merged_cluster),
                _ => {}
            }
        }
        Translated { value: Some(cluster), diagnostics: found }
    }

    /// Clusters that patches add, each with its key.
    pub fn added_clusters(&self, context: Context) -> Vec<(u64, Translated<Option<Cluster>>)> {
        let patches = self.to(ApplyTo::Cluster, context);
        patches.filter(|patch| patch.adds_to(context)).map(|patch| patch.added()).collect()
    }
}

fn cluster_match<'a>(patch: &Patch<'a>) -> Option<&'a ClusterMatch> {
    match patch.object_match() {
        Some(ObjectMatch::Cluster(rule)) => Some(rule),
        _ => None,
    }
}

fn fits(name: &str, hosts: &[&str], patch: &Patch<'_>) -> bool {
    let Some(rule) = cluster_match(patch) else { return true };
    if !rule.name.is_empty() {
        return rule.name == name;
    }
    let parsed = name.parse::<ClusterName>().ok();
    let inbound = parsed.as_ref().is_some_and(|name| name.direction == Direction::Inbound);
    let host = parsed.as_ref().and_then(|name| name.host.as_ref());
    let is_host = |wanted: &str| match inbound && !hosts.is_empty() {
        true => hosts.contains(&wanted),
        false => host.is_some_and(|host| host.as_str() == wanted),
    };
    let port = parsed.as_ref().map(|name| u32::from(name.port));
    (rule.subset.is_empty() || parsed.as_ref().is_some_and(|name| *name.subset == *rule.subset))
        && (rule.service.is_empty() || is_host(&rule.service))
        && (rule.port_number == 0 || port == Some(rule.port_number))
}

fn merged_cluster(cluster: &mut Cluster, patch: &Patch<'_>) -> Result<(), String> {
    let mut message = patch.message()?.ok_or("it has no value")?;
    let said: Cluster = value::typed(&message)?;
    let lists = patch.lists();
    let mut out = cluster.clone();
    if let Some(socket) = &said.transport_socket {
        if sockets(&mut out, socket, lists)? {
            message.clear_field_by_name("transport_socket");
        } else {
            out.transport_socket = None;
        }
    }
    let mut into = value::dynamic(&out)?;
    merge(&mut into, &message, lists);
    rules::check(&into)?;
    let out: Cluster = value::typed(&into)?;
    if out.name != cluster.name {
        return Err(format!("it would rename the cluster {}", cluster.name));
    }
    *cluster = out;
    Ok(())
}

/// Merges into the socket of the same name; whether the rest of the patch has nothing to do with it.
fn sockets(
    cluster: &mut Cluster,
    said: &ironsail_proto::envoy::config::core::v3::TransportSocket,
    lists: Lists,
) -> Result<bool, String> {
    for one in &mut cluster.transport_socket_matches {
        let merged = merged_socket(one.transport_socket.as_ref(), Some(said), lists)?;
        if let Some(merged) = merged {
            one.transport_socket = Some(merged);
            return Ok(true);
        }
    }
    if !cluster.transport_socket_matches.is_empty() {
        // Envoy looks at the matches only, so it would have no effect.
        return Ok(true);
    }
    let merged = merged_socket(cluster.transport_socket.as_ref(), Some(said), lists)?;
    let done = merged.is_some();
    if done {
        cluster.transport_socket = merged;
    }
    Ok(done)
}
