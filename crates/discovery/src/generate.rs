//! The door to the translators: the views of a type, and their resources through the cache.
//!
//! In: a snapshot, a scope, a class and, where resources are made on demand, the names asked for; out:
//! encoded resources. Nothing is translated whose key is known.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use ironsail_api::Diagnostic;
use ironsail_model::{ProxyClass, ProxyKind, Scope, ServiceKey, Snapshot};
use ironsail_names::ClusterName;
use ironsail_proto::Message;
use ironsail_translate::extend::Extensions;
use ironsail_translate::patch::{self, Patches, Stage};
use ironsail_translate::{
    Key, Translated, cluster, endpoint, grpc, listener, nametable, route, secret,
};
use ironsail_xds::{Name, Resource};

use crate::Kind;
use crate::cache::{Cache, Fresh};

/// What resources of a class are made from.
pub(crate) struct Inputs<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) scope: &'a Scope,
    pub(crate) class: &'a ProxyClass,
    /// Of types that are made on demand: what was asked for.
    pub(crate) names: &'a BTreeSet<Name>,
    /// The proxies may have Secrets of their namespace.
    pub(crate) may_read_secrets: bool,
    /// Where what is said about objects goes.
    pub(crate) said: &'a Said,
}

/// What translating the views of a class said about objects. It is kept with the views that are in
/// use, not with resources: two views may differ in nothing but what there is to say.
#[derive(Default)]
pub(crate) struct Said(RefCell<Vec<Arc<[Diagnostic]>>>);

impl Said {
    pub(crate) fn into_inner(self) -> Vec<Arc<[Diagnostic]>> {
        self.0.into_inner()
    }
}

/// All resources of a type.
pub(crate) fn all(kind: Kind, inputs: &Inputs<'_>, cache: &Cache) -> Vec<Resource> {
    if inputs.class.kind == ProxyKind::GrpcClient {
        return on_demand(kind, inputs, cache);
    }
    let Inputs { snapshot, scope, class, .. } = *inputs;
    let make = Make { kind, cache, said: inputs.said };
    let patches = Patches::of(snapshot, class);
    let extensions = Extensions::of(snapshot, scope, class);
    match kind {
        Kind::Cluster => {
            let views = cluster::views(snapshot, scope, class);
            let one = |v: &cluster::ClusterView<'_>| {
                let patched = |patches: &Patches<'_>| {
                    encoded(patches.cluster(v.context(), &v.own_hosts(), cluster::translate(v)))
                };
                let at = (Stage::Cluster, v.context());
                make.patched(&patches, at, v.key(), || v.name(), patched)
            };
            let mut all: Vec<Resource> = views.iter().filter_map(one).collect();
            make.added(class, &mut all, |context| patches.added_clusters(context), |c| &c.name);
            all
        }
        Kind::Endpoint => {
            let views = endpoint::views(snapshot, scope, class);
            views.iter().map(|v| make.endpoint(v)).collect()
        }
        Kind::Listener => {
            let views = listener::views(snapshot, scope, class);
            let one = |v: &listener::ListenerView<'_>| {
                let context = v.context();
                let key = extensions.key(v.key(), context);
                let patched = |patches: &Patches<'_>| {
                    let made = extensions.listener(context, listener::translate(v));
                    encoded(patches.listener(context, made))
                };
                make.patched(&patches, (Stage::Listener, context), key, || v.name(), patched)
            };
            let mut all: Vec<Resource> = views.iter().filter_map(one).collect();
            make.added(class, &mut all, |context| patches.added_listeners(context), |l| &l.name);
            all
        }
        Kind::Route => {
            let views = route::views(snapshot, scope, class);
            let one = |v: &route::RouteView<'_>| {
                let at = (Stage::Route, v.context());
                let patched = |patches: &Patches<'_>| {
                    let made = route::assemble(v, &cache.routes);
                    if patches.concern(at.0, at.1) {
                        return encoded(patches.route(at.1, made.message()).map(Some));
                    }
                    let (bytes, kept) = made.encode();
                    (bytes.map(Some), kept)
                };
                make.patched(&patches, at, v.key(), || v.name().to_owned(), patched)
            };
            views.iter().filter_map(one).collect()
        }
        Kind::Extension => by_name(inputs, &extensions, &patches, &make),
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
    let make = Make { kind: Kind::Endpoint, cache, said: inputs.said };
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
    let make = Make { kind, cache, said: inputs.said };
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

