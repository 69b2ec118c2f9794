//! What is wrong with an Istio resource, written into its own status.
//!
//! In: all findings, as a watched map. Out: `status.validationMessages` and the condition
//! `Reconciled`, on objects that have findings or had some. An object without any is never written,
//! so the cost follows the faults and not the mesh. To be run by the leader only.
//!
//! Each object is written at most once per change of its findings, and all together not faster than
//! the given pace. Status that others write is left alone.

mod known;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ironsail_api::{ClusterId, Diagnostic, ObjectKey};
use ironsail_source::Finding;
use ironsail_sys::clock::Clock;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::election::Chain;
use crate::queue::Queue;

/// Findings of objects of all clusters and kinds; only Istio's of our own cluster are written.
pub type All = Arc<BTreeMap<ObjectKey, Finding>>;

/// How long findings may still change before they are looked at.
const SETTLE: Duration = Duration::from_millis(100);

pub struct Config {
    pub client: Client,
    /// The cluster that `client` leads to.
    pub cluster: ClusterId,
    pub findings: watch::Receiver<All>,
    /// Time between two writes.
    pub pace: Duration,
    pub clock: Clock,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("reading {key}")]
    Read { key: ObjectKey, source: kube::Error },
    #[error("writing the status of {key}")]
    Write { key: ObjectKey, source: kube::Error },
}

struct Writer {
    config: Config,
    /// What the status of an object says, as far as we know; nothing for "says something".
    written: BTreeMap<ObjectKey, Option<Finding>>,
    queue: Queue<ObjectKey>,
}

/// Writes until `stop`.
pub async fn run(config: Config, stop: CancellationToken) {
    let mut findings = config.findings.clone();
    // What an earlier leader wrote must be taken back when it is no longer true.
    let found = tokio::select! {
        () = stop.cancelled() => return,
        found = known::marked(&config.client, &config.cluster) => found,
    };
    let written = found.into_iter().map(|key| (key, None)).collect();
    let mut writer = Writer { config, written, queue: Queue::new() };
    findings.mark_changed();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Ok(()) = findings.changed() => {
                tokio::time::sleep(SETTLE).await;
                let now = findings.borrow_and_update().clone();
                writer.compare(&now);
            }
            () = writer.queue.due() => {
                let now = findings.borrow().clone();
                if let Some(key) = writer.queue.take() {
                    writer.work(&key, &now).await;
                    tokio::time::sleep(writer.config.pace).await;
                }
            }
        }
    }
}

impl Writer {
    /// Looks for objects whose status does not say what is wrong now.
    fn compare(&mut self, now: &All) {
        let ours = |key: &&ObjectKey| key.cluster == self.config.cluster && key.kind.is_istio();
        let concerned: BTreeSet<_> =
            now.keys().filter(ours).chain(self.written.keys()).cloned().collect();
        for key in concerned {
            let wanted = now.get(&key);
            let is = match self.written.get(&key) {
                Some(Some(written)) => wanted == Some(written),
                Some(None) => false,
                None => wanted.is_none(),
            };
            if !is {
                self.queue.push(key);
            }
        }
    }

    async fn work(&mut self, key: &ObjectKey, now: &All) {
        let wanted = now.get(key);
        match self.write(key, wanted.map_or(&[], |finding| &finding.diagnostics)).await {
            Ok(()) => {
                match wanted {
                    Some(finding) => self.written.insert(key.clone(), Some(finding.clone())),
                    None => self.written.remove(key),
                };
                self.queue.done(key);
            }
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "trying again");
                self.queue.retry(key);
            }
        }
    }

    /// Makes the status of one object say what is wrong with it.
    async fn write(&self, key: &ObjectKey, diagnostics: &[Diagnostic]) -> Result<(), Error> {
        let api = api(&self.config.client, key);
        let read = api.get_opt(&key.name).await;
        let read = read.map_err(|source| Error::Read { key: key.clone(), source })?;
        let Some(object) = read else { return Ok(()) };
        let now = jiff::Timestamp::try_from(self.config.clock.now()).unwrap_or_default();
        let Some(patch) = plan::patch(&object, diagnostics, now) else { return Ok(()) };
        let params = PatchParams::default();
        match api.patch_status(&key.name, &params, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            // Gone meanwhile, or a CRD without status.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(source) => Err(Error::Write { key: key.clone(), source }),
        }
    }
}

fn api(client: &Client, key: &ObjectKey) -> Api<DynamicObject> {
    let kind = key.kind;
    let gvk = GroupVersionKind::gvk(kind.group(), kind.version(), kind.name());
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
    if key.namespace.is_empty() {
        return Api::all_with(client.clone(), &resource);
    }
    Api::namespaced_with(client.clone(), &key.namespace, &resource)
}
