//! The parts put together: the store's task, the classes, and the task that brings them up to date.
//!
//! In: events; out: for every proxy a feed of what it should have. Translation happens on blocking
//! threads, a few at a time, and never holds up a stream.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::StreamExt;
use ironsail_api::ClusterId;
use ironsail_model::{ProxyClass, Store};
use ironsail_names::Namespace;
use ironsail_source::Board;
use ironsail_sys::clock::Clock;
use ironsail_xds::{Interest, Resource, Set};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

use crate::auth::SecretAccess;
use crate::cache::Cache;
use crate::class::Class;
use crate::connection::{Connection, Connections};
use crate::debug::Pages;
use crate::diagnostic::Reporter;
use crate::keeper::{Findings, Inputs, Keeper, Keys};
use crate::limit::Limit;
use crate::trust::Trust;
use crate::{Counters, Kind, Publication, keeper};

/// Fetched keys that wait for the store.
const KEYS_UNDERWAY: usize = 64;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    pub keeper: keeper::Settings,
    /// Translations that run at the same time.
    pub workers: usize,
    /// New streams a second (`PILOT_MAX_REQUESTS_PER_SECOND`); 0 is no limit.
    pub stream_rate: f64,
    /// How long a proxy that comes too early waits for the first publication.
    pub patience: Duration,
    /// Proxies that may be getting their first configuration at the same time. What is underway to
    /// them is most of the memory that a crowd costs.
    pub newcomers: usize,
    pub cluster: ClusterId,
    pub root_namespace: Namespace,
    /// Callers without a proven identity may ask for debug data.
    pub open_debug: bool,
}

/// Serves proxies of one mesh. Shared by all ports.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) connections: Connections,
    pub(crate) cache: Cache,
    pub(crate) limit: Limit,
    pub(crate) board: Board,
    pub(crate) findings: Findings,
    classes: Mutex<[Classes; 2]>,
    pub(crate) pages: OnceLock<Pages>,
    pub(crate) secret_access: OnceLock<Box<dyn SecretAccess>>,
    secret_namespaces: OnceLock<watch::Sender<Arc<BTreeSet<String>>>>,
    pub(crate) trust: Trust,
    published: watch::Receiver<Option<Arc<Publication>>>,
    keys: mpsc::Sender<Keys>,
    /// Nobody fetches keys, or they had their time.
    keys_had_time: AtomicBool,
    /// The publication that every class has been brought to.
    refreshed: watch::Sender<u64>,
    workers: Arc<Semaphore>,
    pub(crate) newcomers: Arc<Semaphore>,
}

impl Engine {
    /// Starts the tasks. They end when nobody sends events any more.
    pub fn start(store: Store, settings: Settings, inputs: Inputs, clock: Clock) -> Arc<Self> {
        let (publish, published) = watch::channel(None);
        let (keys, keys_taken) = mpsc::channel(KEYS_UNDERWAY);
        let counters = Arc::<Counters>::default();
        let findings = Findings::default();
        let keeper = Keeper::new(
            store,
            settings.keeper.clone(),
            findings.clone(),
            publish,
            counters.clone(),
        );
        let engine = Arc::new(Self {
            limit: Limit::new(settings.stream_rate),
            workers: Arc::new(Semaphore::new(settings.workers.max(1))),
            newcomers: Arc::new(Semaphore::new(settings.newcomers.max(1))),
            settings,
            clock,
            cache: Cache::new(counters.clone()),
            counters,
            connections: Connections::default(),
            board: inputs.board,
            findings,
            classes: Mutex::default(),
            pages: OnceLock::new(),
            secret_access: OnceLock::new(),
            secret_namespaces: OnceLock::new(),
            trust: Trust::default(),
            published,
            keys,
            keys_had_time: AtomicBool::new(true),
            refreshed: watch::Sender::new(0),
        });
        tokio::spawn(keeper.run(inputs.events, inputs.mesh, keys_taken));
        tokio::spawn(refresh(engine.clone()));
        engine
    }

