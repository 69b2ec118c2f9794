//! Whether the rules work: a connection that only they can bring to the proxy's ports.
//!
//! In: ports and a time; out: proof or an error. Listens where the proxy would and connects to
//! 127.0.0.6 (or `::6`) as the proxy would; that the connection arrives, with its first destination
//! known to the kernel, shows that it was redirected. It must run as the proxy's user.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use ironsail_sys::socket::original_destination;
use tokio::net::{TcpListener, TcpSocket};

use crate::config::Config;

/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot start")]
    Start(#[source] io::Error),
    #[error("none of the proxy's ports could be listened on ({0})")]
    Listen(String),
    #[error("no redirected connection arrived within {} s; the last attempt {last}", within.as_secs_f32())]
    NotRedirected { within: Duration, last: String },
}

/// Tries until a connection arrives or the time is over.
pub fn check(config: &Config, probe_port: u16, within: Duration) -> Result<(), Error> {
    let (listen_at, connect_to): (IpAddr, IpAddr) = if config.ipv6 {
        (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::from([0, 0, 0, 0, 0, 0, 0, 6u16]).into())
    } else {
        (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(127, 0, 0, 6).into())
    };
    let ports = [config.proxy_port, config.inbound_capture_port];
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Start)?;
    runtime.block_on(async {
        let listeners = listen(listen_at, &ports)?;
        let mut last = "did not begin".to_owned();
        let arrived = async {
            let mut accepting: FuturesUnordered<_> =
                listeners.iter().map(|listener| redirected(listener, probe_port)).collect();
            accepting.next().await
        };
        let connect = async {
            loop {
                let to = SocketAddr::new(connect_to, probe_port);
                last = match attempt(listen_at, to).await {
                    Ok(()) => format!("to {to} was accepted, but not by us"),
                    Err(error) => format!("to {to} failed: {error}"),
                };
                tokio::time::sleep(PAUSE).await;
            }
        };
        let result = tokio::time::timeout(within, async {
            tokio::select! {
                _ = arrived => {}
                () = connect => {}
            }
        })
        .await;
        result.map_err(|_| Error::NotRedirected { within, last })
    })
}

/// One of them is enough: the proxy itself may hold the other already.
fn listen(at: IpAddr, ports: &[u16]) -> Result<Vec<TcpListener>, Error> {
    let mut listeners = Vec::new();
    let mut faults = Vec::new();
    for port in ports {
        let at = SocketAddr::new(at, *port);
        match bind(at) {
            Ok(listener) => listeners.push(listener),
            Err(error) => faults.push(format!("{at}: {error}")),
        }
    }
    if listeners.is_empty() { Err(Error::Listen(faults.join(", "))) } else { Ok(listeners) }
}

fn bind(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(16)
}

async fn attempt(from: IpAddr, to: SocketAddr) -> io::Result<()> {
    let socket = if to.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await.map(drop)
}

/// Ends when a connection comes in that was meant for `port`. Others may come from anywhere.
async fn redirected(listener: &TcpListener, port: u16) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let meant = stream.local_addr().and_then(|at| original_destination(&stream, at));
        if meant.is_ok_and(|meant| meant.port() == port) {
            return;
        }
    }
}
