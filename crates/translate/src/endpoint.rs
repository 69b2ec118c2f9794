//! Load assignments: the endpoints of one service, port and subset.
//!
//! In: a scope and what the class of proxies says of itself. Out: one view for each cluster that
//! gets its endpoints by EDS, and its load assignment. A view depends on the endpoints of its own
//! service and on nothing of the others.

mod locality;
mod network;
mod selection;
mod setting;

pub(crate) use locality::{Preference, Topology};
pub(crate) use selection::{Selection, Tls};
pub(crate) use setting::{Wide, preference};

use std::sync::Arc;

use ironsail_api::istio::networking::{ClientTlsMode, Subset};
use ironsail_model::{
    MergedRule, Protocol, ProxyClass, ProxyKind, Resolution, Scope, Service, ServicePort, Snapshot,
};
use ironsail_names::ClusterName;
use ironsail_proto::envoy::config::endpoint::v3::ClusterLoadAssignment;

use crate::cluster::{PERSISTENT_SESSION, Policy, uses_eds};
use crate::listener::passed_on;
use crate::{Key, Translated, mtls};

/// What one load assignment is made of.
#[derive(Clone, Debug)]
pub struct EndpointView<'a> {
    pub name: ClusterName,
    /// Of the cluster that a gateway passes mTLS on to by its server name.
    pub passed_on: bool,
    /// Of the proxy's own service: where those are who ask as it does.
    pub is_own: bool,
    pub(crate) selection: Selection<'a>,
}

impl EndpointView<'_> {
    /// As the proxy asks for it.
    pub fn asked_as(&self) -> String {
        match self.passed_on {
            _ if self.is_own => LOCAL_CLUSTER.to_owned(),
            true => self.name.sni(),
            false => self.name.to_string(),
        }
    }

    pub fn key(&self) -> u64 {
        let key = Key::new("endpoint").display(&self.name).flag(self.passed_on).flag(self.is_own);
        self.selection.write(key).finish()
    }
}

/// A load assignment for each cluster of `class` that has one.
pub fn views<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
) -> Vec<EndpointView<'a>> {
    scope.services.iter().flat_map(|service| of_service(snapshot, scope, class, service)).collect()
}

/// The load assignments of one service: all that a change of its endpoints may touch.
pub fn of_service<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    service: &'a Arc<Service>,
) -> impl Iterator<Item = EndpointView<'a>> {
    let rule = scope.rule(snapshot, class, service);
    let passed_on = passed_on(snapshot, class, service);
    let ports = service.ports.iter().filter(|port| port.protocol != Protocol::Udp);
    ports
        .flat_map(move |port| {
            let subsets = rule.map_or(&[][..], |r| &r.spec.subsets);
            let all = std::iter::once(None).chain(subsets.iter().map(Some));
            all.flat_map(move |subset| {
                let own = one(snapshot, class, service, port, rule, subset);
                let other = own
                    .clone()
                    .filter(|_| passed_on)
                    .map(|view| view.passing_on(snapshot, service));
                own.into_iter().chain(other)
            })
        })
        .chain(own_cluster(snapshot, class, service))
}

/// The cluster of a proxy's own service, which Envoy compares zones with. The bootstrap has it where
/// the proxy says so.
pub const LOCAL_CLUSTER: &str = "local_cluster";
const SELF_DISCOVERY: &str = "ENABLE_SELF_DISCOVERY";

/// If `service` is the first that the proxy itself serves, its endpoints under another name.
fn own_cluster<'a>(
    snapshot: &'a Snapshot,
    class: &'a ProxyClass,
    service: &'a Arc<Service>,
) -> Option<EndpointView<'a>> {
    let asks = class.metadata.get(SELF_DISCOVERY).is_some_and(|asks| asks == "true");
    let first = class.instances.first().filter(|first| asks && first.service == service.key)?;
    let port = service.port(first.port)?;
    let name = ClusterName::outbound(port.number, "", service.hostname().clone());
    let mut selection = select(snapshot, class, service, port, None, None);
    selection.preference = None;
    Some(EndpointView { name, passed_on: false, is_own: true, selection })
}

