//! `echo serve`: opens the ports and hands each connection to its protocol.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::report::{Connection, Who};
use crate::{http, tcp, tls};

#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Ports for HTTP/1, HTTP/2 with prior knowledge, gRPC and WebSocket.
    #[arg(long, value_delimiter = ',', default_value = "8080")]
    http: Vec<u16>,
    /// The same over TLS.
    #[arg(long, value_delimiter = ',')]
    https: Vec<u16>,
    /// Ports that report one line of text sent over TCP.
    #[arg(long, value_delimiter = ',')]
    tcp: Vec<u16>,
    /// The same over TLS.
    #[arg(long, value_delimiter = ',')]
    tls: Vec<u16>,
    /// TCP ports where the server speaks first.
    #[arg(long, value_delimiter = ',')]
    greet: Vec<u16>,
    /// Ports of a proxy for tunnels (CONNECT).
    #[arg(long, value_delimiter = ',')]
    connect: Vec<u16>,
    /// Certificate chain (PEM); a self-signed one is made when absent.
    #[arg(long, requires = "key")]
    cert: Option<std::path::PathBuf>,
    /// Private key (PEM).
    #[arg(long, requires = "cert")]
    key: Option<std::path::PathBuf>,
    /// Name told in reports.
    #[arg(long, env = "HOSTNAME", default_value = "localhost")]
    hostname: String,
    #[arg(long, env = "SERVICE", default_value = "")]
    service: String,
    #[arg(long, env = "VERSION", default_value = "")]
    version: String,
    #[arg(long, env = "NAMESPACE", default_value = "")]
    namespace: String,
    #[arg(long, env = "NODE_NAME", default_value = "")]
    node: String,
}

/// What a port speaks.
#[derive(Clone)]
enum Protocol {
    Http,
    Tcp,
    Greet,
    Connect,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let stop = ironsail_daemon::signal::stop_on_signals().context("watching for signals")?;
    let secure = !(args.https.is_empty() && args.tls.is_empty());
    let acceptor =
        if secure { Some(tls::acceptor(args.cert.as_deref(), args.key.as_deref())?) } else { None };
    let who = Arc::new(Who {
        hostname: args.hostname,
        service: args.service,
        version: args.version,
        namespace: args.namespace,
        node: args.node,
    });
    let ports = [
        ("http", &args.http, Protocol::Http, false),
        ("https", &args.https, Protocol::Http, true),
        ("tcp", &args.tcp, Protocol::Tcp, false),
        ("tls", &args.tls, Protocol::Tcp, true),
        ("greet", &args.greet, Protocol::Greet, false),
        ("connect", &args.connect, Protocol::Connect, false),
    ];
    for (name, list, protocol, encrypted) in ports {
        for port in list {
            let listener = TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port)))
                .await
                .with_context(|| format!("listening on port {port}"))?;
            println!("{name} on {}", listener.local_addr().context("own address")?);
            let acceptor = acceptor.clone().filter(|_| encrypted);
            tokio::spawn(accept(listener, acceptor, protocol.clone(), who.clone()));
        }
    }
    println!("echo is ready");
    stop.cancelled().await;
    Ok(())
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    protocol: Protocol,
    who: Arc<Who>,
) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of descriptors: let some connections end first.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let (acceptor, protocol, who) = (acceptor.clone(), protocol.clone(), who.clone());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, peer, acceptor, protocol, who).await {
                eprintln!("connection from {peer}: {error:#}");
            }
        });
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    protocol: Protocol,
    who: Arc<Who>,
) -> anyhow::Result<()> {
    if matches!(protocol, Protocol::Connect) {
        return crate::connect::serve(stream).await.context("CONNECT");
    }
    let canonical = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
    let local = stream.local_addr().context("own address")?;
    let mut seen = Connection { who, peer: canonical(peer), local: canonical(local), tls: None };
    match acceptor {
        None => speak(stream, protocol, seen).await,
        Some(acceptor) => {
            let stream = acceptor.accept(stream).await.context("TLS handshake")?;
            seen.tls = Some(Arc::new(tls::seen(stream.get_ref().1)));
            speak(stream, protocol, seen).await
        }
    }
}

async fn speak<S>(stream: S, protocol: Protocol, seen: Connection) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match protocol {
        Protocol::Tcp => tcp::serve(stream, seen, false).await.context("TCP"),
        Protocol::Greet | Protocol::Connect => tcp::serve(stream, seen, true).await.context("TCP"),
        Protocol::Http => auto::Builder::new(TokioExecutor::new())
            .serve_connection_with_upgrades(
                TokioIo::new(stream),
                TowerToHyperService::new(http::routes(seen)),
            )
            .await
            .map_err(|e| anyhow::anyhow!("HTTP: {e}")),
    }
}
