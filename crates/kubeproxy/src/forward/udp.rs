//! Carrying datagrams from the host to a Service and the answers back.
//!
//! Each client has a socket of its own on a node, so that its answers find their way; it goes when
//! both were silent for a while.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ironsail_podnet::Network;
use parking_lot::{Mutex, RwLock};
use tokio::net::UdpSocket;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::Target;

const IDLE: Duration = Duration::from_secs(60);
const MOST_CLIENTS: usize = 1024;
const LARGEST: usize = 65_535;

type Sessions = Arc<Mutex<HashMap<SocketAddr, Session>>>;

struct Session {
    socket: Arc<UdpSocket>,
    _answers: AbortOnDropHandle<()>,
}

pub(super) async fn serve(socket: UdpSocket, network: Network, target: Arc<RwLock<Target>>) {
    let socket = Arc::new(socket);
    let sessions = Sessions::default();
    let mut buffer = vec![0; LARGEST];
    loop {
        let (length, client) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "receiving datagrams for a Service");
                tokio::task::yield_now().await;
                continue;
            }
        };
        let known = sessions.lock().get(&client).map(|s| Arc::clone(&s.socket));
        let upstream = match known {
            Some(known) => known,
            None => {
                let target = target.read().clone();
                match open(&socket, &sessions, client, &network, &target).await {
                    Ok(upstream) => upstream,
                    Err(error) => {
                        tracing::debug!(%client, %error, "cannot carry a datagram");
                        continue;
                    }
                }
            }
        };
        // A refusal of the last datagram is reported with this one; the session starts anew.
        if upstream.send(&buffer[..length]).await.is_err() {
            sessions.lock().remove(&client);
        }
    }
}

async fn open(
    socket: &Arc<UdpSocket>,
    sessions: &Sessions,
    client: SocketAddr,
    network: &Network,
    target: &Target,
) -> io::Result<Arc<UdpSocket>> {
    if sessions.lock().len() >= MOST_CLIENTS {
        return Err(io::Error::other("too many clients at once"));
    }
    let (node, to) = target.choose(network)?;
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let upstream = Arc::new(node.dialer().udp(SocketAddr::new(any, 0)).await?);
    upstream.connect(to).await?;
    let answers = answers(Arc::clone(socket), Arc::clone(&upstream), Arc::clone(sessions), client);
    let answers = AbortOnDropHandle::new(tokio::spawn(answers));
    let session = Session { socket: Arc::clone(&upstream), _answers: answers };
    sessions.lock().insert(client, session);
    Ok(upstream)
}

async fn answers(
    socket: Arc<UdpSocket>,
    upstream: Arc<UdpSocket>,
    sessions: Sessions,
    client: SocketAddr,
) {
    let mut buffer = vec![0; LARGEST];
    while let Ok(Ok(length)) = timeout(IDLE, upstream.recv(&mut buffer)).await {
        if socket.send_to(&buffer[..length], client).await.is_err() {
            break;
        }
    }
    // Out of this task: removing the session drops the handle, which aborts whom it belongs to.
    tokio::spawn(async move { sessions.lock().remove(&client) });
}
