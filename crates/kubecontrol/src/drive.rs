//! The thin shell around every controller: takes keys from its queue, reconciles several at once,
//! and puts failures back with a pause. In go a queue and a [`Reconcile`]; nothing comes out.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use crate::error::ActionError;
use crate::key::Key;
use crate::queue::Queue;

/// What follows after a key was reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing until something changes.
    Wait,
    /// Look again after this time, even if nothing changes.
    After(Duration),
}

impl Next {
    pub(crate) fn maybe(wait: Option<Duration>) -> Self {
        wait.map_or(Self::Wait, Self::After)
    }
}

pub(crate) trait Reconcile: Send + Sync + 'static {
    /// Brings the world a step nearer to what the object of `key` asks for.
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, ActionError>>;
}

/// A controller ready to run.
pub(crate) struct Controller {
    pub(crate) name: &'static str,
    pub(crate) queue: Arc<Queue>,
    pub(crate) reconcile: Arc<dyn Reconcile>,
    /// How many keys may be worked on at the same time.
    pub(crate) width: usize,
}

pub(crate) async fn drive(controller: Controller, stop: CancellationToken) {
    let Controller { name, queue, reconcile, width } = controller;
    let mut busy = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some((key, result)) = busy.next() => settle(name, &queue, &key, result),
            key = queue.next(), if busy.len() < width => {
                let reconcile = reconcile.clone();
                busy.push(async move {
                    let result = reconcile.reconcile(&key).await;
                    (key, result)
                });
            }
        }
    }
}

fn settle(name: &'static str, queue: &Queue, key: &Key, result: Result<Next, ActionError>) {
    match result {
        Ok(next) => {
            queue.done(key);
            if let Next::After(wait) = next {
                queue.add_after(key.clone(), wait);
            }
        }
        Err(failure) => {
            let pause = queue.failed(key);
            // Losing a race is the normal way of optimistic concurrency, not worth a warning.
            if failure.is_race() {
                tracing::debug!(controller = name, %key, error = %failure, ?pause, "lost a race");
            } else {
                tracing::warn!(controller = name, %key, error = %failure, ?pause, "will try again");
            }
        }
    }
}
