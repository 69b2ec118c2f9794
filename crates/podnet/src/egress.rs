//! The way out: connections that pods open to the world, carried on by this process.
//!
//! In: connections redirected to a listener on the backbone; out: connections dialled from the
//! namespace this process runs in. Only with egress on; only TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ironsail_sys::netns::Dialer;
use ironsail_sys::socket::original_destination;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::{Error, relay};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Listens on the backbone, one listener per family, and relays until the handles are dropped.
pub(crate) async fn listen(
    backbone: &Dialer,
    own: &[IpAddr],
) -> Result<Vec<(SocketAddr, AbortOnDropHandle<()>)>, Error> {
    let mut relays = Vec::new();
    for ip in own {
        let any: IpAddr =
            if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let at = SocketAddr::new(any, 0);
        let listener = backbone.listen(at).await.map_err(|source| Error::Listen { at, source })?;
        let at = listener.local_addr().map_err(|source| Error::Listen { at, source })?;
        relays.push((at, AbortOnDropHandle::new(tokio::spawn(accept(listener)))));
    }
    Ok(relays)
}

async fn accept(listener: TcpListener) {
    let connections = TaskTracker::new();
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                connections.spawn(carry(client));
            }
            Err(error) => {
                // Out of descriptors, most likely: let some connections end first.
                tracing::warn!(%error, "cannot accept a connection to the world");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn carry(client: TcpStream) {
    let Ok(at) = client.local_addr() else { return };
    let to = match original_destination(&client, at) {
        // Somebody called the relay itself, which must not call itself in turn.
        Ok(to) if to != at => to,
        Ok(_) | Err(_) => return relay::reset(&client),
    };
    match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(to)).await {
        Ok(Ok(server)) => {
            if let Err(error) = relay::carry(client, server).await {
                tracing::debug!(%to, %error, "a connection to the world broke");
            }
        }
        Ok(Err(error)) => {
            tracing::debug!(%to, %error, "cannot connect to the world");
            relay::reset(&client);
        }
        Err(_) => relay::reset(&client),
    }
}
