//! Proxies that get the same bytes: one class, one set of resources for each type.
//!
//! In: a publication; out: for each type that proxies of the class asked for, the set they should
//! have. Only types that the change may concern are looked at, and of those only views with a new key
//! are translated. Runs on threads that may block.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ironsail_api as api;
use ironsail_api::{Diagnostic, ObjectKey};
use ironsail_model::{ChangeSet, NodeMetadata, Proxy, ProxyClass, ProxyKind, Scope, Snapshot};
use ironsail_xds::{Interest, Name, Resource, Set};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::cache::Cache;
use crate::generate::{self, Inputs, Said};
use crate::{Kind, Publication};

/// Names that proxies of one class may ask for where resources are made on demand.
const MAX_NAMES: usize = 10_000;

/// A class of connected proxies.
pub struct Class {
    pub of: Arc<ProxyClass>,
    /// The proxies proved who they are.
    pub proven: bool,
    may_read_secrets: AtomicBool,
    /// Of the first proxy, held for all that differ from it in nothing that counts.
    metadata: OnceLock<Arc<NodeMetadata>>,
    /// Held by whoever brings the class up to date, so that others wait without blocking a thread.
    pub(crate) gate: tokio::sync::Mutex<()>,
    work: Mutex<Work>,
    sets: Mutex<[Option<Arc<Set>>; Kind::ALL.len()]>,
    /// What making them said about objects.
    said: Mutex<[Vec<Arc<[Diagnostic]>>; Kind::ALL.len()]>,
    /// The publication that the sets are made from.
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct Work {
    revision: u64,
    scope: Option<Scope>,
    /// What was asked for of types that are made on demand.
    names: [Arc<BTreeSet<Name>>; Kind::ALL.len()],
}

/// How much of a type needs a look.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Nothing,
    /// The load assignments of services whose endpoints changed.
    Services,
    Everything,
}

impl Class {
    pub(crate) fn new(of: Arc<ProxyClass>, proven: bool) -> Self {
        Self {
            of,
            proven,
            may_read_secrets: AtomicBool::new(false),
            metadata: OnceLock::new(),
            gate: tokio::sync::Mutex::default(),
            work: Mutex::default(),
            sets: Mutex::default(),
            said: Mutex::default(),
            revision: watch::Sender::new(0),
        }
    }

    /// Lets a proxy of the class hold what others hold already: thousands of copies of the same
    /// metadata would be most of what a connection costs.
    pub(crate) fn share(&self, proxy: &mut Proxy) {
        let known = self.metadata.get_or_init(|| proxy.metadata.clone());
        // What is not in the class and may yet decide on another one.
        let own = &proxy.metadata;
        if known.pod_ports == own.pod_ports && known.annotations == own.annotations {
            proxy.metadata = known.clone();
        }
        if proxy.labels == self.of.labels {
            proxy.labels = self.of.labels.clone();
        }
    }

    /// The set of a type, if anybody asked for it.
    pub fn set(&self, kind: Kind) -> Option<Arc<Set>> {
        self.sets.lock()[kind as usize].clone()
    }

    /// Tells of every change of any set.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// The set, if it is there and has whatever the proxy asked for.
    pub(crate) fn ready(&self, kind: Kind, interest: &Interest) -> Option<Arc<Set>> {
        let set = self.set(kind)?;
        if !self.is_on_demand(kind) {
            return Some(set);
        }
        let names = self.work.try_lock()?.names[kind as usize].clone();
        let enough = names.len() >= MAX_NAMES || interest.names.iter().all(|n| names.contains(n));
        enough.then_some(set)
    }

    fn is_on_demand(&self, kind: Kind) -> bool {
        self.of.kind == ProxyKind::GrpcClient || matches!(kind, Kind::Secret | Kind::Extension)
    }

    /// Makes the set of a type that nobody had asked for, or not by these names.
    pub(crate) fn add(
        &self,
        kind: Kind,
        interest: &Interest,
        publication: &Publication,
        cache: &Cache,
    ) -> Arc<Set> {
        let mut work = self.work.lock();
        self.catch_up(&mut work, publication, cache);
        if self.is_on_demand(kind) {
            let names = Arc::make_mut(&mut work.names[kind as usize]);
            let room = MAX_NAMES.saturating_sub(names.len());
            let new: Vec<Name> =
                interest.names.iter().filter(|n| !names.contains(*n)).take(room).cloned().collect();
            names.extend(new);
        } else if let Some(set) = self.set(kind) {
            return set;
        }
        let resources = self.all(kind, &work, publication, cache);
        let set = cache.set(kind, self.set(kind).as_ref(), resources);
        self.sets.lock()[kind as usize] = Some(set.clone());
        set
    }

