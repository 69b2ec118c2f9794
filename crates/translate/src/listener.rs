//! Listeners: where a proxy takes connections, and what becomes of them.
//!
//! In: a snapshot, a scope and a class of proxies. Out: a view for each listener, and for a view the
//! listener. A view owns resolved values or borrows objects by digest, so that a listener is made anew
//! only if something it mentions has changed.

mod chain;
mod gateway;
mod ignored;
mod inbound;
mod outbound;
mod own;
mod plan;
mod server_tls;
pub(crate) mod tcp;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ironsail_api::Diagnostic;
use ironsail_model::{Hashed, ProxyClass, ProxyKind, Scope, Snapshot};
use ironsail_names::VIRTUAL_OUTBOUND;
use ironsail_proto::envoy::config::listener::v3::listener::ConnectionBalanceConfig;
use ironsail_proto::envoy::config::listener::v3::listener::connection_balance_config::{
    BalanceType, ExactBalance,
};
use ironsail_proto::envoy::config::listener::v3::{AdditionalAddress, Listener};
use xxhash_rust::xxh3::Xxh3Default;

use crate::filter::settings::{Interception, Settings};
use crate::filter::{http, network, wire};
use crate::patch::Context;
use crate::route::settings_of;
use crate::{Key, Translated};

pub(crate) use gateway::{Merged, ServerKind, passed_on};
pub(crate) use outbound::HTTP_PROXY;

/// One listener and all it may depend on.
#[derive(Clone, Debug, Hash)]
pub enum ListenerView<'a> {
    Outbound(Box<outbound::Outbound<'a>>),
    VirtualOutbound(Arc<Hashed<Settings>>),
    Inbound(Box<inbound::Inbound>),
    Gateway(Box<gateway::Listening<'a>>),
}

/// The filters of stages that stand before others, filled by policies and telemetry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stages {
    pub(crate) outbound_http: http::Slots,
    pub(crate) outbound_network: network::Slots,
    pub(crate) inbound_http: http::Slots,
    pub(crate) inbound_network: network::Slots,
}

impl Stages {
    /// Fills the slots of policies: those of a workload guard what comes in, those of a gateway what
    /// goes out through it.
    fn police(&mut self, view: &ListenerView<'_>) -> Vec<Diagnostic> {
        let (guard, requests, connections) = match view {
            ListenerView::Inbound(one) => {
                (&one.guard, &mut self.inbound_http, &mut self.inbound_network)
            }
            ListenerView::Gateway(one) => {
                (&one.guard, &mut self.outbound_http, &mut self.outbound_network)
            }
            ListenerView::Outbound(_) | ListenerView::VirtualOutbound(_) => return Vec::new(),
        };
        guard.network(connections);
        guard.http(requests)
    }
}

/// All listeners of a class, in the order of their names.
pub fn views<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
) -> Vec<ListenerView<'a>> {
    let settings = Arc::new(Hashed::new(settings_of(snapshot, scope, class)));
    let mut views = match class.kind {
        ProxyKind::Sidecar => {
            let mut views: Vec<_> = plan::outbound(snapshot, scope, class, &settings)
                .into_iter()
                .map(|one| ListenerView::Outbound(Box::new(one)))
                .collect();
            if settings.interception != Interception::None {
                views.push(ListenerView::VirtualOutbound(settings.clone()));
            }
            let own = own::inbound(snapshot, scope, class, &settings);
            views.extend(own.into_iter().map(|one| ListenerView::Inbound(Box::new(one))));
            views
        }
        ProxyKind::Router => gateway::listeners(snapshot, scope, class, &settings)
            .into_iter()
            .filter(|one| !one.is_empty())
            .map(|one| ListenerView::Gateway(Box::new(one)))
            .collect(),
        ProxyKind::Waypoint | ProxyKind::Ztunnel | ProxyKind::GrpcClient => Vec::new(),
    };
    views.sort_by_cached_key(ListenerView::name);
    views
}

impl ListenerView<'_> {
    pub fn name(&self) -> String {
        match self {
            Self::Outbound(one) => one.name(),
            Self::VirtualOutbound(_) => VIRTUAL_OUTBOUND.to_owned(),
            Self::Inbound(one) => one.name(),
            Self::Gateway(one) => one.name(),
        }
    }

    /// The side of the mesh it is on.
    pub fn context(&self) -> Context {
        match self {
            Self::Outbound(_) | Self::VirtualOutbound(_) => Context::Outbound,
            Self::Inbound(_) => Context::Inbound,
            Self::Gateway(_) => Context::Gateway,
        }
    }

    /// Equal keys, equal bytes.
    pub fn key(&self) -> u64 {
        Key::new("listener").digest(digest(self)).finish()
    }
}

/// The listener of a view.
pub fn translate(view: &ListenerView<'_>) -> Translated<Listener> {
    let mut stages = Stages::default();
    let policed = stages.police(view);
    let mut translated = match view {
        ListenerView::Outbound(one) => one.translate(&stages),
        ListenerView::VirtualOutbound(settings) => {
            Translated::new(outbound::virtual_outbound(settings, &stages))
        }
        ListenerView::Inbound(one) => one.translate(&stages),
        ListenerView::Gateway(one) => one.translate(&stages),
    };
    translated.diagnostics.extend(policed);
    translated
}

/// The digest of all that a view holds.
pub(crate) fn digest(value: &impl Hash) -> u64 {
    let mut hasher = Xxh3Default::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The addresses behind the first.
fn additional(binds: &[&str], port: u16) -> Vec<AdditionalAddress> {
    let rest = binds.iter().skip(1);
    rest.map(|bind| AdditionalAddress {
        address: Some(wire::address(bind, port)),
        ..Default::default()
    })
    .collect()
}

fn exact_balance(on: bool) -> Option<ConnectionBalanceConfig> {
    on.then(|| ConnectionBalanceConfig {
        balance_type: Some(BalanceType::ExactBalance(ExactBalance {})),
    })
}
