//! Asking upstream servers for names that are not ours.
//!
//! In: a query; out: what the first upstream that answered said, remembered as long as its records
//! may be. Answers are believed only from the server asked, with the number and question asked.

mod cache;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout};

use cache::Cache;

const DATAGRAM: u16 = 1232;
const DNS_PORT: u16 = 53;

/// A forwarder. Clones share its memory.
#[derive(Clone)]
pub struct Forwarder(Arc<Inner>);

struct Inner {
    upstreams: Vec<SocketAddr>,
    patience: Duration,
    cache: Cache,
}

impl Forwarder {
    pub fn new(upstreams: Vec<SocketAddr>) -> Self {
        Self::with_patience(upstreams, Duration::from_secs(2))
    }

    /// With another time to wait for each server.
    pub fn with_patience(upstreams: Vec<SocketAddr>, patience: Duration) -> Self {
        Self(Arc::new(Inner { upstreams, patience, cache: Cache::default() }))
    }

    /// Asks each server in turn, all of them twice, until one answers.
    pub async fn resolve(&self, query: &Query) -> Option<Message> {
        if let Some(known) = self.0.cache.find(query, Instant::now()) {
            return Some(known);
        }
        for upstream in self.0.upstreams.iter().chain(&self.0.upstreams) {
            match timeout(self.0.patience, ask(*upstream, query)).await {
                Ok(Ok(answer)) if is_answer(&answer) => {
                    self.0.cache.keep(query, &answer, Instant::now());
                    return Some(answer);
                }
                Ok(Ok(answer)) => {
                    tracing::debug!(%upstream, name = %query.name, code = ?answer.metadata.response_code, "upstream DNS would not say");
                }
                Ok(Err(error)) => {
                    tracing::debug!(%upstream, name = %query.name, %error, "cannot ask upstream DNS");
                }
                Err(_) => tracing::debug!(%upstream, name = %query.name, "upstream DNS is silent"),
            }
        }
        None
    }
}

/// Whether the server knew; otherwise another one may.
fn is_answer(message: &Message) -> bool {
    matches!(message.metadata.response_code, ResponseCode::NoError | ResponseCode::NXDomain)
}

async fn ask(upstream: SocketAddr, query: &Query) -> io::Result<Message> {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(query.clone());
    let mut edns = Edns::new();
    edns.set_max_payload(DATAGRAM);
    message.set_edns(edns);
    let packet = message.to_vec().map_err(io::Error::other)?;
    let answer = ask_udp(upstream, &message, &packet).await?;
    if answer.metadata.truncation { ask_tcp(upstream, &message, &packet).await } else { Ok(answer) }
}

async fn ask_udp(upstream: SocketAddr, asked: &Message, packet: &[u8]) -> io::Result<Message> {
    let any: IpAddr = match upstream {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // A port of its own for each question: one thing more to guess for a forger.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(upstream).await?;
    socket.send(packet).await?;
    let mut buffer = vec![0; usize::from(DATAGRAM)];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(answer) = answer_to(asked, &buffer[..length]) {
            return Ok(answer);
        }
    }
}

async fn ask_tcp(upstream: SocketAddr, asked: &Message, packet: &[u8]) -> io::Result<Message> {
    let mut stream = TcpStream::connect(upstream).await?;
    let length = u16::try_from(packet.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], packet].concat()).await?;
    let length = stream.read_u16().await?;
    let mut buffer = vec![0; usize::from(length)];
    stream.read_exact(&mut buffer).await?;
    answer_to(asked, &buffer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The message in `packet`, if it answers what was asked.
fn answer_to(asked: &Message, packet: &[u8]) -> Option<Message> {
    let answer = Message::from_vec(packet).ok()?;
    let fits = answer.metadata.id == asked.metadata.id
        && answer.metadata.message_type == MessageType::Response
        && answer.metadata.op_code == OpCode::Query
        && answer.queries == asked.queries;
    fits.then_some(answer)
}

/// The servers that a resolv.conf names.
pub fn upstreams(resolv_conf: &str) -> Vec<SocketAddr> {
    resolv_conf
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next().filter(|w| *w == "nameserver").and(words.next())?;
            Some(SocketAddr::new(address.parse().ok()?, DNS_PORT))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::upstreams;

    #[test]
    fn name_servers_are_read_from_resolv_conf() {
        let text = "# a comment\nsearch example.com\nnameserver 192.0.2.1\nnameserver\t2001:db8::1 # v6\nnameserver nonsense\n;nameserver 192.0.2.9\noptions ndots:5\n";
        let found: Vec<_> = upstreams(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:53", "[2001:db8::1]:53"]);
    }
}
