//! The seam to whoever knows what proxies should have.

use std::sync::Arc;

use futures::future::BoxFuture;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tonic::Status;

use crate::{Interest, Response, Set, TypeUrl, Variant, Verdict};

/// Knows what every proxy should have.
pub trait Source: Send + Sync + 'static {
    /// A proxy has come. Refusing it ends the stream with that status.
    fn open(&self, caller: Caller) -> BoxFuture<'_, Result<Box<dyn Feed>, Status>>;
}

/// Knows what one proxy should have. Dropped when the stream ends.
pub trait Feed: Send {
    /// What the proxy should have of a type now. It may be more than it wants; equal sets should be
    /// the same `Arc`, and a changed one made from the last (`Set::after`, `Set::with`).
    fn set<'a>(
        &'a mut self,
        type_url: &'a TypeUrl,
        interest: &'a Interest,
    ) -> BoxFuture<'a, Arc<Set>>;

    /// Waits until sets may have changed and says which; None ends the stream. Must lose nothing
    /// when it is dropped before it is done.
    fn changed(&mut self) -> BoxFuture<'_, Option<Dirty>>;

    /// Something happened on the stream, for metrics and whoever asks.
    fn report(&mut self, report: Report<'_>);
}

/// Whose sets may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dirty {
    All,
    Types(Vec<TypeUrl>),
}

/// What happened on a stream.
#[derive(Debug)]
pub enum Report<'a> {
    Subscribed {
        type_url: &'a TypeUrl,
        interest: &'a Interest,
    },
    Sent(&'a Response),
    Answered {
        type_url: &'a TypeUrl,
        verdict: &'a Verdict,
    },
    /// How the application beside the proxy is: why it is not healthy, if it is not.
    Health {
        trouble: Option<&'a str>,
    },
    /// What the agent says about the proxy's roots and certificate.
    Trust {
        text: &'a str,
    },
    /// The proxy has everything and said so.
    Settled,
}

/// Who opened a stream.
#[derive(Debug)]
pub struct Caller {
    pub variant: Variant,
    pub node: Node,
    /// What the first request is for.
    pub type_url: TypeUrl,
    pub headers: http::HeaderMap,
    /// What the listener knows of the connection: addresses, certificates.
    pub extensions: http::Extensions,
}

impl Caller {
    pub(super) fn new(variant: Variant, parts: http::request::Parts) -> Self {
        let (headers, extensions) = (parts.headers, parts.extensions);
        Self { variant, node: Node::default(), type_url: "".into(), headers, extensions }
    }
}

/// Requests of both variants say at least once which node they are from.
pub(super) trait HasNode {
    fn take_node(&mut self) -> Option<Node>;
}

impl HasNode for DiscoveryRequest {
    fn take_node(&mut self) -> Option<Node> {
        self.node.take()
    }
}

impl HasNode for DeltaDiscoveryRequest {
    fn take_node(&mut self) -> Option<Node> {
        self.node.take()
    }
}
