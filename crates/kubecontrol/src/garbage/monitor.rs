//! Hears of every object of every kind: through the shared caches where there is one, through
//! metadata-only watches everywhere else. In: the API's discovery, again whenever custom kinds
//! change; out: calls to [`Garbage`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use kube::Api;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::watcher;
use rustc_hash::FxHashSet;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Garbage;
use crate::cache::{Cache, Object, Pause};
use crate::discovery::{Found, Served, discover};
use crate::store::Ctx;

/// Custom kinds are served a moment after their definition changed.
const SETTLE: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(2), Duration::from_secs(10)];

pub(crate) struct Monitor {
    ctx: Arc<Ctx>,
    garbage: Arc<Garbage>,
    /// Kinds heard of through a cache, by group and plural name.
    cached: FxHashSet<(String, String)>,
    changed: Arc<Notify>,
}

impl Monitor {
    pub(super) fn new(ctx: &Arc<Ctx>, garbage: Arc<Garbage>) -> Self {
        let mut monitor = Self {
            ctx: ctx.clone(),
            garbage,
            cached: FxHashSet::default(),
            changed: Arc::new(Notify::new()),
        };
        let store = &ctx.store;
        monitor.listen(&store.pods, true);
        monitor.listen(&store.nodes, false);
        monitor.listen(&store.namespaces, false);
        monitor.listen(&store.services, true);
        monitor.listen(&store.endpoints, true);
        monitor.listen(&store.slices, true);
        monitor.listen(&store.deployments, true);
        monitor.listen(&store.replica_sets, true);
        monitor.listen(&store.stateful_sets, true);
        monitor.listen(&store.daemon_sets, true);
        monitor.listen(&store.revisions, true);
        monitor.listen(&store.jobs, true);
        monitor
    }

    fn listen<K: Object>(&mut self, cache: &Cache<K>, namespaced: bool) {
        let resource = ApiResource::erase::<K>(&());
        self.cached.insert((resource.group.clone(), resource.plural.clone()));
        let served = Arc::new(Served { resource, namespaced, verbs: Vec::new() });
        let garbage = self.garbage.clone();
        cache.on_change(move |old, new| match (old, new) {
            (_, Some(object)) => {
                if let Some(old) = old
                    && old.meta().uid != object.meta().uid
                    && let Some(uid) = &old.meta().uid
                {
                    garbage.gone(uid);
                }
                garbage.seen(&served, object.meta());
            }
            (Some(object), None) => {
                if let Some(uid) = &object.meta().uid {
                    garbage.gone(uid);
                }
            }
            (None, None) => {}
        });
    }

    /// Watches until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut watches: BTreeMap<(String, String), (Arc<Served>, CancellationToken)> =
            BTreeMap::new();
        let mut rounds: &[Duration] = &[];
        let mut pause = Pause::default();
        loop {
            let wait = match discover(&self.ctx.client).await {
                Ok(found) => {
                    pause = Pause::default();
                    self.follow_all(&found, &mut watches, &stop);
                    let next = rounds.split_first();
                    rounds = next.map_or(&[], |(_, rest)| rest);
                    next.map(|(wait, _)| *wait)
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot ask the API which kinds it serves");
                    Some(pause.next())
                }
            };
            let sleep = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep => {}
                () = self.changed.notified() => {
                    rounds = &SETTLE[1..];
                    tokio::time::sleep(SETTLE[0]).await;
                }
            }
        }
    }

    fn follow_all(
        &self,
        found: &Found,
        watches: &mut BTreeMap<(String, String), (Arc<Served>, CancellationToken)>,
        stop: &CancellationToken,
    ) {
        *self.garbage.kinds.write() = found.served.values().cloned().map(Arc::new).collect();
        // Where a group could not be asked, its kinds stay as they were known.
        let complete = found.failed.is_empty();
        watches.retain(|key, (served, token)| {
            let now = found.served.get(key);
            let keep = now.map_or(!complete, |now| now.resource == served.resource);
            if !keep {
                token.cancel();
                if now.is_none() {
                    let lost = self.garbage.graph.lock().of_kind(served);
                    lost.iter().for_each(|uid| self.garbage.gone(uid));
                }
            }
            keep
        });
        for (key, served) in &found.served {
            let wanted = served.can("list") && served.can("watch") && served.can("delete");
            let is_event = key.1 == "events";
            if !wanted || is_event || self.cached.contains(key) || watches.contains_key(key) {
                continue;
            }
            let token = stop.child_token();
            let served = Arc::new(served.clone());
            let is_definition = key.1 == "customresourcedefinitions";
            let changed = is_definition.then(|| self.changed.clone());
            let api = Api::all_with(self.ctx.client.clone(), &served.resource);
            let work = follow(api, served.clone(), self.garbage.clone(), changed, token.clone());
            tokio::spawn(work);
            watches.insert(key.clone(), (served, token));
        }
    }
}

/// Keeps the graph true for one kind until `stop`.
async fn follow(
    api: Api<PartialObjectMeta>,
    served: Arc<Served>,
    garbage: Arc<Garbage>,
    changed: Option<Arc<Notify>>,
    stop: CancellationToken,
) {
    let stream = watcher(api, watcher::Config::default());
    pin_mut!(stream);
    let mut pause = Pause::default();
    let mut known: FxHashSet<String> = FxHashSet::default();
    let mut listed: FxHashSet<String> = FxHashSet::default();
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = stream.next() => event,
        };
        match event {
            None => return,
            Some(Ok(event)) => {
                pause = Pause::default();
                match event {
                    watcher::Event::Init => listed.clear(),
                    watcher::Event::InitApply(object) => {
                        listed.extend(object.metadata.uid.clone());
                        garbage.seen(&served, &object.metadata);
                    }
                    watcher::Event::InitDone => {
                        let missed = known.difference(&listed);
                        missed.for_each(|uid| garbage.gone(uid));
                        known = std::mem::take(&mut listed);
                    }
                    watcher::Event::Apply(object) => {
                        known.extend(object.metadata.uid.clone());
                        garbage.seen(&served, &object.metadata);
                        changed.iter().for_each(|c| c.notify_one());
                    }
                    watcher::Event::Delete(object) => {
                        if let Some(uid) = &object.metadata.uid {
                            known.remove(uid);
                            garbage.gone(uid);
                        }
                        changed.iter().for_each(|c| c.notify_one());
                    }
                }
            }
            Some(Err(error)) => {
                let wait = pause.next();
                tracing::debug!(kind = %served.title(), %error, "watch broke, trying again");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
    }
}
