//! A SPDY client, as small as the tests need it.

use std::net::SocketAddr;

use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::spdy::frame::{self, FLAG_FIN, Head, Kind};
use crate::spdy::header::Encoder;

pub(crate) struct Client<S> {
    io: S,
    encoder: Encoder,
    next: u32,
    received: FxHashMap<u32, (Vec<u8>, bool)>,
    pongs: Vec<u32>,
    went_away: bool,
}

impl Client<TcpStream> {
    /// Upgrades to SPDY; gives the answer's head instead where that fails.
    pub(crate) async fn upgrade(
        address: SocketAddr,
        path: &str,
        protocol: &str,
    ) -> Result<Self, String> {
        let mut io = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
             X-Stream-Protocol-Version: {protocol}\r\nContent-Length: 0\r\n\r\n"
        );
        io.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(io.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        if !head.starts_with("HTTP/1.1 101") {
            return Err(head);
        }
        Ok(Self::over(io))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn over(io: S) -> Self {
        let encoder = Encoder::new();
        Self {
            io,
            encoder,
            next: 1,
            received: FxHashMap::default(),
            pongs: vec![],
            went_away: false,
        }
    }

    pub(crate) async fn open(&mut self, headers: &[(&str, &str)]) -> u32 {
        let id = self.next;
        self.next += 2;
        let mut payload = id.to_be_bytes().to_vec();
        payload.extend_from_slice(&[0; 6]);
        payload.extend(self.encoder.encode(headers));
        self.io.write_all(&frame::control(Kind::SynStream, 0, &payload)).await.unwrap();
        id
    }

    pub(crate) async fn send(&mut self, stream: u32, data: &[u8]) {
        self.io.write_all(&frame::data(stream, 0, data)).await.unwrap();
    }

    pub(crate) async fn finish(&mut self, stream: u32) {
        self.io.write_all(&frame::data(stream, FLAG_FIN, &[])).await.unwrap();
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.unwrap();
    }

    /// Sends a ping and waits for its answer.
    pub(crate) async fn ping(&mut self, number: u32) {
        self.raw(&frame::control(Kind::Ping, 0, &number.to_be_bytes())).await;
        while !self.pongs.contains(&number) {
            assert!(self.step().await, "the server left without an answer");
        }
    }

    /// What came on a stream until the server closed it.
    pub(crate) async fn wait(&mut self, stream: u32) -> String {
        while !self.received.get(&stream).is_some_and(|(_, fin)| *fin) {
            assert!(self.step().await, "the server left with stream {stream} open");
        }
        String::from_utf8(self.received.remove(&stream).unwrap().0).unwrap()
    }

    /// Waits until the server has closed the connection.
    pub(crate) async fn wait_for_end(&mut self) {
        while self.step().await {}
    }

    pub(crate) async fn wait_for_goodbye(&mut self) {
        while !self.went_away {
            assert!(self.step().await, "the server left without a goodbye");
        }
    }

    /// One frame; false at the end.
    async fn step(&mut self) -> bool {
        let mut head = [0; frame::HEAD];
        if self.io.read_exact(&mut head).await.is_err() {
            return false;
        }
        match Head::parse(head).unwrap() {
            Head::Data { stream, fin, length } => {
                let mut data = vec![0; length as usize];
                self.io.read_exact(&mut data).await.unwrap();
                let entry = self.received.entry(stream).or_default();
                entry.0.extend(data);
                entry.1 |= fin;
            }
            Head::Control { kind, length, .. } => {
                let mut payload = vec![0; length as usize];
                self.io.read_exact(&mut payload).await.unwrap();
                match kind {
                    Kind::Ping => self.pongs.push(frame::number(&payload).unwrap().0),
                    Kind::GoAway => self.went_away = true,
                    _ => {}
                }
            }
        }
        true
    }
}