    /// Whether the proxies may have Secrets of their namespace; said before they ask for them.
    pub(crate) fn may_read_secrets(&self, may: bool) {
        self.may_read_secrets.store(may && self.proven, Ordering::Relaxed);
    }

    /// Brings every set up to date, and wakes the proxies of the class if one changed.
    pub(crate) fn update(&self, publication: &Publication, cache: &Cache) {
        self.catch_up(&mut self.work.lock(), publication, cache);
    }

    /// Makes one type anew from what is there; what Envoy refused is made in another way.
    pub(crate) fn redo(&self, kind: Kind, publication: &Publication, cache: &Cache) {
        let mut work = self.work.lock();
        self.catch_up(&mut work, publication, cache);
        let Some(before) = self.set(kind) else { return };
        let after = cache.set(kind, Some(&before), self.all(kind, &work, publication, cache));
        if !Arc::ptr_eq(&before, &after) {
            self.sets.lock()[kind as usize] = Some(after);
            self.revision.send_replace(publication.revision);
        }
    }

    fn catch_up(&self, work: &mut Work, publication: &Publication, cache: &Cache) {
        if work.revision >= publication.revision {
            return;
        }
        let everything = ChangeSet { full: true, ..ChangeSet::default() };
        let changes = publication.changes_since(work.revision).unwrap_or(everything);
        let mut before = None;
        if work.scope.is_none() || !changes.is_endpoints_only() {
            before = work.scope.replace(publication.scope(&self.of));
        }
        let mut changed = Vec::new();
        // Where a Sidecar says what may be seen, routes say what else must be.
        let narrow = work.scope.as_ref().is_some_and(|scope| {
            scope.sidecar.as_ref().is_some_and(|sidecar| !sidecar.spec.egress.is_empty())
        });
        let routed = |object: &ObjectKey| object.kind == api::Kind::VirtualService;
        let other_scope = narrow && changes.objects.iter().any(routed);
        let scopes = [before.as_ref(), work.scope.as_ref()];
        let only_requests = |object: &ObjectKey| {
            let connections =
                || scopes.iter().flatten().any(|scope| routes_connections(scope, object));
            self.of.kind == ProxyKind::Sidecar && !narrow && routed(object) && !connections()
        };
        for kind in Kind::ALL {
            let Some(before) = self.set(kind) else { continue };
            let seen = match look(kind, &changes, &publication.snapshot, &self.of, only_requests) {
                _ if other_scope && matches!(kind, Kind::Endpoint | Kind::NameTable) => {
                    Look::Everything
                }
                seen => seen,
            };
            let after = match seen {
                Look::Nothing => continue,
                Look::Services => self.some(&before, work, publication, &changes, cache),
                Look::Everything => {
                    let resources = self.all(kind, work, publication, cache);
                    cache.set(kind, Some(&before), resources)
                }
            };
            if !Arc::ptr_eq(&before, &after) {
                changed.push((kind, after));
            }
        }
        work.revision = publication.revision;
        if !changed.is_empty() {
            // All at once: who is given a new cluster must not find the endpoints of before.
            let mut sets = self.sets.lock();
            for (kind, after) in changed {
                sets[kind as usize] = Some(after);
            }
            drop(sets);
            self.revision.send_replace(publication.revision);
        }
    }

    /// All resources of a type.
    fn all(
        &self,
        kind: Kind,
        work: &Work,
        publication: &Publication,
        cache: &Cache,
    ) -> Vec<Resource> {
        let said = Said::default();
        let inputs = self.inputs(kind, work, publication, &said);
        let Some(inputs) = inputs else { return Vec::new() };
        let resources = generate::all(kind, &inputs, cache);
        self.said.lock()[kind as usize] = said.into_inner();
        resources
    }

    /// What making the class's resources said about objects.
    pub(crate) fn diagnostics(&self) -> Vec<Arc<[Diagnostic]>> {
        self.said.lock().iter().flatten().cloned().collect()
    }