/// Configurations of filters, those that were asked for.
fn by_name(
    inputs: &Inputs<'_>,
    extensions: &Extensions<'_>,
    patches: &Patches<'_>,
    make: &Make<'_>,
) -> Vec<Resource> {
    let Inputs { snapshot, class, may_read_secrets, .. } = *inputs;
    let mut all: Vec<Resource> = Vec::new();
    for view in extensions.views(snapshot, class, may_read_secrets) {
        all.extend(make.maybe(view.key(), || view.name(), || view.translate()));
    }
    for (key, made) in patches.added_extensions(inputs.class.kind) {
        let name = made.value.as_ref().map(|one| one.name.clone()).unwrap_or_default();
        all.extend(make.maybe(key, || name.clone(), || made.clone()));
    }
    all.retain(|one| inputs.names.contains(one.name()));
    all
}

/// A resource that may have come to nothing, encoded, and what is to be held with it.
type Encoded = (Translated<Option<Vec<u8>>>, route::Kept);

fn encoded<M: Message>(made: Translated<Option<M>>) -> Encoded {
    let bytes = made.map(|value| value.map(|value| value.encode_to_vec()));
    (bytes, route::Kept::default())
}

/// Makes resources of one type.
struct Make<'a> {
    kind: Kind,
    cache: &'a Cache,
    said: &'a Said,
}

impl Make<'_> {
    fn through_cache(&self, key: u64, make: impl Fn() -> Fresh) -> Resource {
        let (resource, said) = self.cache.resource(self.kind, key, make);
        if !said.is_empty() {
            self.said.0.borrow_mut().push(said);
        }
        resource
    }

    fn one<M: Message>(
        &self,
        key: u64,
        name: impl Fn() -> String,
        translate: impl Fn() -> Translated<M>,
    ) -> Resource {
        let make = || translate().map(|value| Resource::new(name(), value.encode_to_vec())).into();
        self.through_cache(key, make)
    }

    /// A view that may come to nothing; then only what there is to say is kept.
    fn maybe<M: Message>(
        &self,
        key: u64,
        name: impl Fn() -> String,
        translate: impl Fn() -> Translated<Option<M>>,
    ) -> Option<Resource> {
        self.bytes(key, name, || encoded(translate()))
    }

    /// The same, encoded already.
    fn bytes(
        &self,
        key: u64,
        name: impl Fn() -> String,
        translate: impl Fn() -> Encoded,
    ) -> Option<Resource> {
        let make = || {
            let (made, kept) = translate();
            let made = made.map(|body| Resource::new(name(), body.unwrap_or_default()));
            Fresh { made, kept }
        };
        let resource = self.through_cache(key, make);
        (!resource.body().is_empty()).then_some(resource)
    }

    /// A resource with its patches; if Envoy refused it, with fewer of them.
    fn patched(
        &self,
        patches: &Patches<'_>,
        (stage, context): (Stage, patch::Context),
        key: u64,
        name: impl Fn() -> String,
        translate: impl Fn(&Patches<'_>) -> Encoded,
    ) -> Option<Resource> {
        let mut why: Option<String> = None;
        for number in 0.. {
            let attempt = patches.attempt(number, stage, context);
            let key = attempt.patches.key(key, stage, context);
            let key = match &why {
                None => key,
                Some(why) => {
                    Key::new("refused").digest(key).number(number as u64).text(why).finish()
                }
            };
            let make = || {
                let mut made = translate(&attempt.patches);
                if let Some(why) = &why {
                    made.0.diagnostics.extend(attempt.told(&name(), why));
                }
                made
            };
            let made = self.bytes(key, &name, make);
            let refused = made.as_ref().and_then(|one| self.cache.refused(self.kind, one));
            match refused.filter(|_| !attempt.is_last) {
                None => return made,
                Some(reason) => why = why.or(Some(reason)),
            }
        }
        None
    }

    /// What patches add, behind what is there; the first of a name counts.
    fn added<M: Message + Clone>(
        &self,
        class: &ProxyClass,
        all: &mut Vec<Resource>,
        of: impl Fn(patch::Context) -> Vec<(u64, Translated<Option<M>>)>,
        name: impl Fn(&M) -> &str,
    ) {
        for (key, made) in patch::contexts(class.kind).iter().flat_map(|context| of(*context)) {
            let name = made.value.as_ref().map(|one| name(one).to_owned()).unwrap_or_default();
            let one = self.maybe(key, || name.clone(), || made.clone());
            if let Some(one) = one.filter(|one| all.iter().all(|o| o.name() != one.name())) {
                all.push(one);
            }
        }
    }

    fn endpoint(&self, view: &endpoint::EndpointView<'_>) -> Resource {
        self.one(view.key(), || view.asked_as(), || endpoint::translate(view))
    }
}
