//! Connections that are passed on as bytes: the cluster that the TCP proxy names.

use ironsail_names::{BLACK_HOLE_CLUSTER, ClusterName};
use ironsail_proto::envoy::config::core::v3::Metadata;
use ironsail_proto::envoy::extensions::filters::network::tcp_proxy::v3::{
    TcpProxy, tcp_proxy::ClusterSpecifier,
};

use super::Walk;
use crate::answer::{Origin, Outcome, Side, Verdict};
use crate::config::Config;
use crate::object::{Known, from_path};
use crate::upstream::about;

impl Walk<'_> {
    pub(super) fn pass(
        &mut self,
        config: &Config,
        proxy: &TcpProxy,
        metadata: Option<&Metadata>,
    ) -> Outcome {
        let origin = about(metadata, "config").and_then(from_path);
        let origin = origin.map(|object| {
            let list = if self.question.url.is_tls() { "spec.tls" } else { "spec.tcp" };
            Origin::new(object, list)
        });
        let weighted: Vec<(String, u32)> = match &proxy.cluster_specifier {
            Some(ClusterSpecifier::Cluster(name)) => vec![(name.clone(), 1)],
            Some(ClusterSpecifier::WeightedClusters(all)) => {
                all.clusters.iter().map(|one| (one.name.clone(), one.weight)).collect()
            }
            None => Vec::new(),
        };
        if weighted.first().is_some_and(|(name, _)| name == BLACK_HOLE_CLUSTER) {
            return self.black_hole();
        }
        if let Some((first, _)) = weighted.first() {
            self.step(Side::Client, "route", format!("to cluster {first}"));
            self.from(origin);
            self.warn_of_other_host(first);
        }
        self.each(&weighted, |walk, name| walk.forward(config, name, None, None))
    }

    fn black_hole(&mut self) -> Outcome {
        let from = self.world.objects.egress(self.pod);
        self.step(Side::Client, "route", "to nowhere: the destination is not declared");
        self.from([from.clone()]);
        let text =
            "only declared destinations may be reached, and this is none; the connection is closed";
        let mut culprits = vec![from];
        if self.named.known != Known::No {
            let space = self.named.object.map(crate::object::namespace).unwrap_or_default();
            culprits.splice(0..0, self.world.objects.hides(self.pod, &self.named.host, space));
        }
        Outcome::new(Verdict::Refused, text).logged("UH", "").by(culprits)
    }

    /// Without an address of its own, a connection may go to another service of the same port.
    fn warn_of_other_host(&mut self, cluster: &str) {
        let Ok(ClusterName { host: Some(host), port, .. }) = cluster.parse() else { return };
        let declared = matches!(self.named.known, Known::Service | Known::Entry);
        if !declared || host.as_str() == self.named.host || self.question.url.ip().is_some() {
            return;
        }
        if !self.world.objects.virtual_services(&self.named.host).is_empty() {
            return;
        }
        let other = self.world.objects.named(host.as_str(), &self.pod.namespace);
        let from: Vec<Origin> =
            self.named.origin("spec.hosts").into_iter().chain(other.origin("spec.hosts")).collect();
        let text = format!(
            "{host} has port {port} for itself: neither has an address by which they could be told apart"
        );
        self.warn(text, from);
    }
}
