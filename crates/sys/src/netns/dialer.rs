//! Sockets made inside a network namespace and used from outside.
//!
//! In: addresses; out: tokio sockets. A socket keeps the namespace it was made in, so only its
//! making needs a thread that has entered; one such thread serves all clones of a `Dialer` and ends
//! with the last of them.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::oneshot;

use super::{Error, Netns, STACK};

const BACKLOG: i32 = 1024;

type Job = Box<dyn FnOnce() + Send>;

/// Makes sockets in one namespace. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dialer(mpsc::Sender<Job>);

impl Dialer {
    pub fn new(netns: &Netns) -> Result<Self, Error> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (entered, result) = mpsc::channel();
        let netns = netns.clone();
        std::thread::Builder::new()
            .name("netns-dialer".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                let inside = netns.enter();
                drop(netns);
                let ready = inside.is_ok();
                // A caller that is gone needs no answer.
                let _ = entered.send(inside);
                if ready {
                    queue.into_iter().for_each(|job| job());
                }
            })
            .map_err(Error::Thread)?;
        result.recv().unwrap_or_else(|_| Err(Error::Thread(io::ErrorKind::BrokenPipe.into())))?;
        Ok(Self(jobs))
    }

    /// Connects to `to` as a program inside would.
    pub async fn tcp(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = self.make(move || new_socket(to, Type::STREAM, Protocol::TCP)).await?;
        let stream = TcpSocket::from_std_stream(socket.into()).connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Listens at `at` inside.
    pub async fn listen(&self, at: SocketAddr) -> io::Result<TcpListener> {
        let socket = self
            .make(move || {
                let socket = new_socket(at, Type::STREAM, Protocol::TCP)?;
                socket.set_reuse_address(true)?;
                socket.bind(&at.into())?;
                socket.listen(BACKLOG)?;
                Ok(socket)
            })
            .await?;
        TcpListener::from_std(socket.into())
    }

    /// A datagram socket bound to `at` inside.
    pub async fn udp(&self, at: SocketAddr) -> io::Result<UdpSocket> {
        let socket = self
            .make(move || {
                let socket = new_socket(at, Type::DGRAM, Protocol::UDP)?;
                socket.bind(&at.into())?;
                Ok(socket)
            })
            .await?;
        UdpSocket::from_std(socket.into())
    }

    /// Any other socket: `make` runs on the thread inside and must not block for long.
    pub async fn make<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = oneshot::channel();
        let job = Box::new(move || {
            let _ = done.send(make());
        });
        self.0.send(job).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        result.await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?
    }
}

fn new_socket(for_address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(for_address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if for_address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}
