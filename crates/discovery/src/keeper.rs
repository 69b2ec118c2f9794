//! The task that owns the store: events in, publications out.
//!
//! Nothing is published before every expected kind of object is there; after that a single change goes
//! out at once and a storm is merged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ironsail_api::{ClusterId, Diagnostic, Event, Kind, ObjectKey};
use ironsail_model::{ChangeSet, Fetched, KeySource, Snapshot, Store};
use ironsail_source::Board;
use ironsail_source::mesh::Mesh;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::{debug, info};

use crate::debounce::{Debounce, Limits};
use crate::diagnostic::judge;
use crate::{Counters, Publication};

/// Events taken in one go.
const BATCH: usize = 1024;

/// What is wrong with objects by themselves.
pub(crate) type Findings = Arc<Mutex<BTreeMap<ObjectKey, Vec<Diagnostic>>>>;

/// Where the store's content comes from.
pub struct Inputs {
    pub events: mpsc::Receiver<Event>,
    pub mesh: watch::Receiver<Arc<Mesh>>,
    /// What sources found wrong with objects.
    pub board: Board,
}

/// Keys of a token issuer, or that nobody wants them any more.
pub type Keys = (KeySource, Option<Fetched>);

/// How to keep the store.
#[derive(Clone, Debug)]
pub struct Settings {
    pub debounce: Limits,
    /// Endpoints wait as other changes do (`PILOT_ENABLE_EDS_DEBOUNCE`).
    pub debounce_endpoints: bool,
    /// What must be there before anything is published.
    pub expected: BTreeSet<(ClusterId, Kind)>,
}

pub(crate) struct Keeper {
    store: Store,
    settings: Settings,
    debounce: Debounce,
    /// What is not there yet.
    missing: BTreeSet<(ClusterId, Kind)>,
    /// Applied when the next publication is due, if endpoints go ahead of them.
    held: Vec<Event>,
    findings: Findings,
    published: watch::Sender<Option<Arc<Publication>>>,
    counters: Arc<Counters>,
}

impl Keeper {
    pub(crate) fn new(
        store: Store,
        settings: Settings,
        findings: Findings,
        published: watch::Sender<Option<Arc<Publication>>>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            store,
            debounce: Debounce::new(settings.debounce),
            missing: settings.expected.clone(),
            settings,
            held: Vec::new(),
            findings,
            published,
            counters,
        }
    }

    /// Runs until nobody sends events any more.
    pub(crate) async fn run(
        mut self,
        mut events: mpsc::Receiver<Event>,
        mut mesh: watch::Receiver<Arc<Mesh>>,
        mut keys: mpsc::Receiver<Keys>,
    ) {
        let mut batch = Vec::with_capacity(BATCH);
        self.mesh(&mesh.borrow_and_update().clone());
        let mut follow_mesh = true;
        loop {
            let due = self.debounce.due().filter(|_| self.missing.is_empty());
            tokio::select! {
                biased;
                () = until(due) => self.publish(),
                changed = mesh.changed(), if follow_mesh => {
                    // Who does not follow the configuration keeps the last.
                    follow_mesh = changed.is_ok();
                    self.mesh(&mesh.borrow_and_update().clone());
                }
                Some((source, fetched)) = keys.recv() => {
                    self.store.set_keys(&source, fetched);
                    self.debounce.changed(Instant::now());
                }
                count = events.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    self.take(batch.drain(..));
                }
            }
        }
    }

    fn mesh(&mut self, mesh: &Mesh) {
        self.store.set_mesh(mesh.config.clone(), mesh.networks.clone());
        self.debounce.changed(Instant::now());
    }

    fn take(&mut self, events: impl Iterator<Item = Event>) {
        let (mut count, mut ahead) = (0, false);
        for event in events {
            count += 1;
            match event {
                Event::Synced { cluster, kind } => self.synced(cluster, kind),
                event => {
                    let (kind, gone) = match &event {
                        Event::Apply { object, .. } => (object.kind(), false),
                        Event::Delete(key) => (key.kind, true),
                        Event::Synced { kind, .. } => (*kind, false),
                    };
                    self.counters.object(kind, gone);
                    ahead |= self.apply(event);
                }
            }
        }
        self.counters.events(count);
        if ahead && self.has_published() {
            self.publish_ahead();
        }
    }

    /// Whether the event goes ahead of the others.
    fn apply(&mut self, event: Event) -> bool {
        self.judge(&event);
        let ahead = !self.settings.debounce_endpoints && is_about_endpoints(&event);
        // Nothing goes ahead of the first publication: a mesh without its services would take away
        // what proxies have from an earlier control plane.
        if ahead || self.settings.debounce_endpoints || !self.has_published() {
            self.store.apply(event);
        } else {
            self.held.push(event);
        }
        if !ahead {
            self.debounce.changed(Instant::now());
        }
        ahead
    }

    fn has_published(&self) -> bool {
        self.published.borrow().is_some()
    }

    /// Objects that nobody checked before they were written are checked here.
    fn judge(&self, event: &Event) {
        match event {
            Event::Apply { cluster, object } if object.kind().is_istio() => {
                let (key, found) = (object.key(cluster), judge(object));
                let mut findings = self.findings.lock();
                match found.is_empty() {
                    true => findings.remove(&key),
                    false => findings.insert(key, found),
                };
            }
            Event::Delete(key) => {
                self.findings.lock().remove(key);
            }
            _ => {}
        }
    }

    fn synced(&mut self, cluster: ClusterId, kind: Kind) {
        let expected = (cluster, kind);
        if self.missing.remove(&expected) && self.missing.is_empty() {
            info!("all objects are there");
            // Also a mesh without objects is published.
            self.debounce.changed(Instant::now());
        }
        let (cluster, kind) = expected;
        self.store.apply(Event::Synced { cluster, kind });
    }

    fn publish(&mut self) {
        let now = Instant::now();
        let waited = self.debounce.published(now);
        self.counters.debounce.add(waited);
        for event in self.held.drain(..) {
            self.store.apply(event);
        }
        self.hand_out(now - waited);
    }

    /// Endpoints alone, without touching what the other changes wait for.
    fn publish_ahead(&mut self) {
        self.hand_out(Instant::now());
    }

    fn hand_out(&mut self, changed_at: Instant) {
        let started = Instant::now();
        let Some(update) = self.store.take() else { return };
        self.counters.snapshot.add(started.elapsed());
        self.send(update.snapshot, update.changes, changed_at);
    }

    fn send(&mut self, snapshot: Arc<Snapshot>, changes: ChangeSet, changed_at: Instant) {
        self.counters.published(changes.is_endpoints_only());
        debug!(
            full = changes.full,
            objects = changes.objects.len(),
            services = changes.services.len(),
            endpoints = changes.endpoints.len(),
            "published"
        );
        self.published.send_modify(|last| {
            let next = Publication::after(last.as_deref(), snapshot, changes, changed_at);
            *last = Some(Arc::new(next));
        });
    }
}

