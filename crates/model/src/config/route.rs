//! VirtualServices by the gateway that they are bound to.

use std::collections::BTreeSet;
use std::sync::Arc;

use ironsail_api::istio::networking::VirtualService;
use ironsail_api::{ObjectKey, Resource};
use ironsail_names::Namespace;

use super::{GatewayRef, Order};
use crate::Visibility;
use crate::table::Map;

/// Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RouteIndex {
    gateways: Map<GatewayRef, Map<Order, Bound>>,
}

/// A VirtualService and who may see it.
#[derive(Clone, Debug)]
pub struct Bound {
    pub object: Arc<Resource<VirtualService>>,
    pub export_to: Visibility,
}

impl RouteIndex {
    /// Those bound to `gateway` that proxies of `namespace` may see, oldest first.
    pub fn bound_to<'a>(
        &'a self,
        gateway: &GatewayRef,
        namespace: &'a Namespace,
    ) -> impl Iterator<Item = &'a Arc<Resource<VirtualService>>> {
        let bound = self.gateways.get(gateway).into_iter().flat_map(Map::values);
        bound.filter(|bound| bound.export_to.includes(namespace)).map(|bound| &bound.object)
    }

    /// All gateways that something is bound to.
    pub fn gateways(&self) -> impl Iterator<Item = &GatewayRef> {
        self.gateways.keys()
    }

    /// Everything bound to `gateway`, seen or not.
    pub fn all(&self, gateway: &GatewayRef) -> impl Iterator<Item = &Bound> {
        self.gateways.get(gateway).into_iter().flat_map(Map::values)
    }

    pub(crate) fn insert(
        &mut self,
        key: &ObjectKey,
        object: &Arc<Resource<VirtualService>>,
        defaults: &[String],
    ) {
        let Ok(own) = key.namespace.parse::<Namespace>() else { return };
        let (export_to, _) = Visibility::parse(&object.spec.export_to, defaults, &own);
        let bound = Bound { object: object.clone(), export_to };
        let order = Order::of(key, object);
        for gateway in gateways_of(&object.spec, &own) {
            let add = |all: &mut Map<_, _>| all.insert(order.clone(), bound.clone());
            self.gateways.update(&gateway, add, Map::is_empty);
        }
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey, object: &Arc<Resource<VirtualService>>) {
        let Ok(own) = key.namespace.parse::<Namespace>() else { return };
        let order = Order::of(key, object);
        for gateway in gateways_of(&object.spec, &own) {
            let drop = |all: &mut Map<_, _>| {
                all.remove(&order);
            };
            self.gateways.update(&gateway, drop, Map::is_empty);
        }
    }
}

/// A VirtualService that names none is for the mesh. One without hosts is a delegate: bound to nothing.
pub(crate) fn gateways_of(spec: &VirtualService, own: &Namespace) -> BTreeSet<GatewayRef> {
    match (spec.hosts.is_empty(), spec.gateways.is_empty()) {
        (true, _) => BTreeSet::new(),
        (false, true) => BTreeSet::from([GatewayRef::Mesh]),
        (false, false) => spec.gateways.iter().map(|name| GatewayRef::parse(name, own)).collect(),
    }
}
