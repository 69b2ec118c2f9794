//! Route configurations: which cluster a request goes to.
//!
//! In: a snapshot, a scope and a class of proxies. Out: a view for each route configuration that the
//! class's listeners name, and for a view the configuration. VirtualServices are a stage of their own
//! (`virtual_service`) that fills in routes for hosts.

mod assembly;
pub(crate) mod check;
pub(crate) mod destination;
pub(crate) mod domain;
mod gateway;
pub(crate) mod inbound;
mod memo;
mod outbound;
pub(crate) mod part;
mod plan;
pub(crate) mod virtual_service;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ironsail_api::istio::networking::{HttpRetry, OutboundMode};
use ironsail_api::mesh::MeshOutboundMode;
use ironsail_api::wire::Wire;
use ironsail_model::{ProxyClass, ProxyKind, Resolution, Scope, Service, Snapshot, full_host};
use ironsail_names::{ClusterName, Hostname};
use ironsail_proto::envoy::config::route::v3::RouteConfiguration;

use crate::filter::settings::{Egress, Settings};
use crate::filter::wire;
use crate::listener::digest;
use crate::patch::Context;
use crate::{Key, Translated, telemetry};

pub use assembly::{Assembly, Kept};
pub use memo::Memo;
pub(crate) use virtual_service::config_path;

/// One route configuration and all it may depend on.
#[derive(Clone, Debug, Hash)]
pub enum RouteView<'a> {
    Sidecar(Box<outbound::Outbound<'a>>),
    Gateway(Box<gateway::Routes<'a>>),
    /// A name that no listener has any more: an old listener may still drain with it.
    Empty(String),
}

/// Who asks, where a rule looks at it; empty where none does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) labels: Arc<BTreeMap<String, String>>,
    pub(crate) namespace: String,
}

/// What the mesh says about retries. Hashes by what it says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retries(Option<(Arc<HttpRetry>, String)>);

impl Retries {
    fn of(snapshot: &Snapshot) -> Self {
        let own = snapshot.mesh.config.default_http_retry_policy.as_ref();
        Self(own.map(|own| (Arc::new(own.clone()), own.write().to_string())))
    }

    pub(crate) fn get(&self) -> Option<&HttpRetry> {
        self.0.as_ref().map(|(own, _)| &**own)
    }
}

impl Hash for Retries {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ref().map(|(_, text)| text).hash(state);
    }
}

/// All route configurations that listeners of the class name, in the order of their names.
pub fn views<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
) -> Vec<RouteView<'a>> {
    let settings = settings_of(snapshot, scope, class);
    let mut views: Vec<RouteView<'a>> = match class.kind {
        ProxyKind::Sidecar => plan::all(snapshot, scope, class, &settings)
            .into_iter()
            .map(|one| RouteView::Sidecar(Box::new(one)))
            .collect(),
        ProxyKind::Router => gateway::all(snapshot, scope, class, &settings)
            .into_iter()
            .map(|one| RouteView::Gateway(Box::new(one)))
            .collect(),
        ProxyKind::Waypoint | ProxyKind::Ztunnel | ProxyKind::GrpcClient => Vec::new(),
    };
    views.sort_by(|a, b| a.name().cmp(b.name()));
    views
}

/// The configuration that is called `name`; an empty one if the class has none of that name.
pub fn view<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    name: &str,
) -> RouteView<'a> {
    let settings = settings_of(snapshot, scope, class);
    let found = match class.kind {
        ProxyKind::Sidecar => plan::one(snapshot, scope, class, &settings, name)
            .map(|one| RouteView::Sidecar(Box::new(one))),
        ProxyKind::Router => gateway::all(snapshot, scope, class, &settings)
            .into_iter()
            .find(|one| one.name() == name)
            .map(|one| RouteView::Gateway(Box::new(one))),
        ProxyKind::Waypoint | ProxyKind::Ztunnel | ProxyKind::GrpcClient => None,
    };
    found.unwrap_or_else(|| RouteView::Empty(name.to_owned()))
}

