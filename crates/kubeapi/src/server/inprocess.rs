//! The API for clients in this process: a `tower` service that needs no connection.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};

use super::Server;
use crate::auth::{Peer, User};
use crate::body::Body;

/// Sends requests as one user. Cheap to clone.
#[derive(Clone)]
pub struct InProcess {
    server: Server,
    user: User,
}

impl Server {
    /// A service for `kube::Client::new` and the like; every request is made by `user`.
    pub fn service(&self, user: User) -> InProcess {
        InProcess { server: self.clone(), user }
    }
}

impl<B> tower::Service<Request<B>> for InProcess
where
    B: http_body::Body + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { server, user } = self.clone();
        Box::pin(async move { Ok(server.handle(request, Peer::InProcess(user)).await) })
    }
}
