//! Addresses for ServiceEntries that name none: written into `status.addresses`, so that every
//! replica and every proxy uses the same.
//!
//! In: all ServiceEntries. Out: their status. Which address a host gets is decided in [`plan`],
//! without IO; an address once given stays. To be run by the leader only.

pub mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use ironsail_api::Kind;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::election::Chain;
use crate::queue::Queue;

use plan::{Entry, Given, Name};

/// How long entries may still come before addresses are given.
const SETTLE: Duration = Duration::from_millis(50);

struct Writer {
    client: Client,
    entries: BTreeMap<Name, Entry>,
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

/// Gives addresses until `stop`.
pub async fn run(client: Client, stop: CancellationToken) {
    let all = watcher(api(&client, None), watcher::Config::default());
    let mut events = pin!(all.default_backoff());
    let mut writer = Writer { client, entries: BTreeMap::new(), queue: Queue::new() };
    // Before all are known, an address that seems free may be taken.
    let mut listed = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(event) = events.next() => match event {
                Ok(event) => {
                    listed |= matches!(event, watcher::Event::InitDone);
                    writer.take(event);
                }
                // Without the CRD there are no entries.
                Err(error) if is_missing(&error) => tracing::debug!("ServiceEntries are not served"),
                Err(error) => tracing::warn!(error = %Chain(&error), "watching ServiceEntries"),
            },
            () = writer.queue.due(), if listed => {
                tokio::time::sleep(SETTLE).await;
                writer.work().await;
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
            watcher::Event::Init => self.entries.clear(),
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                let name = (object.namespace().unwrap_or_default(), object.name_any());
                let entry = Entry::read(&object);
                if entry.wants_addresses() {
                    self.queue.push(name.clone());
                }
                self.entries.insert(name, entry);
            }
            watcher::Event::InitDone => {}
            watcher::Event::Delete(object) => {
                let name = (object.namespace().unwrap_or_default(), object.name_any());
                self.entries.remove(&name);
            }
        }
    }

    /// Writes the addresses of every entry that is due.
    async fn work(&mut self) {
        let given = plan::allocate(&self.entries);
        while let Some(name) = self.queue.take() {
            let wanted = given.get(&name);
            let entry = self.entries.get_mut(&name);
            let (Some(wanted), Some(entry)) = (wanted, entry) else {
                self.queue.done(&name);
                continue;
            };
            if entry.given == *wanted {
                self.queue.done(&name);
                continue;
            }
            let api = api(&self.client, Some(&name.0));
            let patch = patch(entry, wanted);
            match api.patch_status(&name.1, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(object) => {
                    *entry = Entry::read(&object);
                    self.queue.done(&name);
                }
                Err(kube::Error::Api(status)) if status.code == 404 => self.queue.done(&name),
                Err(error) => {
                    let (namespace, name_only) = &name;
                    tracing::warn!(%namespace, name = %name_only, error = %Chain(&error), "writing addresses of a ServiceEntry, trying again");
                    self.queue.retry(&name);
                }
            }
        }
    }
}

fn patch(entry: &Entry, given: &[Given]) -> Value {
    let one = |given: &Given| json!({"host": given.host, "value": given.address.to_string()});
    json!({
        "metadata": {"resourceVersion": entry.version},
        "status": {"addresses": given.iter().map(one).collect::<Vec<_>>()},
    })
}
