//! A stream of either variant, as one thing to send to and one to receive from.

use futures::future::BoxFuture;
use ironsail_proto::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use ironsail_proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::session::{Incoming, Outgoing};
use crate::Variant;

/// Requests that may wait for the connection. The protocol answers one response at a time, so few do.
const QUEUE: usize = 64;
/// Longest response.
const MAX_RESPONSE: usize = 256 * 1024 * 1024;

pub(super) enum Requests {
    StateOfTheWorld(mpsc::Sender<DiscoveryRequest>),
    Delta(mpsc::Sender<DeltaDiscoveryRequest>),
}

pub(super) enum Responses {
    StateOfTheWorld(Streaming<DiscoveryResponse>),
    Delta(Streaming<DeltaDiscoveryResponse>),
}

/// Starts a stream. Requests can be sent before it is open, and must be: a server may wait for the
/// first before it answers at all.
pub(super) fn open(
    channel: &Channel,
    variant: Variant,
) -> (Requests, BoxFuture<'static, Result<Responses, Status>>) {
    let mut client = AggregatedDiscoveryServiceClient::new(channel.clone())
        .max_decoding_message_size(MAX_RESPONSE);
    match variant {
        Variant::StateOfTheWorld => {
            let (send, queue) = mpsc::channel(QUEUE);
            let opening = async move {
                let stream = client.stream_aggregated_resources(ReceiverStream::new(queue));
                Ok(Responses::StateOfTheWorld(stream.await?.into_inner()))
            };
            (Requests::StateOfTheWorld(send), Box::pin(opening))
        }
        Variant::Delta => {
            let (send, queue) = mpsc::channel(QUEUE);
            let opening = async move {
                let stream = client.delta_aggregated_resources(ReceiverStream::new(queue));
                Ok(Responses::Delta(stream.await?.into_inner()))
            };
            (Requests::Delta(send), Box::pin(opening))
        }
    }
}

impl Requests {
    pub(super) async fn send(&self, request: Outgoing) -> Result<(), Status> {
        let sent = match (self, request) {
            (Self::StateOfTheWorld(to), Outgoing::StateOfTheWorld(r)) => to.send(r).await.is_ok(),
            (Self::Delta(to), Outgoing::Delta(r)) => to.send(r).await.is_ok(),
            _ => false,
        };
        if sent { Ok(()) } else { Err(Status::unavailable("the stream is closed")) }
    }
}

impl Responses {
    /// The next response. Nothing is lost if this is dropped before it is done.
    pub(super) async fn next(&mut self) -> Result<Incoming, Status> {
        let next = match self {
            Self::StateOfTheWorld(from) => from.message().await?.map(Incoming::StateOfTheWorld),
            Self::Delta(from) => from.message().await?.map(Incoming::Delta),
        };
        next.ok_or_else(|| Status::ok("the server ended the stream"))
    }
}
