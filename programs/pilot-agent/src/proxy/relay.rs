//! The xDS proxy: Envoy and gRPC clients ask on a Unix socket, the control plane answers.
//!
//! In: streams of discovery clients beside this agent; out: the same streams to the control plane,
//! with the workload's proof of who it is. What the agent itself wants (the name table, debug data)
//! goes over the same stream and stays here. A stream that breaks upstream is broken downstream: the
//! client keeps what it has, comes back after its own back-off and says what it has.

mod addresses;
mod lenient;
mod own;
#[cfg(test)]
mod tests;
mod upstream;
mod variant;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use ironsail_identity::{RenewalPolicy, backoff};
use ironsail_proto::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use ironsail_proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use ironsail_xds::{Messages, Variant as Kind};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, Streaming};
use tracing::{debug, info, warn};

use super::wasm::{self, Cache, ECDS};
pub(crate) use own::{Healths, Own};
pub(crate) use upstream::Upstream;
use variant::Variant;

/// Messages that may wait in either direction. The protocol has one response unanswered a type.
const QUEUE: usize = 16;
/// How long a client beside us is kept waiting while nobody answers upstream.
const HOLD: Duration = Duration::from_secs(10);
/// Between two tries, at first and at most.
const SOON: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(2);
/// Longest message.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;

/// Serves discovery on a Unix socket until told to stop.
pub(crate) async fn serve(
    socket: &Path,
    upstream: Upstream,
    own: Arc<Own>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener = bind(socket)?;
    let relay = Relay { upstream: Arc::new(upstream), own };
    let service = AggregatedDiscoveryServiceServer::new(relay)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(lenient::incoming(listener), stop.cancelled())
        .await?;
    Ok(())
}

/// A socket file that an earlier agent left behind is replaced.
pub(crate) fn bind(socket: &Path) -> anyhow::Result<UnixListener> {
    use anyhow::Context;
    let what = || format!("listening on {}", socket.display());
    if let Some(folder) = socket.parent() {
        std::fs::create_dir_all(folder).with_context(what)?;
    }
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(what);
        }
        _ => {}
    }
    UnixListener::bind(socket).with_context(what)
}

/// A stream of the agent's own, beside those that it relays: what it says next, and what it hears.
pub(crate) async fn open_own(
    upstream: &Upstream,
    first: &DiscoveryRequest,
) -> Result<(mpsc::Sender<DiscoveryRequest>, Messages<DiscoveryResponse>), Status> {
    open(upstream, first).await
}

struct Relay {
    upstream: Arc<Upstream>,
    own: Arc<Own>,
}

type Answers<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for Relay {
    type StreamAggregatedResourcesStream = Answers<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Answers<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        requests: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Ok(Response::new(self.relay::<DiscoveryRequest>(requests.into_inner())))
    }

    async fn delta_aggregated_resources(
        &self,
        requests: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Ok(Response::new(self.relay::<DeltaDiscoveryRequest>(requests.into_inner())))
    }
}

impl Relay {
    fn relay<V: Variant>(&self, requests: Streaming<V>) -> Answers<V::Response> {
        let (answers, queue) = mpsc::channel(QUEUE);
        let (upstream, own) = (self.upstream.clone(), self.own.clone());
        tokio::spawn(async move {
            tokio::select! {
                // Envoy went away; so does the stream upstream.
                () = answers.closed() => {}
                status = carry(&upstream, &own, requests, &answers) => {
                    let _ = answers.send(Err(status)).await;
                }
            }
        });
        Box::pin(ReceiverStream::new(queue))
    }
}

/// Hands on what comes with modules fetched, one after the other, while the rest of the stream goes on.
fn fetching<V: Variant>(
    modules: Arc<Cache>,
    answers: mpsc::Sender<Result<V::Response, Status>>,
) -> mpsc::Sender<V::Response> {
    let (give, mut take) = mpsc::channel::<V::Response>(QUEUE);
    tokio::spawn(async move {
        while let Some(mut response) = take.recv().await {
            let rewritten = wasm::rewrite(&modules, V::resources(&response)).await;
            V::set_resources(&mut response, rewritten);
            if answers.send(Ok(response)).await.is_err() {
                return;
            }
        }
    });
    give
}