    /// The load assignments with those of the changed services made anew.
    fn some(
        &self,
        before: &Arc<Set>,
        work: &Work,
        publication: &Publication,
        changes: &ChangeSet,
        cache: &Cache,
    ) -> Arc<Set> {
        // Load assignments say nothing.
        let said = Said::default();
        let Some(inputs) = self.inputs(Kind::Endpoint, work, publication, &said) else {
            return before.clone();
        };
        let put = generate::endpoints_of(&changes.endpoints, &inputs, cache);
        cache.share(Kind::Endpoint, Set::with(before, put, &[]))
    }

    fn inputs<'a>(
        &'a self,
        kind: Kind,
        work: &'a Work,
        publication: &'a Publication,
        said: &'a Said,
    ) -> Option<Inputs<'a>> {
        Some(Inputs {
            snapshot: &publication.snapshot,
            scope: work.scope.as_ref()?,
            class: &self.of,
            names: &work.names[kind as usize],
            may_read_secrets: self.may_read_secrets.load(Ordering::Relaxed),
            said,
        })
    }
}

/// How much of a type a change may concern.
/// `only_requests`: the object is a VirtualService that only routes are made of here.
fn look(
    kind: Kind,
    changes: &ChangeSet,
    snapshot: &Snapshot,
    class: &ProxyClass,
    only_requests: impl Fn(&ObjectKey) -> bool,
) -> Look {
    let spared = |object: &ObjectKey| {
        matches!(kind, Kind::Listener | Kind::Cluster) && only_requests(object)
    };
    let mut objects = changes.objects.iter();
    if changes.full || objects.any(|o| concerns(o.kind, kind) && !spared(o)) {
        return Look::Everything;
    }
    let services = !changes.services.is_empty();
    let everything = match kind {
        Kind::Secret | Kind::Extension => false,
        Kind::Endpoint | Kind::Route => services,
        Kind::Cluster => {
            services || !changes.identities.is_empty() || reach_further(changes, snapshot)
        }
        Kind::Listener | Kind::NameTable => services || reach_further(changes, snapshot),
    };
    match (everything, kind) {
        (true, _) => Look::Everything,
        (false, Kind::Endpoint) if changes.endpoints.is_empty() => Look::Nothing,
        // What a gRPC client gets is small and made by name.
        (false, Kind::Endpoint) if class.kind == ProxyKind::GrpcClient => Look::Everything,
        (false, Kind::Endpoint) => Look::Services,
        (false, _) => Look::Nothing,
    }
}

/// Whether a VirtualService says where connections go, which is a part of listeners.
fn routes_connections(scope: &Scope, object: &ObjectKey) -> bool {
    let is_it =
        |meta: &api::Meta| *meta.namespace == *object.namespace && *meta.name == *object.name;
    let mut found = scope.virtual_services.iter().filter(|one| is_it(&one.meta));
    found.any(|one| !one.spec.tcp.is_empty() || !one.spec.tls.is_empty())
}

/// Endpoints that not only load assignments are made of: those of headless services are listeners and
/// names too, and where no EDS is used they are part of the cluster.
fn reach_further(changes: &ChangeSet, snapshot: &Snapshot) -> bool {
    let mut services = changes.endpoints.iter().filter_map(|key| snapshot.service(key));
    services.any(|s| s.is_headless() || s.embeds_endpoints())
}

/// Whether resources of `kind` may depend on objects of a kind of configuration.
fn concerns(object: api::Kind, kind: Kind) -> bool {
    use api::Kind as Object;
    match object {
        Object::Secret => matches!(kind, Kind::Secret | Kind::Extension),
        Object::ConfigMap => kind == Kind::Secret,
        Object::RateLimitPolicy => kind == Kind::Listener,
        Object::VirtualService | Object::Gateway => {
            matches!(kind, Kind::Listener | Kind::Route | Kind::Cluster)
        }
        Object::DestinationRule => {
            !matches!(kind, Kind::Secret | Kind::Extension | Kind::NameTable)
        }
        Object::AuthorizationPolicy | Object::RequestAuthentication | Object::Telemetry => {
            matches!(kind, Kind::Listener | Kind::Route | Kind::Cluster)
        }
        Object::PeerAuthentication => {
            matches!(kind, Kind::Listener | Kind::Cluster | Kind::Endpoint)
        }
        Object::WasmPlugin | Object::TrafficExtension => {
            matches!(kind, Kind::Listener | Kind::Extension)
        }
        // What is visible, and what may touch anything.
        _ => true,
    }
}
