//! The door to the translators: the views of a type, and their resources through the cache.
//!
//! In: a snapshot, a scope, a class and, where resources are made on demand, the names asked for; out:
//! encoded resources. Nothing is translated whose key is known.

use std::collections::BTreeSet;

use ironsail_model::{ProxyClass, ProxyKind, Scope, ServiceKey, Snapshot};
use ironsail_names::ClusterName;
use ironsail_proto::Message;
use ironsail_translate::{Translated, cluster, endpoint, grpc, listener, nametable, route, secret};
use ironsail_xds::{Name, Resource};

use crate::Kind;
use crate::cache::Cache;

/// What resources of a class are made from.
pub(crate) struct Inputs<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) scope: &'a Scope,
    pub(crate) class: &'a ProxyClass,
    /// Of types that are made on demand: what was asked for.
    pub(crate) names: &'a BTreeSet<Name>,
    /// The proxies may have Secrets of their namespace.
    pub(crate) may_read_secrets: bool,
}

/// All resources of a type.
pub(crate) fn all(kind: Kind, inputs: &Inputs<'_>, cache: &Cache) -> Vec<Resource> {
    if inputs.class.kind == ProxyKind::GrpcClient {
        return on_demand(kind, inputs, cache);
    }
    let Inputs { snapshot, scope, class, .. } = *inputs;
    let make = Make { kind, cache };
    match kind {
        Kind::Cluster => {
            let views = cluster::views(snapshot, scope, class);
            let one = |v: &cluster::ClusterView<'_>| {
                make.one(v.key(), || v.name(), || cluster::translate(v))
            };
            views.iter().map(one).collect()
        }
        Kind::Endpoint => {
            let views = endpoint::views(snapshot, scope, class);
            views.iter().map(|v| make.endpoint(v)).collect()
        }
        Kind::Listener => {
            let views = listener::views(snapshot, scope, class);
            let one = |v: &listener::ListenerView<'_>| {
                make.one(v.key(), || v.name(), || listener::translate(v))
            };
            views.iter().map(one).collect()
        }
        Kind::Route => {
            let views = route::views(snapshot, scope, class);
            let one = |v: &route::RouteView<'_>| {
                make.one(v.key(), || v.name().to_owned(), || route::translate(v))
            };
            views.iter().map(one).collect()
        }
        // Extensions are part of their listeners.
        Kind::Extension => Vec::new(),
        Kind::NameTable => {
            let view = nametable::view(snapshot, scope, class);
            vec![make.one(view.key(), || "name-table".into(), || nametable::translate(&view))]
        }
        Kind::Secret => secrets(inputs, &make),
    }
}

/// The load assignments of some services.
pub(crate) fn endpoints_of(
    services: &BTreeSet<ServiceKey>,
    inputs: &Inputs<'_>,
    cache: &Cache,
) -> Vec<Resource> {
    let make = Make { kind: Kind::Endpoint, cache };
    let seen = services.iter().filter_map(|key| {
        // The class may see another service of that name, or none.
        inputs.scope.service(&key.hostname).filter(|service| service.key == *key)
    });
    seen.flat_map(|service| {
        endpoint::of_service(inputs.snapshot, inputs.scope, inputs.class, service)
    })
    .map(|view| make.endpoint(&view))
    .collect()
}

/// What clients without a proxy asked for.
fn on_demand(kind: Kind, inputs: &Inputs<'_>, cache: &Cache) -> Vec<Resource> {
    let Inputs { snapshot, scope, class, names, .. } = *inputs;
    let make = Make { kind, cache };
    let names = names.iter().map(|name| &**name);
    match kind {
        Kind::Listener => names
            .filter_map(|name| {
                let view = grpc::listener_view(snapshot, scope, class, name)?;
                Some(make.one(view.key(), || name.into(), || grpc::translate_listener(&view)))
            })
            .collect(),
        Kind::Route => names
            .filter_map(|name| {
                let view = grpc::route_view(snapshot, scope, class, name)?;
                Some(make.one(view.key(), || name.into(), || grpc::translate_route(&view)))
            })
            .collect(),
        Kind::Cluster => names
            .filter_map(|name| {
                let view = grpc::cluster_view(snapshot, scope, class, name)?;
                Some(make.one(view.key(), || name.into(), || grpc::translate_cluster(&view)))
            })
            .collect(),
        Kind::Endpoint => names
            .filter_map(|name| {
                let name: ClusterName = name.parse().ok()?;
                Some(make.endpoint(&endpoint::view(snapshot, scope, class, &name)?))
            })
            .collect(),
        Kind::Secret => secrets(inputs, &make),
        Kind::Extension | Kind::NameTable => Vec::new(),
    }
}

fn secrets(inputs: &Inputs<'_>, make: &Make<'_>) -> Vec<Resource> {
    let names = inputs.names.iter().map(|name| &**name);
    let views = secret::views(inputs.snapshot, inputs.class, names, inputs.may_read_secrets);
    let one = |view: &secret::SecretView<'_>| {
        make.maybe(view.key(), || view.name.to_owned(), || secret::translate(view))
    };
    views.iter().filter_map(one).collect()
}

/// Makes resources of one type.
struct Make<'a> {
    kind: Kind,
    cache: &'a Cache,
}

impl Make<'_> {
    fn one<M: Message>(
        &self,
        key: u64,
        name: impl Fn() -> String,
        translate: impl Fn() -> Translated<M>,
    ) -> Resource {
        let make = || translate().map(|value| Resource::new(name(), value.encode_to_vec()));
        self.cache.resource(self.kind, key, make)
    }

    /// A view that may come to nothing; then only what there is to say is kept.
    fn maybe<M: Message>(
        &self,
        key: u64,
        name: impl Fn() -> String,
        translate: impl Fn() -> Translated<Option<M>>,
    ) -> Option<Resource> {
        let make = || {
            translate().map(|value| match value {
                Some(value) => Resource::new(name(), value.encode_to_vec()),
                None => Resource::new(name(), Vec::new()),
            })
        };
        let resource = self.cache.resource(self.kind, key, make);
        (!resource.body().is_empty()).then_some(resource)
    }

    fn endpoint(&self, view: &endpoint::EndpointView<'_>) -> Resource {
        self.one(view.key(), || view.name.to_string(), || endpoint::translate(view))
    }
}