    /// Who decides on Secrets; without it nobody gets any. Counts once.
    pub fn set_secret_access(&self, access: Box<dyn SecretAccess>) {
        let _ = self.secret_access.set(access);
    }

    /// Who wants to know in which namespaces proxies ask for Secrets. Counts once.
    pub fn set_secret_namespaces(&self, namespaces: watch::Sender<Arc<BTreeSet<String>>>) {
        let _ = self.secret_namespaces.set(namespaces);
    }

    /// Proxies of this namespace ask for Secrets.
    pub(crate) fn want_secrets_of(&self, namespace: &Namespace) {
        let Some(namespaces) = self.secret_namespaces.get() else { return };
        namespaces.send_if_modified(|known| {
            !known.contains(namespace.as_str())
                && Arc::make_mut(known).insert(namespace.as_str().to_owned())
        });
    }

    /// Where fetched keys of token issuers go. Who takes it fetches them, and is waited for a little when
    /// the first proxies come.
    pub fn keys(&self) -> mpsc::Sender<Keys> {
        self.keys_had_time.store(false, Ordering::Relaxed);
        self.keys.clone()
    }

    /// Waits a little until the keys that the mesh wants were fetched, or could not be: a control plane that
    /// has just started must not take them from proxies that have them.
    pub(crate) async fn wait_for_keys(&self) {
        if self.keys_had_time.load(Ordering::Relaxed) {
            return;
        }
        let mut published = self.published.clone();
        let known = published.wait_for(|publication| {
            publication.as_ref().is_some_and(|publication| {
                let snapshot = &publication.snapshot;
                snapshot.wanted_keys().keys().all(|source| snapshot.keys_of(source).is_some())
            })
        });
        let _ = tokio::time::timeout(self.settings.patience, known).await;
        self.keys_had_time.store(true, Ordering::Relaxed);
    }

    /// Whether proxies are served.
    pub fn is_ready(&self) -> bool {
        self.published.borrow().is_some()
    }

    /// Waits until proxies are served.
    pub async fn ready(&self) {
        self.first_publication().await;
    }

    pub(crate) fn publication(&self) -> Option<Arc<Publication>> {
        self.published.borrow().clone()
    }

    /// The last publication; waits for the first. None if there will be none.
    pub(crate) async fn first_publication(&self) -> Option<Arc<Publication>> {
        let mut published = self.published.clone();
        published.wait_for(Option::is_some).await.ok().and_then(|p| p.clone())
    }