/// The routes to one service and port alone, as a sidecar has them where the protocol is sniffed.
pub(crate) fn of_service<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    host: &Hostname,
    port: u16,
) -> Option<RouteView<'a>> {
    let settings = settings_of(snapshot, scope, class);
    let one = plan::one(snapshot, scope, class, &settings, &format!("{host}:{port}"))?;
    Some(RouteView::Sidecar(Box::new(one)))
}

impl RouteView<'_> {
    pub fn name(&self) -> &str {
        match self {
            Self::Sidecar(one) => one.name(),
            Self::Gateway(one) => one.name(),
            Self::Empty(name) => name,
        }
    }

    /// The side of the mesh it is on.
    pub fn context(&self) -> Context {
        match self {
            Self::Sidecar(_) | Self::Empty(_) => Context::Outbound,
            Self::Gateway(_) => Context::Gateway,
        }
    }

    /// Equal keys, equal bytes.
    pub fn key(&self) -> u64 {
        Key::new("route").digest(digest(self)).finish()
    }
}

/// The route configuration of a view.
pub fn translate(view: &RouteView<'_>) -> Translated<RouteConfiguration> {
    assemble(view, &Memo::default()).message()
}

/// The route configuration of a view, of routes that the memo knows and of others.
pub fn assemble(view: &RouteView<'_>, memo: &Memo) -> Assembly {
    match view {
        RouteView::Sidecar(one) => one.assemble(memo),
        RouteView::Gateway(one) => one.assemble(memo),
        RouteView::Empty(name) => {
            let frame = RouteConfiguration {
                name: name.clone(),
                validate_clusters: wire::flag(false),
                ..Default::default()
            };
            Assembly::new(frame, Vec::new(), Vec::new())
        }
    }
}

/// The settings of a class's listeners and routes.
pub(crate) fn settings_of(snapshot: &Snapshot, scope: &Scope, class: &ProxyClass) -> Settings {
    let mut settings = Settings::resolve(&snapshot.mesh, class, egress(snapshot, scope));
    let dynamic = |service: &Arc<Service>| service.resolution == Resolution::DynamicDns;
    settings.dynamic_names = scope.services.iter().any(dynamic);
    telemetry::apply(&mut settings, snapshot, scope, class, &mut Vec::new());
    settings
}

/// What the Sidecar says about traffic to unknown places, or else the mesh.
fn egress(snapshot: &Snapshot, scope: &Scope) -> Egress {
    let own = scope.sidecar.as_ref().and_then(|sidecar| {
        let policy = sidecar.spec.outbound_traffic_policy.as_ref()?;
        if policy.mode == OutboundMode::RegistryOnly {
            return Some(Egress::RegistryOnly);
        }
        let Some(to) = &policy.egress_proxy else { return Some(Egress::AllowAny) };
        let namespace = sidecar.meta.namespace.parse().ok()?;
        let host = full_host(&to.host, &namespace, &snapshot.settings.domain).ok()?;
        let port = to.port_number().and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
        Some(Egress::Through(ClusterName::outbound(port, &to.subset, host).to_string()))
    });
    let mesh = || match snapshot.mesh.config.outbound_traffic_policy.as_ref().map(|p| p.mode) {
        Some(MeshOutboundMode::RegistryOnly) => Egress::RegistryOnly,
        Some(MeshOutboundMode::AllowAny) | None => Egress::AllowAny,
    };
    own.unwrap_or_else(mesh)
}

pub(crate) fn client_of(class: &ProxyClass) -> Client {
    Client { labels: class.labels.clone(), namespace: class.namespace.to_string() }
}

/// Other names of services: by the name they stand for.
pub(crate) fn aliases(scope: &Scope) -> BTreeMap<&Hostname, Vec<Hostname>> {
    let mut out: BTreeMap<&Hostname, Vec<Hostname>> = BTreeMap::new();
    for service in scope.services.iter().filter(|s| s.resolution == Resolution::Alias) {
        if let Some(real) = &service.alias {
            out.entry(real).or_default().push(service.hostname().clone());
        }
    }
    out
}
