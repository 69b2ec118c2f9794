//! Serving DNS on sockets that somebody else opened.
//!
//! In: UDP sockets and TCP listeners; out: answers. Our own names are answered on the spot;
//! forwarded ones wait in tasks of their own, of which there are only so many.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::{Forwarder, Lookup, Outcome, Pending, Transport, answer};

const MOST_FORWARDED: usize = 512;
const MOST_CONNECTIONS: usize = 256;
/// How long a connection may stay silent.
const IDLE: Duration = Duration::from_secs(10);
const LARGEST_DATAGRAM: usize = 4096;

/// A server. Clones share its limits.
#[derive(Clone)]
pub struct Server {
    lookup: Arc<dyn Lookup>,
    forwarder: Option<Forwarder>,
    forwarding: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

impl Server {
    /// Without a forwarder, names that are not ours do not exist.
    pub fn new(lookup: Arc<dyn Lookup>, forwarder: Option<Forwarder>) -> Self {
        Self {
            lookup,
            forwarder,
            forwarding: Arc::new(Semaphore::new(MOST_FORWARDED)),
            connections: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
        }
    }

    /// Serves datagrams until the task is dropped.
    pub async fn serve_udp(&self, socket: UdpSocket) {
        let socket = Arc::new(socket);
        let mut buffer = vec![0; LARGEST_DATAGRAM];
        loop {
            let (length, from) = match socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    // An earlier answer that could not be delivered is reported here; not ours to mend.
                    tracing::debug!(%error, "receiving DNS datagrams");
                    tokio::task::yield_now().await;
                    continue;
                }
            };
            match answer(&buffer[..length], Transport::Udp, &*self.lookup) {
                Outcome::Ignore => {}
                Outcome::Reply(reply) => {
                    // A client that is gone needs no answer.
                    let _ = socket.send_to(&reply, from).await;
                }
                Outcome::Forward(pending) => {
                    let (server, socket) = (self.clone(), Arc::clone(&socket));
                    let Ok(permit) = Arc::clone(&self.forwarding).try_acquire_owned() else {
                        if let Some(reply) = pending.failed() {
                            let _ = socket.send_to(&reply, from).await;
                        }
                        continue;
                    };
                    tokio::spawn(async move {
                        if let Some(reply) = server.forward(*pending).await {
                            let _ = socket.send_to(&reply, from).await;
                        }
                        drop(permit);
                    });
                }
            }
        }
    }

    /// Serves connections until the task is dropped.
    pub async fn serve_tcp(&self, listener: TcpListener) {
        loop {
            // Beyond the limit new connections wait in the listener's queue.
            let Ok(permit) = Arc::clone(&self.connections).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let server = self.clone();
                    tokio::spawn(async move {
                        if let Err(error) = server.serve_stream(stream).await {
                            tracing::debug!(%error, "a DNS connection broke");
                        }
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a DNS connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn serve_stream(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let Ok(length) = timeout(IDLE, stream.read_u16()).await else { return Ok(()) };
            let length = match length {
                Ok(length) => usize::from(length),
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(e) => return Err(e),
            };
            let mut packet = vec![0; length];
            timeout(IDLE, stream.read_exact(&mut packet)).await??;
            let reply = match answer(&packet, Transport::Tcp, &*self.lookup) {
                Outcome::Ignore => None,
                Outcome::Reply(reply) => Some(reply),
                Outcome::Forward(pending) => self.forward(*pending).await,
            };
            let Some(reply) = reply else { return Ok(()) };
            let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
            let bytes = [&length.to_be_bytes()[..], &reply].concat();
            timeout(IDLE, stream.write_all(&bytes)).await??;
        }
    }

    async fn forward(&self, pending: Pending) -> Option<Vec<u8>> {
        let Some(forwarder) = &self.forwarder else { return pending.unknown() };
        match forwarder.resolve(&pending.query).await {
            Some(upstream) => pending.finish(&upstream),
            None => pending.failed(),
        }
    }
}