/// Opens the stream upstream and says the first word. A control plane that is not there is tried again
/// for a while: who asks beside us waits longer with every failure that it hears of.
async fn open<V: Variant>(
    upstream: &Upstream,
    first: &V,
) -> Result<(mpsc::Sender<V>, Messages<V::Response>), Status> {
    let until = Instant::now() + HOLD;
    for failures in 0.. {
        let (up, queue) = mpsc::channel(QUEUE);
        // There is room: nothing else was said.
        let _ = up.try_send(first.clone());
        let status = match upstream.open(queue).await {
            Ok(responses) => return Ok((up, responses)),
            Err(status) => status,
        };
        let (address, why) = (upstream.address(), status.message());
        if failures == 0 {
            warn!(target: "xdsproxy", "failed to connect to upstream {address}: {why}");
        } else {
            debug!(target: "xdsproxy", "failed to connect to upstream {address}: {why}");
        }
        let pause = backoff(failures, SOON, LATER);
        // Not all of them at the same time.
        let pause = pause.mul_f64(0.75 + RenewalPolicy::random() / 4.0);
        if status.code() != Code::Unavailable || Instant::now() + pause > until {
            break;
        }
        tokio::time::sleep(pause).await;
    }
    Err(Status::unavailable(format!("no connection to {}", upstream.address())))
}

/// Carries one stream to its end, and says why it ended.
async fn carry<V: Variant>(
    upstream: &Upstream,
    own: &Arc<Own>,
    mut requests: Streaming<V>,
    answers: &mpsc::Sender<Result<V::Response, Status>>,
) -> Status {
    let first = match requests.message().await {
        Ok(Some(first)) => first,
        Ok(None) => return Status::ok(""),
        Err(status) => return status,
    };
    let node = first.node().cloned();
    let (up, mut responses) = match open(upstream, &first).await {
        Ok(opened) => opened,
        Err(status) => return status,
    };
    let kind = if V::KIND == Kind::Delta { "delta upstream" } else { "upstream" };
    info!(target: "xdsproxy", "connected to {kind} XDS server: {}", upstream.address());
    let mut side = own.join(node);
    let modules = own.modules().map(|modules| fetching::<V>(modules.clone(), answers.clone()));
    for request in side.first_requests() {
        let _ = up.send(request).await;
    }
    loop {
        tokio::select! {
            request = requests.message() => match request {
                Ok(Some(request)) => {
                    if up.send(request).await.is_err() {
                        return Status::unavailable("the control plane closed the stream");
                    }
                }
                Ok(None) => return Status::ok(""),
                Err(status) => {
                    debug!(target: "xdsproxy", "downstream ended: {status}");
                    return status;
                }
            },
            request = side.next_request() => {
                let _ = up.send(request).await;
            }
            response = responses.message() => match response {
                Ok(Some(response)) => match side.take(response) {
                    own::Taken::Ours(answer) => {
                        let _ = up.send(answer).await;
                    }
                    own::Taken::Heard => {}
                    own::Taken::Theirs(response) => {
                        let fetch = modules.as_ref().filter(|_| V::type_url(&response) == ECDS);
                        if let Some(modules) = fetch {
                            if modules.send(response).await.is_err() {
                                return Status::ok("");
                            }
                            continue;
                        }
                        if answers.send(Ok(response)).await.is_err() {
                            return Status::ok("");
                        }
                    }
                },
                Err(status) => {
                    info!(target: "xdsproxy", "disconnected from XDS server: {}: {}", upstream.address(), status.message());
                    return Status::unavailable(status.message());
                }
                Ok(None) => {
                    info!(target: "xdsproxy", "disconnected from XDS server: {}", upstream.address());
                    return Status::unavailable("the control plane ended the stream");
                }
            },
        }
    }
}
