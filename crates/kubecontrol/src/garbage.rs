//! Garbage collection: deletes what has lost its owners. In: the metadata of every object of every
//! kind, custom ones included; out: deletions, and owner references and finalizers removed.
//!
//! Kinds that other controllers watch are heard of through their caches; all others are watched
//! here, metadata only ([`monitor`]). Who owns whom is kept in [`graph`], and what to do about one
//! object is decided in [`verdict`]. Nothing is ever deleted on the word of a cache alone: the
//! object and every owner that seems absent are read from the API first.

mod graph;
mod monitor;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, Patch, Preconditions, PropagationPolicy};
use kube::core::PartialObjectMeta;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

use crate::discovery::Served;
use crate::drive::{Controller, Next, Reconcile};
use crate::error::ActionError;
use crate::key::Key;
use crate::queue::Queue;
use crate::store::{Ctx, name};
use crate::write;
use graph::{Graph, Work};
pub(crate) use monitor::Monitor;
use verdict::{Owner, Verdict};

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";
/// An owner that was not seen yet may just be on its way through another watch.
const PATIENCE: Duration = Duration::from_secs(1);

/// What watches and workers share.
#[derive(Default)]
pub(crate) struct Garbage {
    graph: Mutex<Graph>,
    queue: Arc<Queue>,
    kinds: RwLock<Vec<Arc<Served>>>,
}

impl Garbage {
    /// An object as a watch shows it.
    fn seen(&self, served: &Arc<Served>, meta: &ObjectMeta) {
        let work = self.graph.lock().apply(served, meta);
        self.enqueue(work);
    }

    fn gone(&self, uid: &str) {
        let work = self.graph.lock().remove(uid);
        self.enqueue(work);
    }

    fn enqueue(&self, work: Vec<Work>) {
        for one in work {
            match one {
                Work::Delete(uid) => self.queue.add(Key::new("delete", &uid)),
                Work::Doubt(uid) => self.queue.add_after(Key::new("delete", &uid), PATIENCE),
                Work::Orphan(uid) => self.queue.add(Key::new("orphan", &uid)),
            }
        }
    }

    fn kind(&self, owner: &OwnerReference) -> Option<Arc<Served>> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let fits = |s: &&Arc<Served>| s.resource.group == group && s.resource.kind == owner.kind;
        self.kinds.read().iter().find(fits).cloned()
    }
}

struct Collector {
    ctx: Arc<Ctx>,
    garbage: Arc<Garbage>,
}

/// The controller, and the monitor that must run beside it.
pub(crate) fn controller(ctx: &Arc<Ctx>) -> (Controller, Monitor) {
    let garbage = Arc::new(Garbage::default());
    let monitor = Monitor::new(ctx, garbage.clone());
    let queue = garbage.queue.clone();
    let reconcile = Arc::new(Collector { ctx: ctx.clone(), garbage });
    (Controller { name: "garbage-collector", queue, reconcile, width: 8 }, monitor)
}

impl Reconcile for Collector {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>> {
        async move {
            match &*key.ns {
                "orphan" => self.orphan(&key.name).await?,
                _ => self.collect(&key.name).await?,
            }
            Ok(Next::Wait)
        }
        .boxed()
    }
}

impl Collector {
    async fn collect(&self, uid: &str) -> Result<(), ActionError> {
        let node = {
            let graph = self.garbage.graph.lock();
            if graph.is_settled(uid) {
                return Ok(());
            }
            graph.node(uid)
        };
        let Some(node) = node else { return Ok(()) };
        let live = self.read(&node.served, &node.ns, &node.name).await?;
        let Some(live) = live.filter(|l| l.metadata.uid.as_deref() == Some(uid)) else {
            self.garbage.gone(uid);
            return Ok(());
        };
        let meta = &live.metadata;
        let mut owners = Vec::new();
        for owner in meta.owner_references.iter().flatten() {
            owners.push((owner.clone(), self.judge(&node, owner).await?));
        }
        let family = self.garbage.graph.lock().family(uid);
        match verdict::decide(meta, &owners, &family) {
            Verdict::Nothing => {}
            Verdict::Wait(blockers) => {
                let work = blockers.into_iter().map(Work::Delete).collect();
                self.garbage.enqueue(work);
            }
            Verdict::Finalize => self.drop_finalizer(&node, meta, FOREGROUND).await?,
            Verdict::Disown(kept) => {
                let body = json!({ "ownerReferences": kept });
                self.patch(&node, meta, &body).await?;
            }
            Verdict::Unblock(changed) => {
                let body = json!({ "ownerReferences": changed });
                self.patch(&node, meta, &body).await?;
                self.delete(&node, meta, PropagationPolicy::Foreground).await?;
            }
            Verdict::Delete(policy) => self.delete(&node, meta, policy).await?,
        }
        Ok(())
    }