impl<'a> EndpointView<'a> {
    /// The same for connections whose mTLS a gateway does not open: only who takes mTLS, and nobody
    /// behind another gateway.
    fn passing_on(mut self, snapshot: &'a Snapshot, service: &'a Service) -> Self {
        self.passed_on = true;
        self.selection.only_mtls = true;
        self.selection.tls = Tls::ByPolicy(mtls::policies(snapshot, service.namespace()));
        self
    }
}

/// The load assignment of the cluster `name`, if the class has it.
pub fn view<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    name: &ClusterName,
) -> Option<EndpointView<'a>> {
    let service = scope.service(name.host.as_ref()?)?;
    let rule = scope.rule(snapshot, class, service);
    let subset = match &*name.subset {
        "" => None,
        subset => Some(rule?.spec.subsets.iter().find(|s| s.name == subset)?),
    };
    one(snapshot, class, service, service.port(name.port)?, rule, subset)
}

fn one<'a>(
    snapshot: &'a Snapshot,
    class: &'a ProxyClass,
    service: &'a Arc<Service>,
    port: &'a ServicePort,
    rule: Option<&'a Arc<MergedRule>>,
    subset: Option<&'a Subset>,
) -> Option<EndpointView<'a>> {
    let policy = rule.map(|r| Policy::of(&r.spec, subset, port.number)).unwrap_or_default();
    // A gRPC client has no other way to its endpoints.
    let sidecar = !matches!(class.kind, ProxyKind::Router | ProxyKind::GrpcClient);
    if service.resolution == Resolution::Alias
        || !uses_eds(service, sidecar, policy.is_passthrough())
    {
        return None;
    }
    let label = subset.map_or("", |s| &s.name);
    let name = ClusterName::outbound(port.number, label, service.hostname().clone());
    let selection = select(snapshot, class, service, port, rule, subset);
    Some(EndpointView { name, passed_on: false, is_own: false, selection })
}

/// What `class` uses of the endpoints behind one port and subset.
pub(crate) fn select<'a>(
    snapshot: &'a Snapshot,
    class: &'a ProxyClass,
    service: &'a Arc<Service>,
    port: &'a ServicePort,
    rule: Option<&'a Arc<MergedRule>>,
    subset: Option<&'a Subset>,
) -> Selection<'a> {
    let policy = rule.map(|r| Policy::of(&r.spec, subset, port.number)).unwrap_or_default();
    let endpoints = snapshot.endpoints.get(&service.key);
    let preference = preference(
        policy.load_balancer,
        service.distribution,
        Wide::of(&snapshot.mesh.config),
        policy.outlier_detection.is_some(),
    );
    let own = Topology {
        labels: &class.labels,
        locality: &class.locality,
        network: &class.network,
        cluster: class.cluster.as_str(),
        node: &class.node,
    };
    Selection {
        endpoints: endpoints.map_or(&[], |e| e.port(&port.name)),
        digest: endpoints.map_or(0, |e| e.digest),
        subset: subset.map(|s| &s.labels),
        tls: match policy.tls {
            Some(tls) => Tls::Fixed(tls.mode == ClientTlsMode::IstioMutual),
            None => Tls::ByPolicy(mtls::policies(snapshot, service.namespace())),
        },
        draining: service.labels.contains_key(PERSISTENT_SESSION),
        names: false,
        only_mtls: false,
        node: service.node_local.then_some(&*class.node),
        network: network::Network {
            own: &class.network,
            view: &class.network_view,
            gateways: &snapshot.gateways,
        },
        cluster: snapshot.mesh.is_cluster_local(service.hostname()).then_some(&class.cluster),
        preference: preference.map(|p| (p, own)),
    }
}

pub fn translate(view: &EndpointView<'_>) -> Translated<ClusterLoadAssignment> {
    Translated::new(ClusterLoadAssignment {
        cluster_name: view.asked_as(),
        endpoints: view.selection.build(),
        ..Default::default()
    })
}
