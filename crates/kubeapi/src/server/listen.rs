//! The API for everybody else: TLS with HTTP/1.1 and HTTP/2 on listeners that are given.
//!
//! A client that does not finish its handshake or its headers in time is dropped; none can hold up
//! another.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::Server;
use crate::auth::Peer;

const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(30);
const PING_EVERY: Duration = Duration::from_secs(30);
/// How long connections may take to end when the server stops.
const GOODBYE: Duration = Duration::from_secs(5);
/// Streams on one HTTP/2 connection; watches hold one each.
const STREAMS: u32 = 1000;

impl Server {
    /// Serves `listener` until `stop` is cancelled, then lets connections finish for a few seconds.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Arc<rustls::ServerConfig>,
        stop: CancellationToken,
    ) {
        let acceptor = TlsAcceptor::from(tls);
        let connections = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            match accepted {
                Ok((stream, address)) => self.connection(stream, address, &acceptor, &connections),
                Err(error) => {
                    // Out of files or memory: wait for some to be freed rather than spin.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        if tokio::time::timeout(GOODBYE, connections.shutdown()).await.is_err() {
            tracing::debug!("some connections did not end in time");
        }
    }

    fn connection(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        acceptor: &TlsAcceptor,
        connections: &GracefulShutdown,
    ) {
        let (server, acceptor) = (self.clone(), acceptor.clone());
        let watcher = connections.watcher();
        tokio::spawn(async move {
            // Small frames of watches must not wait for more.
            drop(stream.set_nodelay(true));
            let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => {
                    tracing::debug!(%address, %error, "TLS handshake failed");
                    return;
                }
                Err(_) => {
                    tracing::debug!(%address, "TLS handshake took too long");
                    return;
                }
            };
            let certificates = stream.get_ref().1.peer_certificates();
            let leaf = certificates.and_then(<[_]>::first).map(|leaf| Arc::from(leaf.as_ref()));
            let peer = Peer::Tls(leaf);
            let service = service_fn(move |request: Request<Incoming>| {
                let (server, peer) = (server.clone(), peer.clone());
                async move { Ok::<_, Infallible>(server.handle(request, peer).await) }
            });
            let builder = builder();
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
            if let Err(error) = watcher.watch(connection.into_owned()).await {
                tracing::debug!(%address, error, "connection ended");
            }
        });
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .max_concurrent_streams(STREAMS);
    builder
}
