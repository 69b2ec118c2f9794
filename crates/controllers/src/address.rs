//! The addresses that ServiceEntries without own ones were given, shown in `status.addresses`.
//!
//! In: what the model gave to which entry, as a watched map. Out: status, written only where it says
//! something else; addresses of entries that have none any more are taken away. The model gives the
//! same addresses in every replica, so status is for people and other programs, and nobody waits for
//! it. To be run by the leader only.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use ironsail_api::{ClusterId, Kind};
use ironsail_model::Snapshot;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::election::Chain;
use crate::queue::Queue;

use plan::Shown;

/// Namespace and name of a ServiceEntry.
pub type Name = (String, String);

/// One address of one host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Given {
    pub host: String,
    pub address: IpAddr,
}

/// The addresses of every entry that was given some.
pub type All = Arc<BTreeMap<Name, Vec<Given>>>;

/// What the model gave to the entries of one cluster.
pub fn of_snapshot(snapshot: &Snapshot, cluster: &ClusterId) -> All {
    let mut all = BTreeMap::<Name, Vec<Given>>::new();
    for service in snapshot.services.iter() {
        let entry = service
            .sources
            .first()
            .filter(|source| source.kind == Kind::ServiceEntry && source.cluster == *cluster);
        let (Some(entry), false) = (entry, service.auto_addresses.is_empty()) else { continue };
        let given = service
            .auto_addresses
            .iter()
            .map(|address| Given { host: service.key.hostname.to_string(), address: *address });
        all.entry((entry.namespace.to_string(), entry.name.to_string())).or_default().extend(given);
    }
    all.values_mut().for_each(|given| given.sort());
    Arc::new(all)
}

struct Writer {
    client: Client,
    shown: BTreeMap<Name, Shown>,
    queue: Queue<Name>,
}

fn api(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let kind = Kind::ServiceEntry;
    let gvk = GroupVersionKind::gvk(kind.group(), kind.version(), kind.name());
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Shows addresses until `stop`.
pub async fn run(client: Client, mut given: watch::Receiver<All>, stop: CancellationToken) {
    let all = watcher(api(&client, None), watcher::Config::default());
    let mut events = pin!(all.default_backoff());
    let mut writer = Writer { client, shown: BTreeMap::new(), queue: Queue::new() };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(event) = events.next() => match event {
                Ok(event) => writer.take(event),
                // Without the CRD there are no entries.
                Err(error) if is_missing(&error) => tracing::debug!("ServiceEntries are not served"),
                Err(error) => tracing::warn!(error = %Chain(&error), "watching ServiceEntries"),
            },
            Ok(()) = given.changed() => {
                let now = given.borrow_and_update().clone();
                writer.compare(&now);
            }
            () = writer.queue.due() => {
                let now = given.borrow_and_update().clone();
                writer.work(&now).await;
            }
        }
    }
}

fn is_missing(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status)) => status.code == 404,
        WatchError(status) => status.code == 404,
        _ => false,
    }
}

impl Writer {
    fn take(&mut self, event: watcher::Event<DynamicObject>) {
        match event {
            watcher::Event::Init => self.shown.clear(),
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                let name = (object.namespace().unwrap_or_default(), object.name_any());
                self.shown.insert(name.clone(), Shown::read(&object));
                self.queue.push(name);
            }
            watcher::Event::InitDone => {}
            watcher::Event::Delete(object) => {
                let name = (object.namespace().unwrap_or_default(), object.name_any());
                self.shown.remove(&name);
            }
        }
    }

    /// Looks for entries that show something else than they were given.
    fn compare(&mut self, given: &All) {
        let known: BTreeSet<_> = self.shown.keys().cloned().collect();
        for name in known {
            let wanted = given.get(&name).map_or(&[][..], Vec::as_slice);
            if self.shown.get(&name).is_some_and(|shown| shown.patch(wanted).is_some()) {
                self.queue.push(name);
            }
        }
    }

    async fn work(&mut self, given: &All) {
        while let Some(name) = self.queue.take() {
            let wanted = given.get(&name).map_or(&[][..], Vec::as_slice);
            let shown = self.shown.get_mut(&name);
            let Some((shown, patch)) = shown.and_then(|s| s.patch(wanted).map(|p| (s, p))) else {
                self.queue.done(&name);
                continue;
            };
            let api = api(&self.client, Some(&name.0));
            match api.patch_status(&name.1, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(object) => {
                    *shown = Shown::read(&object);
                    self.queue.done(&name);
                }
                Err(kube::Error::Api(status)) if status.code == 404 => self.queue.done(&name),
                Err(error) => {
                    let (namespace, entry) = &name;
                    let error = Chain(&error);
                    tracing::warn!(%namespace, %entry, %error, "showing addresses, trying again");
                    self.queue.retry(&name);
                }
            }
        }
    }
}
