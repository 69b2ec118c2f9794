//! Clusters of clients: endpoints by EDS, mTLS if a rule asks for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use ironsail_api::istio::networking::{ClientTlsMode, LbPolicy, SimpleLb, Subset};
use ironsail_api::{Code, Severity};
use ironsail_model::{MergedRule, ProxyClass, Scope, Service, Snapshot};
use ironsail_names::{ClusterName, SpiffeId};
use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::cluster::v3::cluster::LbPolicy as EnvoyPolicy;

use super::message;
use crate::cluster::{Draft, Policy, balance, unsupported};
use crate::{Key, Translated, tls};

/// What one cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterView<'a> {
    pub name: ClusterName,
    service: &'a Arc<Service>,
    rule: Option<&'a Arc<MergedRule>>,
    subset: Option<&'a Subset>,
    identities: Option<&'a BTreeSet<SpiffeId>>,
}

/// The view of the cluster that is called `name`.
pub fn view<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &ProxyClass,
    name: &str,
) -> Option<ClusterView<'a>> {
    let name: ClusterName = name.parse().ok()?;
    let service = scope.service(name.host.as_ref()?)?;
    service.port(name.port)?;
    let rule = scope.rule(snapshot, class, service);
    let subset = match &*name.subset {
        "" => None,
        subset => Some(rule?.spec.subsets.iter().find(|s| s.name == subset)?),
    };
    let endpoints = snapshot.endpoints.get(&service.key);
    Some(ClusterView { name, service, rule, subset, identities: endpoints.map(|e| &*e.identities) })
}

impl ClusterView<'_> {
    pub fn key(&self) -> u64 {
        Key::new("grpc-cluster")
            .display(&self.name)
            .digest(self.service.digest)
            .maybe(self.rule, |k, r| k.digest(r.digest))
            .maybe(self.identities, |k, ids| k.digest(ironsail_model::digest(ids)))
            .finish()
    }
}

pub fn translate(view: &ClusterView<'_>) -> Translated<Cluster> {
    let mut cluster = message::eds_cluster(view.name.to_string());
    let Some(rule) = view.rule else { return cluster.into() };
    let policy = Policy::of(&rule.spec, view.subset, view.name.port);
    let mut diagnostics = unsupported::of(view.rule.map(|r| &**r), &policy);
    let mut refuse = |field: &str, why: &str| {
        diagnostics.push(unsupported::on(rule, Code::NOT_SUPPORTED, Severity::Warning, field, why));
    };
    match policy.load_balancer.map(|lb| &lb.policy) {
        Some(LbPolicy::ConsistentHash(hash)) => {
            let mut draft = Draft::of(cluster);
            balance::consistent(&mut draft, hash);
            cluster = draft.cluster;
            if cluster.lb_policy == i32::from(EnvoyPolicy::Maglev) {
                cluster.lb_policy = EnvoyPolicy::RingHash.into();
                cluster.lb_config = None;
                refuse("spec.trafficPolicy.loadBalancer", "gRPC has ring hash only");
            }
        }
        None
        | Some(LbPolicy::Unset | LbPolicy::Simple(SimpleLb::RoundRobin | SimpleLb::Unspecified)) => {
        }
        Some(_) => refuse("spec.trafficPolicy.loadBalancer", "gRPC without a proxy takes turns"),
    }
    match policy.tls.map(|t| t.mode) {
        None | Some(ClientTlsMode::Disable) => {}
        Some(ClientTlsMode::IstioMutual) => {
            let own = view.identities.into_iter().flatten().map(ToString::to_string);
            let names: BTreeSet<String> =
                own.chain(view.service.subject_alt_names.clone()).collect();
            let context = message::client_tls(names.iter().map(String::as_str));
            cluster.transport_socket = Some(tls::socket(&context));
        }
        Some(_) => {
            refuse("spec.trafficPolicy.tls.mode", "not supported yet for gRPC without a proxy");
        }
    }
    Translated { value: cluster, diagnostics }
}