    /// The publication that every class has been brought to.
    pub fn refreshed(&self) -> watch::Receiver<u64> {
        self.refreshed.subscribe()
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::try_from(self.clock.now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// The class of proxies like this one. Those who proved who they are never share with others:
    /// they may get Secrets.
    pub(crate) fn class(&self, of: ProxyClass, proven: bool) -> Arc<Class> {
        let mut classes = self.classes.lock();
        let classes = &mut classes[usize::from(proven)];
        if let Some(found) = classes.by_content.get(&of).and_then(Weak::upgrade) {
            return found;
        }
        classes.sweep();
        let of = Arc::new(of);
        let class = Arc::new(Class::new(of.clone(), proven));
        classes.by_content.insert(of, Arc::downgrade(&class));
        class
    }

    /// Classes with proxies.
    pub(crate) fn classes(&self) -> Vec<Arc<Class>> {
        let classes = self.classes.lock();
        let all = classes.iter().flat_map(|classes| classes.by_content.values());
        all.filter_map(Weak::upgrade).collect()
    }

    /// The set of a type for a class, made if need be.
    pub(crate) async fn set(
        self: &Arc<Self>,
        class: &Arc<Class>,
        kind: Kind,
        interest: &Interest,
    ) -> Arc<Set> {
        if let Some(set) = class.ready(kind, interest) {
            return set;
        }
        let _turn = class.gate.lock().await;
        if let Some(set) = class.ready(kind, interest) {
            return set;
        }
        let Some(publication) = self.publication() else { return Arc::default() };
        let (engine, same, interest) = (self.clone(), class.clone(), interest.clone());
        self.work(move || same.add(kind, &interest, &publication, &engine.cache))
            .await
            .unwrap_or_default()
    }

    async fn update(self: &Arc<Self>, class: Arc<Class>, publication: Arc<Publication>) {
        let _turn = class.gate.lock().await;
        let (engine, same, started) = (self.clone(), class.clone(), Instant::now());
        self.work(move || same.update(&publication, &engine.cache)).await;
        self.counters.refreshed(started.elapsed());
    }

    /// A proxy refused resources: those that patches changed are made with fewer of them.
    pub(crate) fn refused(
        self: &Arc<Self>,
        class: &Arc<Class>,
        kind: Kind,
        resources: &[Resource],
        why: &str,
    ) {
        let Some(publication) = self.publication() else { return };
        if publication.snapshot.config.envoy_filters.iter().next().is_none() {
            return;
        }
        for resource in resources {
            self.cache.refuse(kind, resource, why);
        }
        let (engine, class) = (self.clone(), class.clone());
        tokio::spawn(async move {
            let _turn = class.gate.lock().await;
            // What was published while others had their turn counts, too.
            let publication = engine.publication().unwrap_or(publication);
            let (same, with) = (class.clone(), engine.clone());
            engine.work(move || same.redo(kind, &publication, &with.cache)).await;
        });
    }

    /// Runs work that takes long where it holds up nobody. None if it panicked.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _permit = self.workers.clone().acquire_owned().await.ok()?;
        match tokio::task::spawn_blocking(work).await {
            Ok(value) => Some(value),
            Err(error) => {
                // The class keeps its last good sets; the next change tries again.
                tracing::error!(%error, "translation failed");
                None
            }
        }
    }

    /// Proxies whose class is another one now change over.
    fn reclassify(&self, publication: &Publication) {
        for connection in self.connections.all() {
            self.reclassify_one(&connection, publication);
        }
    }

    pub(crate) fn reclassify_one(&self, connection: &Connection, publication: &Publication) {
        let class = connection.class();
        let now = publication.snapshot.class_of(&connection.proxy);
        if *class.of != now {
            connection.move_to(self.class(now, class.proven));
        }
    }
}

/// Classes by what they depend on. Proxies hold them; the map does not.
#[derive(Default)]
struct Classes {
    by_content: HashMap<Arc<ProxyClass>, Weak<Class>>,
    sweep_at: usize,
}

impl Classes {
    fn sweep(&mut self) {
        if self.by_content.len() >= self.sweep_at {
            self.by_content.retain(|_, class| class.strong_count() > 0);
            self.sweep_at = (self.by_content.len() * 2).max(64);
        }
    }
}

/// Whether proxies may be of another class after the changes since `revision`.
fn may_move(publication: &Publication, revision: u64) -> bool {
    let Some(changes) = publication.changes_since(revision) else { return true };
    let by_address = |key| publication.snapshot.service(key).is_some_and(|s| s.selector.is_none());
    !changes.is_endpoints_only()
        || !changes.workloads.is_empty()
        || changes.endpoints.iter().any(by_address)
}

/// Brings classes up to date after each publication.
async fn refresh(engine: Arc<Engine>) {
    let mut published = engine.published.clone();
    let mut reporter = Reporter::default();
    let mut last = 0;
    while published.changed().await.is_ok() {
        let Some(publication) = published.borrow_and_update().clone() else { continue };
        if may_move(&publication, last) {
            let (same, with) = (engine.clone(), publication.clone());
            engine.work(move || same.reclassify(&with)).await;
        }
        last = publication.revision;
        let classes = futures::stream::iter(engine.classes());
        classes
            .for_each_concurrent(engine.settings.workers.max(1), |class| {
                engine.update(class, publication.clone())
            })
            .await;
        reporter.report(engine.own_diagnostics());
        engine.refreshed.send_replace(publication.revision);
    }
}
