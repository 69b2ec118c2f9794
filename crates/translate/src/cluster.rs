//! Clusters: where traffic can go. One view, one cluster.
//!
//! In: a scope, what the class of proxies says of itself, the mesh's defaults. Out: for each port of
//! each service, and each subset, a cluster; those of the workload's own ports; the fixed ones.

pub(crate) mod balance;
mod defaults;
mod draft;
mod fixed;
mod inbound;
mod outbound;
mod outlier;
mod policy;
mod pool;
mod security;
mod stat;
pub(crate) mod unsupported;
mod views;

pub(crate) use draft::Draft;
pub(crate) use outbound::PERSISTENT_SESSION;
pub(crate) use policy::Policy;
pub use views::{of_service, view, views};

use ironsail_model::{Mesh, Service};
use ironsail_names::{BLACK_HOLE_CLUSTER, INBOUND_PASSTHROUGH_CLUSTER, PASSTHROUGH_CLUSTER};
use ironsail_proto::envoy::config::cluster::v3::Cluster;

use crate::patch::Context;
use crate::{Key, Translated};
use defaults::Defaults;
use draft::Family;
use inbound::Inbound;
use outbound::Outbound;

/// What one cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterView<'a> {
    kind: Kind<'a>,
    mesh: &'a Mesh,
    mesh_digest: u64,
    /// Not of what the cluster is made, but of which patches are about it.
    gateway: bool,
}

#[derive(Clone, Debug)]
enum Kind<'a> {
    Passthrough,
    BlackHole,
    InboundPassthrough(Family),
    Outbound(Box<Outbound<'a>>),
    Inbound(Box<Inbound<'a>>),
}

impl ClusterView<'_> {
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Passthrough => PASSTHROUGH_CLUSTER.into(),
            Kind::BlackHole => BLACK_HOLE_CLUSTER.into(),
            Kind::InboundPassthrough(_) => INBOUND_PASSTHROUGH_CLUSTER.into(),
            Kind::Outbound(outbound) => outbound.called(),
            Kind::Inbound(inbound) => inbound.name().to_string(),
        }
    }

    /// The side of the mesh it is on.
    pub fn context(&self) -> Context {
        match &self.kind {
            Kind::Inbound(_) | Kind::InboundPassthrough(_) => Context::Inbound,
            _ if self.gateway => Context::Gateway,
            Kind::Passthrough | Kind::BlackHole | Kind::Outbound(_) => Context::Outbound,
        }
    }

    /// The services of a port of the workload's own.
    pub fn own_hosts(&self) -> Vec<&str> {
        match &self.kind {
            Kind::Inbound(inbound) => inbound.hosts(),
            _ => Vec::new(),
        }
    }

    pub fn key(&self) -> u64 {
        let key = Key::new("cluster").digest(self.mesh_digest);
        match &self.kind {
            Kind::Passthrough => key.number(0),
            Kind::BlackHole => key.number(1),
            Kind::InboundPassthrough(family) => key.number(2).number(*family as u64),
            Kind::Outbound(outbound) => outbound.write(key.number(3)),
            Kind::Inbound(inbound) => inbound.write(key.number(4)),
        }
        .finish()
    }
}

/// Whether a cluster of `service` gets its endpoints by EDS.
pub(crate) fn uses_eds(service: &Service, sidecar: bool, passthrough: bool) -> bool {
    outbound::discovery(service, sidecar, passthrough) == draft::Discovery::Eds
}

pub fn translate(view: &ClusterView<'_>) -> Translated<Cluster> {
    let mesh = Defaults::of(view.mesh);
    let timeout = mesh.connect_timeout.into();
    match &view.kind {
        Kind::Passthrough => fixed::passthrough(timeout).into(),
        Kind::BlackHole => fixed::black_hole(timeout).into(),
        Kind::InboundPassthrough(family) => fixed::inbound_passthrough(timeout, *family).into(),
        Kind::Outbound(outbound) => outbound.translate(&mesh),
        Kind::Inbound(inbound) => inbound.translate(&mesh),
    }
}
