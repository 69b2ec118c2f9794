//! Connections without TLS for a gRPC server, and HTTP for people and probes.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use futures::{Stream, stream};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Accepts for ever. Each connection comes with its peer's address.
pub(crate) fn incoming(listener: TcpListener) -> impl Stream<Item = (TcpStream, http::Extensions)> {
    stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok((io, peer)) => {
                    let _ = io.set_nodelay(true);
                    let mut known = http::Extensions::new();
                    known.insert(peer);
                    return Some(((io, known), listener));
                }
                Err(error) => {
                    // Out of descriptors, most likely: there may be some again in a moment.
                    tracing::debug!(%error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    })
}

/// Serves HTTP until `stop`. Handlers find the peer's address with `ConnectInfo<SocketAddr>`.
pub(crate) async fn http(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(stop.cancelled_owned()).await?;
    Ok(())
}
