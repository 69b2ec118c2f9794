//! Kinds that are watched only where somebody asks: Secrets and ConfigMaps.
//!
//! In: the namespaces asked for, as a watched set. Out: one collection a namespace; what lies in a
//! namespace that nobody asks for any more is told as gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ironsail_api::{Event, Kind};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::collection;
use super::target::Target;

/// Where objects of a kind are watched.
#[derive(Clone, Debug)]
pub enum Scope {
    Nowhere,
    Everywhere,
    /// In these namespaces, which may change.
    In(watch::Receiver<Arc<BTreeSet<String>>>),
}

pub(super) async fn follow(shared: Shared, kind: Kind, scope: Scope, stop: CancellationToken) {
    let mut wanted = match scope {
        Scope::Everywhere => return collection::everywhere(shared, kind, stop).await,
        Scope::In(wanted) => wanted,
        Scope::Nowhere => watch::Sender::new(Arc::default()).subscribe(),
    };
    let mut tasks = JoinSet::new();
    let mut running = BTreeMap::<String, CancellationToken>::new();
    // Synced means: those asked for at the start.
    let mut first = Some(JoinSet::new());
    loop {
        let now = wanted.borrow_and_update().clone();
        running.retain(|namespace, leave| {
            let stays = now.contains(namespace);
            if !stays {
                leave.cancel();
            }
            stays
        });
        for namespace in now.iter() {
            if running.contains_key(namespace) {
                continue;
            }
            let leave = CancellationToken::new();
            running.insert(namespace.clone(), leave.clone());
            let target = Target { namespace: Some(namespace.clone()), ..Target::of(kind) };
            let (listed, wait) = oneshot::channel();
            tasks.spawn(collection::keep(shared.clone(), kind, target, listed, leave));
            if let Some(first) = &mut first {
                first.spawn(wait);
            }
        }
        if let Some(mut first) = first.take() {
            let shared = shared.clone();
            tasks.spawn(async move {
                while first.join_next().await.is_some() {}
                let event = Event::Synced { cluster: shared.cluster.clone(), kind };
                let _ = shared.events.send(event).await;
            });
        }
        let closed = async {
            // When nobody can ask any more, what is asked for stays.
            if wanted.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.events.closed() => return,
            () = closed => {}
        }
        while tasks.try_join_next().is_some() {}
    }
}