/// Events that move endpoints and, as a rule, nothing else.
fn is_about_endpoints(event: &Event) -> bool {
    let kind = match event {
        Event::Apply { object, .. } => object.kind(),
        Event::Delete(key) => key.kind,
        Event::Synced { .. } => return false,
    };
    matches!(kind, Kind::EndpointSlice | Kind::Pod | Kind::WorkloadEntry)
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use ironsail_api::decode_any;

    use super::*;

    const MESH: &str = "
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: foo},
 spec: {clusterIP: 10.0.0.1, selector: {app: web}, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: foo, labels: {app: web}},
 status: {podIP: 10.1.0.1}}
";

    fn events() -> Vec<Event> {
        let cluster = ClusterId::from("Kubernetes");
        let documents = ironsail_yaml::documents(MESH).unwrap();
        let objects = documents.iter().map(|value| decode_any(value).unwrap().object.unwrap());
        objects.map(|object| Event::Apply { cluster: cluster.clone(), object }).collect()
    }

    fn services(keeper: &Keeper) -> Option<usize> {
        keeper.published.borrow().as_ref().map(|it| it.snapshot.services.len())
    }

    #[tokio::test]
    async fn endpoints_do_not_go_ahead_of_the_first_publication() {
        let expected = [Kind::Pod, Kind::Service].map(|kind| ("Kubernetes".into(), kind));
        let settings = Settings {
            debounce: Limits::default(),
            debounce_endpoints: false,
            expected: expected.clone().into(),
        };
        let mut keeper = Keeper::new(
            Store::new(ironsail_model::Settings::default()),
            settings,
            Findings::default(),
            watch::Sender::new(None),
            Arc::default(),
        );
        let synced = expected.map(|(cluster, kind)| Event::Synced { cluster, kind });
        // All in one go, the pod among the last: as when a control plane starts in a mesh that runs.
        let mut all = events();
        let pod = all.pop();
        keeper.take(all.into_iter().chain(synced).chain(pod));
        assert_eq!(services(&keeper), None);
        keeper.publish();
        assert_eq!(services(&keeper), Some(1));
    }
}