    /// Takes the owner's name out of all its dependents, then lets the owner go.
    async fn orphan(&self, uid: &str) -> Result<(), ActionError> {
        let Some(owner) = self.garbage.graph.lock().node(uid) else { return Ok(()) };
        let live = self.read(&owner.served, &owner.ns, &owner.name).await?;
        let Some(live) = live.filter(|l| l.metadata.uid.as_deref() == Some(uid)) else {
            self.garbage.gone(uid);
            return Ok(());
        };
        let family = self.garbage.graph.lock().family(uid);
        for dependent in family.dependents {
            let Some(node) = self.garbage.graph.lock().node(&dependent.uid) else { continue };
            let Some(child) = self.read(&node.served, &node.ns, &node.name).await? else {
                continue;
            };
            let mut kept = child.metadata.owner_references.clone().unwrap_or_default();
            kept.retain(|o| o.uid != uid);
            if Some(&kept) != child.metadata.owner_references.as_ref() {
                self.patch(&node, &child.metadata, &json!({ "ownerReferences": kept })).await?;
            }
        }
        self.drop_finalizer(&owner, &live.metadata, ORPHAN).await
    }

    /// Whether an owner is there, from what we know, or from the API where we do not know.
    async fn judge(
        &self,
        node: &graph::Node,
        owner: &OwnerReference,
    ) -> Result<Owner, ActionError> {
        if let Some(known) = self.garbage.graph.lock().owner(node, owner) {
            return Ok(known);
        }
        let Some(served) = self.garbage.kind(owner) else {
            // Its kind is not served (any more): nobody can say, so it counts as there.
            return Ok(Owner::Solid);
        };
        if served.namespaced && node.ns.is_empty() {
            // An object of the cluster cannot have an owner in a namespace; it is never deleted.
            return Ok(Owner::Solid);
        }
        let live = self.read(&served, &node.ns, &owner.name).await?;
        Ok(match live.filter(|l| l.metadata.uid.as_deref() == Some(&owner.uid)) {
            None => {
                self.garbage.graph.lock().note_gone(&owner.uid);
                Owner::Gone
            }
            Some(live) if verdict::is_foreground(&live.metadata) => Owner::Leaving,
            Some(_) => Owner::Solid,
        })
    }

    async fn read(
        &self,
        served: &Served,
        ns: &str,
        object: &str,
    ) -> Result<Option<PartialObjectMeta>, ActionError> {
        let api = served.api(&self.ctx.client, ns);
        let title = || format!("{} {ns}/{object}", served.title());
        api.get_metadata_opt(object).await.map_err(|e| ActionError::new("read", title(), e))
    }

    async fn patch(
        &self,
        node: &graph::Node,
        meta: &ObjectMeta,
        change: &Value,
    ) -> Result<(), ActionError> {
        let mut change = change.clone();
        change["uid"] = json!(meta.uid);
        change["resourceVersion"] = json!(meta.resource_version);
        let body = json!({ "metadata": change });
        let api = node.served.api(&self.ctx.client, &node.ns);
        let answer =
            api.patch_metadata(name(meta), &write::patch_params(), &Patch::Merge(&body)).await;
        match answer {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(ActionError::new("patch", node.to_string(), error)),
            Ok(_) => Ok(()),
        }
    }

    async fn drop_finalizer(
        &self,
        node: &graph::Node,
        meta: &ObjectMeta,
        finalizer: &str,
    ) -> Result<(), ActionError> {
        let mut kept = meta.finalizers.clone().unwrap_or_default();
        kept.retain(|f| f != finalizer);
        if Some(&kept) == meta.finalizers.as_ref() {
            return Ok(());
        }
        self.patch(node, meta, &json!({ "finalizers": kept })).await
    }

    async fn delete(
        &self,
        node: &graph::Node,
        meta: &ObjectMeta,
        policy: PropagationPolicy,
    ) -> Result<(), ActionError> {
        let params = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(Preconditions { uid: meta.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        let api = node.served.api(&self.ctx.client, &node.ns);
        match api.delete(name(meta), &params).await {
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Ok(())
            }
            Err(error) => Err(ActionError::new("delete", node.to_string(), error)),
            Ok(_) => Ok(()),
        }
    }
}
