//! Discovery over gRPC: both methods of `AggregatedDiscoveryService`.
//!
//! In: streams of proxies, and a `Source` of what each of them should have; out: responses. Each
//! stream is one task that holds one session; a proxy that does not read holds back only itself, and
//! costs a few kilobytes.

mod body;
mod feed;
mod listen;
mod patience;
mod stream;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ironsail_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tonic::server::NamedService;
use tonic::{Code, Status};

pub use feed::{Caller, Dirty, Feed, Report, Source};
pub use listen::{ConnectionEnd, Connections, Drain, serve};

use crate::messages::Messages;
use crate::{Interner, Request, Variant};

pub(crate) const STATE_OF_THE_WORLD: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
pub(crate) const DELTA: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const SECRETS: &str = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets";
const DELTA_SECRETS: &str = "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets";

/// How streams are treated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The first request, which says who calls, must come within this time.
    pub first_request: Duration,
    /// Longest request.
    pub max_request_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { first_request: Duration::from_secs(15), max_request_bytes: 16 * 1024 * 1024 }
    }
}

/// The service to mount in a gRPC server. Cheap to clone.
pub struct Discovery<S>(Arc<Shared<S>>);

struct Shared<S> {
    source: S,
    settings: Settings,
    interner: Arc<Interner>,
    streams: AtomicUsize,
}

impl<S: Source> Discovery<S> {
    pub fn new(source: S, settings: Settings) -> Self {
        let (interner, streams) = (Arc::default(), AtomicUsize::new(0));
        Self(Arc::new(Shared { source, settings, interner, streams }))
    }

    /// Streams that are open now.
    pub fn streams(&self) -> usize {
        self.0.streams.load(Ordering::Relaxed)
    }

    /// Different sets of names that proxies subscribe to now.
    pub fn subscribed_sets(&self) -> usize {
        self.0.interner.len()
    }

    fn answer(
        &self,
        request: http::Request<tonic::body::Body>,
    ) -> http::Response<tonic::body::Body> {
        match request.uri().path() {
            STATE_OF_THE_WORLD | SECRETS => {
                self.open::<DiscoveryRequest>(Variant::StateOfTheWorld, request)
            }
            DELTA | DELTA_SECRETS => self.open::<DeltaDiscoveryRequest>(Variant::Delta, request),
            _ => Status::new(Code::Unimplemented, "no such method").into_http(),
        }
    }

    fn open<M>(
        &self,
        variant: Variant,
        request: http::Request<tonic::body::Body>,
    ) -> http::Response<tonic::body::Body>
    where
        M: prost::Message + Default + feed::HasNode + Into<Request> + 'static,
    {
        if request.headers().get("grpc-encoding").is_some_and(|e| e != "identity") {
            return Status::unimplemented("compressed messages are not supported").into_http();
        }
        let (parts, body) = request.into_parts();
        let requests = Messages::<M>::new(body, self.0.settings.max_request_bytes);
        let body = stream::spawn(&self.0, requests, Caller::new(variant, parts));
        let mut response = http::Response::new(tonic::body::Body::new(body));
        let grpc = http::HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
        response
    }
}

/// The same conversation under the name that proxies fetch secrets by.
pub struct Secrets<S>(pub Discovery<S>);

impl<S> Clone for Secrets<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> NamedService for Secrets<S> {
    const NAME: &'static str = "envoy.service.secret.v3.SecretDiscoveryService";
}

impl<S: Source> tower::Service<http::Request<tonic::body::Body>> for Secrets<S> {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        self.0.call(request)
    }
}

impl<S> Clone for Discovery<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> NamedService for Discovery<S> {
    const NAME: &'static str = "envoy.service.discovery.v3.AggregatedDiscoveryService";
}

impl<S: Source> tower::Service<http::Request<tonic::body::Body>> for Discovery<S> {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        std::future::ready(Ok(self.answer(request)))
    }
}
