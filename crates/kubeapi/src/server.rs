//! The request handler: from an HTTP request and a peer to an HTTP answer.
//!
//! Every request is authenticated, authorized, matched to a resource and a verb, and answered; a
//! refusal is a `Status`. The same handler serves TLS connections and clients in this process.

mod dispatch;
mod documents;
mod inprocess;
mod listen;
mod open;
mod upkeep;

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, Weak};

use futures::FutureExt as _;
use http::{Request, Response};
use ironsail_kubestream::pod::PodStreams;
use ironsail_sys::clock::Clock;
use parking_lot::RwLock;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use inprocess::InProcess;
pub use open::{Config, OpenError};

use crate::addresses::Addresses;
use crate::admission::Admission;
use crate::auth::review::Reviews;
use crate::auth::token::Tokens;
use crate::auth::{Authenticator, Authorizer, Peer};
use crate::body::Body;
use crate::crd::Keeper;
use crate::registry::Registry;
use crate::reply;
use crate::status::Status;
use crate::store::{Reader, Store};

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) reviews: Reviews,
    pub(crate) admission: Admission,
    pub(crate) addresses: Addresses,
    pub(crate) streams: RwLock<Option<Arc<dyn PodStreams>>>,
    /// Cancelled when the server ends: watches end with it.
    pub(crate) ended: CancellationToken,
    /// Serves the custom resources; set once the server is there to be followed.
    pub(crate) custom: OnceLock<Keeper>,
}

/// The API. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

/// For parts of the API that run by themselves.
impl Server {
    pub(crate) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.shared)
    }

    pub(crate) fn upgrade(shared: &Weak<Shared>) -> Option<Self> {
        shared.upgrade().map(|shared| Self { shared })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Cancelled when the server ends.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.shared.ended.clone()
    }
}

impl Server {
    /// Answers one request. The body is read only where the verb has one.
    pub async fn handle<B>(&self, request: Request<B>, peer: Peer) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let begun = Instant::now();
        let answer = AssertUnwindSafe(dispatch::answer(self.shared.clone(), request, peer));
        let answer = answer.catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(%method, %uri, "a request made its handler panic");
            reply::refusal(&Status::internal("the handler of this request failed"))
        });
        let code = answer.status().as_u16();
        tracing::debug!(%method, %uri, code, elapsed = ?begun.elapsed(), "answered");
        answer
    }

    /// Objects as they are now.
    pub fn reader(&self) -> &Reader {
        self.shared.store.reader()
    }

    /// The served resources; custom ones are set here.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// Says who serves logs, exec and port-forward of pods.
    pub fn set_pod_streams(&self, streams: Arc<dyn PodStreams>) {
        *self.shared.streams.write() = Some(streams);
    }

    /// Ends all watches, so that connections can end. Requests are still answered.
    pub fn end_watches(&self) {
        self.shared.ended.cancel();
    }
}
