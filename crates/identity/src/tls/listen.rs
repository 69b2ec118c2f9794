//! Connections of a listener, with TLS done: what a gRPC or HTTP server takes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, future, stream};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

use super::PeerCertificates;

/// A client must be done within this time.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at a time; more wait in the listener's queue.
const AT_ONCE: usize = 1_024;

/// Accepts for ever. Each connection comes with its peer's `SocketAddr` and, if the client showed good
/// certificates, its `PeerCertificates`. A handshake that fails or hangs holds up nobody else.
pub fn incoming(
    listener: TcpListener,
    config: Arc<ServerConfig>,
) -> impl Stream<Item = (TlsStream<TcpStream>, http::Extensions)> {
    let acceptor = TlsAcceptor::from(config);
    stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok(accepted) => return Some((accepted, listener)),
                Err(error) => {
                    // Out of descriptors, most likely: there may be some again in a moment.
                    debug!(%error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    })
    .map(move |(io, peer)| tokio::spawn(handshake(acceptor.clone(), io, peer)))
    .buffer_unordered(AT_ONCE)
    .filter_map(|done| future::ready(done.ok().flatten()))
}

async fn handshake(
    acceptor: TlsAcceptor,
    io: TcpStream,
    peer: SocketAddr,
) -> Option<(TlsStream<TcpStream>, http::Extensions)> {
    let _ = io.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(io)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            debug!(%peer, %error, "TLS handshake failed");
            return None;
        }
        Err(_) => {
            debug!(%peer, "TLS handshake took too long");
            return None;
        }
    };
    let mut known = http::Extensions::new();
    known.insert(peer);
    if let Some(certificates) = PeerCertificates::of(stream.get_ref().1) {
        known.insert(certificates);
    }
    Some((stream, known))
}
