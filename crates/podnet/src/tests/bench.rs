//! What the tests share: servers that tell who called them, and clients inside a namespace.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ironsail_sys::netns::Netns;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::task::AbortOnDropHandle;

use crate::{Network, NetworkConfig, Node, PodLink};

/// Longer than anything here takes; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Server(
    #[expect(dead_code, reason = "ends the server when dropped")] AbortOnDropHandle<()>,
);

pub(super) async fn network(config: NetworkConfig, nodes: usize) -> (Network, Vec<Node>) {
    let network = Network::create(config).await.unwrap();
    let mut made = Vec::new();
    for i in 0..nodes {
        made.push(network.add_node(&format!("node-{i}")).await.unwrap());
    }
    (network, made)
}

pub(super) fn at(ip: &IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(*ip, port)
}

pub(super) fn first(pod: &PodLink) -> IpAddr {
    pod.addresses[0]
}

/// A TCP server that answers every caller with its own name and the caller's address.
pub(super) async fn serve(netns: &Netns, at: SocketAddr, name: &str) -> Server {
    let listener = netns.dialer().unwrap().listen(at).await.unwrap();
    let name = name.to_owned();
    Server(AbortOnDropHandle::new(tokio::spawn(async move {
        while let Ok((mut stream, peer)) = listener.accept().await {
            let answer = format!("{name} {peer}");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })))
}

/// The same for datagrams.
pub(super) async fn serve_udp(netns: &Netns, at: SocketAddr, name: &str) -> Server {
    let socket = netns.dialer().unwrap().udp(at).await.unwrap();
    let name = name.to_owned();
    Server(AbortOnDropHandle::new(tokio::spawn(async move {
        let mut buffer = [0; 64];
        while let Ok((_, peer)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(format!("{name} {peer}").as_bytes(), peer).await;
        }
    })))
}

#[derive(Debug, PartialEq, Eq, Clone)]
pub(super) struct Answer {
    pub(super) server: String,
    pub(super) seen: SocketAddr,
}

fn parse(text: &str) -> io::Result<Answer> {
    let (server, seen) = text.split_once(' ').ok_or(io::ErrorKind::UnexpectedEof)?;
    let seen = seen.parse().map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Answer { server: server.to_owned(), seen })
}

/// Calls `to` from inside `netns` and says who answered and whom it saw.
pub(super) async fn ask(netns: &Netns, to: SocketAddr) -> io::Result<Answer> {
    let asked = async {
        let mut stream = netns.dialer().map_err(io::Error::other)?.tcp(to).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        parse(&text)
    };
    tokio::time::timeout(PATIENCE, asked).await.map_err(|_| io::ErrorKind::TimedOut)?
}

/// The same by datagram.
pub(super) async fn ask_udp(netns: &Netns, to: SocketAddr) -> io::Result<Answer> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = netns.dialer().map_err(io::Error::other)?.udp(any.parse().unwrap()).await?;
    ask_by(&socket, to).await
}

pub(super) async fn ask_by(socket: &tokio::net::UdpSocket, to: SocketAddr) -> io::Result<Answer> {
    socket.connect(to).await?;
    socket.send(b"?").await?;
    let mut buffer = [0; 128];
    let received = tokio::time::timeout(PATIENCE, socket.recv(&mut buffer)).await;
    let length = received.map_err(|_| io::ErrorKind::TimedOut)??;
    parse(&String::from_utf8_lossy(&buffer[..length]))
}
