//! Connections: keepalive, age, and a drain that spreads.
//!
//! In: connections that somebody accepted (and ended TLS on) and the services to offer; out: HTTP/2 on
//! each, until it is old, dead at the other end, or the program leaves. Streams learn of the end by the
//! request extension `ConnectionEnd` and close in good order.

use std::time::Duration;

use futures::{Stream, StreamExt};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tracing::debug;

use super::patience::Patience;

/// What a client may send before we read it: what HTTP/2 gives it before it hears of us. Less would
/// be taken away from a request that is under way, and a client whose allowance falls below nothing is
/// never told of what was read before.
const WINDOW: u32 = 65_535;

/// How connections are treated.
#[derive(Clone, Debug)]
pub struct Connections {
    /// A ping goes out after this time without traffic.
    pub keepalive_interval: Duration,
    /// A connection ends when a ping is not answered for this time.
    pub keepalive_timeout: Duration,
    /// A connection ends after this time, give or take a tenth, so that proxies spread over replicas.
    pub max_age: Option<Duration>,
    /// Streams get this long to end.
    pub grace: Duration,
    pub max_streams: u32,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(10),
            max_age: Some(Duration::from_secs(30 * 60)),
            grace: Duration::from_secs(10),
            max_streams: 100,
        }
    }
}

/// In a request's extensions: done when its connection should end.
#[derive(Clone, Debug, Default)]
pub struct ConnectionEnd(pub CancellationToken);

/// Tells `serve` to stop, and over how much time its connections should end.
#[derive(Clone, Debug)]
pub struct Drain(watch::Sender<Option<Duration>>);

impl Drain {
    pub fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// No more connections are taken; those there are end one by one within `spread`.
    pub fn start(&self, spread: Duration) {
        self.0.send_replace(Some(spread));
    }
}

impl Default for Drain {
    fn default() -> Self {
        Self::new()
    }
}

/// Serves until the drain has ended every connection, or `incoming` ends.
pub async fn serve<IO>(
    incoming: impl Stream<Item = (IO, http::Extensions)>,
    services: tonic::service::Routes,
    settings: Connections,
    drain: &Drain,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let services = services.prepare();
    let tracker = TaskTracker::new();
    let mut draining = drain.0.subscribe();
    let mut incoming = std::pin::pin!(incoming);
    loop {
        let (io, known) = tokio::select! {
            biased;
            _ = draining.wait_for(Option::is_some) => break,
            next = incoming.next() => match next {
                Some(next) => next,
                None => break,
            },
        };
        let settings = settings.clone();
        let draining = drain.0.subscribe();
        tracker.spawn(connection(io, known, services.clone(), settings, draining));
    }
    tracker.close();
    tracker.wait().await;
}

async fn connection<IO>(
    io: IO,
    known: http::Extensions,
    services: tonic::service::Routes,
    settings: Connections,
    draining: watch::Receiver<Option<Duration>>,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let end = ConnectionEnd::default();
    let told = end.clone();
    let service = tower::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        request.extensions_mut().extend(known.clone());
        request.extensions_mut().insert(told.clone());
        services.clone().oneshot(request.map(tonic::body::Body::new))
    });
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.timer(Patience)
        .keep_alive_interval(settings.keepalive_interval)
        .keep_alive_timeout(settings.keepalive_timeout)
        .max_concurrent_streams(settings.max_streams)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        // Little waits in a connection whose client does not read.
        .max_send_buf_size(32 * 1024);
    let connection = http.serve_connection(TokioIo::new(io), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        result = connection.as_mut() => {
            if let Err(error) = result {
                debug!(%error, "connection failed");
            }
            return;
        }
        () = enough(settings.max_age, draining) => {}
    }
    connection.as_mut().graceful_shutdown();
    end.0.cancel();
    if tokio::time::timeout(settings.grace, connection).await.is_err() {
        debug!("streams did not end in time");
    }
}

/// Waits until a connection is old enough, or its turn in a drain comes.
async fn enough(max_age: Option<Duration>, mut draining: watch::Receiver<Option<Duration>>) {
    let old = async {
        match max_age {
            Some(age) => tokio::time::sleep(age.mul_f64(rand::random_range(0.9..1.1))).await,
            None => std::future::pending().await,
        }
    };
    let drained = async {
        let started = draining.wait_for(Option::is_some).await.map(|spread| *spread).ok();
        let Some(Some(spread)) = started else {
            return std::future::pending().await;
        };
        tokio::time::sleep(spread.mul_f64(rand::random_range(0.0..1.0))).await;
    };
    tokio::select! {
        () = old => {}
        () = drained => {}
    }
}
