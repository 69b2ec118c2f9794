//! SPDY/3.1 as Kubernetes clients speak it: the client opens streams with a few headers, both ends
//! send data on them, and either end closes its half.
//!
//! Neither end of this dialect uses windows: what one stream does not take holds up the others.
//! Each stream has a generous buffer, so that this does not happen to honest ones.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::sync::{Mutex, mpsc};

pub(crate) mod frame;
pub(crate) mod header;

use frame::{FLAG_FIN, Head, Kind};
use header::{Decoder, Encoder, Headers};

const CHUNK: usize = 32 << 10;
const STREAM_BUFFER: usize = 1 << 20;
const MAX_STREAMS: usize = 2048;
const REFUSED_STREAM: u32 = 3;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the client sent {0}")]
    Protocol(&'static str),
    #[error("the connection ended")]
    Io(#[from] std::io::Error),
}

/// A stream that the client opened.
pub(crate) struct Stream {
    pub(crate) id: u32,
    headers: Headers,
    /// What the client sends; ends when the client closes its half.
    pub(crate) reader: DuplexStream,
    pub(crate) writer: Writer,
}

impl Stream {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Our half of a stream.
#[derive(Clone)]
pub(crate) struct Writer {
    id: u32,
    wire: Arc<dyn Wire>,
}

impl Writer {
    pub(crate) async fn send(&self, data: &[u8]) -> std::io::Result<()> {
        for chunk in data.chunks(CHUNK) {
            self.wire.send(frame::data(self.id, 0, chunk)).await?;
        }
        Ok(())
    }

    /// Closes our half.
    pub(crate) async fn finish(&self) -> std::io::Result<()> {
        self.wire.send(frame::data(self.id, FLAG_FIN, &[])).await
    }

    /// Sends everything from `reader` and closes our half.
    pub(crate) async fn pump(&self, reader: Option<impl AsyncRead + Unpin>) {
        let Some(mut reader) = reader else { return };
        let mut buffer = vec![0; CHUNK];
        while let Ok(length @ 1..) = reader.read(&mut buffer).await {
            if self.send(&buffer[..length]).await.is_err() {
                return;
            }
        }
        // Where the client is gone, the reading side tells.
        let _ = self.finish().await;
    }
}

/// The sending side of a connection, whatever carries it.
trait Wire: Send + Sync {
    fn send(&self, frame: Vec<u8>) -> futures::future::BoxFuture<'_, std::io::Result<()>>;
}

struct Half<S>(Mutex<WriteHalf<S>>);

impl<S: AsyncWrite + Send> Wire for Half<S> {
    fn send(&self, frame: Vec<u8>) -> futures::future::BoxFuture<'_, std::io::Result<()>> {
        Box::pin(async move {
            let mut half = self.0.lock().await;
            half.write_all(&frame).await?;
            half.flush().await
        })
    }
}

/// A connection's ends: streams come out of `streams`; `closer` says goodbye.
pub(crate) struct Connection {
    pub(crate) streams: mpsc::Receiver<Stream>,
    pub(crate) closer: Closer,
}

pub(crate) struct Closer(Arc<dyn Wire>);

impl Closer {
    pub(crate) async fn goodbye(&self) {
        // Last good stream 0 and status OK; a client that is gone does not need it.
        let _ = self.0.send(frame::control(Kind::GoAway, 0, &[0; 8])).await;
    }
}

/// Serves a connection: the future reads until the client is gone.
pub(crate) fn serve<S>(io: S) -> (Connection, impl Future<Output = Error>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read, write) = tokio::io::split(io);
    let wire: Arc<dyn Wire> = Arc::new(Half(Mutex::new(write)));
    let (sender, streams) = mpsc::channel(16);
    let reader = Reader {
        io: read,
        decoder: Decoder::new(),
        encoder: Encoder::new(),
        wire: Arc::clone(&wire),
        open: FxHashMap::default(),
        last: 0,
        sender,
    };
    (Connection { streams, closer: Closer(wire) }, reader.run())
}

struct Reader<S> {
    io: ReadHalf<S>,
    decoder: Decoder,
    encoder: Encoder,
    wire: Arc<dyn Wire>,
    /// The streams whose client's half is open.
    open: FxHashMap<u32, DuplexStream>,
    last: u32,
    sender: mpsc::Sender<Stream>,
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Reader<S> {
    async fn run(mut self) -> Error {
        loop {
            if let Err(error) = self.frame().await {
                return error;
            }
        }
    }

    async fn frame(&mut self) -> Result<(), Error> {
        let mut head = [0; frame::HEAD];
        self.io.read_exact(&mut head).await?;
        match Head::parse(head)? {
            Head::Data { stream, fin, length } => {
                self.data(stream, length).await?;
                if fin {
                    self.open.remove(&stream);
                }
                Ok(())
            }
            Head::Control { kind, fin, length } => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let mut payload = vec![0; length];
                self.io.read_exact(&mut payload).await?;
                self.control(kind, fin, &payload).await
            }
        }
    }

    async fn data(&mut self, stream: u32, length: u32) -> Result<(), Error> {
        let mut left = usize::try_from(length).unwrap_or(usize::MAX);
        let mut buffer = vec![0; left.min(CHUNK)];
        while left > 0 {
            let part = &mut buffer[..left.min(CHUNK)];
            self.io.read_exact(part).await?;
            left -= part.len();
            if let Some(writer) = self.open.get_mut(&stream)
                && writer.write_all(part).await.is_err()
            {
                // Nobody reads it any more; the rest is thrown away.
                self.open.remove(&stream);
            }
        }
        Ok(())
    }

    async fn control(&mut self, kind: Kind, fin: bool, payload: &[u8]) -> Result<(), Error> {
        match kind {
            Kind::SynStream => self.syn_stream(fin, payload).await,
            Kind::RstStream => {
                self.open.remove(&frame::number(payload)?.0);
                Ok(())
            }
            Kind::Ping => {
                // Odd numbers are the client's; it wants them back.
                let (number, _) = frame::number(payload)?;
                if number % 2 == 1 {
                    self.wire.send(frame::control(Kind::Ping, 0, &number.to_be_bytes())).await?;
                }
                Ok(())
            }
            Kind::SynReply | Kind::Headers => {
                let (stream, block) = frame::number(payload)?;
                self.decoder.decode(block)?;
                if fin {
                    self.open.remove(&stream);
                }
                Ok(())
            }
            Kind::GoAway | Kind::Other => Ok(()),
        }
    }

    async fn syn_stream(&mut self, fin: bool, payload: &[u8]) -> Result<(), Error> {
        let (id, rest) = frame::number(payload)?;
        // The associated stream, the priority and the slot mean nothing to us.
        let block = rest.get(6..).ok_or(Error::Protocol("a stream without headers"))?;
        let headers = self.decoder.decode(block)?;
        if id % 2 == 0 || id <= self.last {
            return Err(Error::Protocol("a stream with a wrong number"));
        }
        self.last = id;
        if self.open.len() >= MAX_STREAMS {
            let mut reset = id.to_be_bytes().to_vec();
            reset.extend_from_slice(&REFUSED_STREAM.to_be_bytes());
            return Ok(self.wire.send(frame::control(Kind::RstStream, 0, &reset)).await?);
        }
        let mut reply = id.to_be_bytes().to_vec();
        reply.extend(self.encoder.encode(&[]));
        self.wire.send(frame::control(Kind::SynReply, 0, &reply)).await?;
        let (reader, inward) = tokio::io::duplex(STREAM_BUFFER);
        if !fin {
            self.open.insert(id, inward);
        }
        let writer = Writer { id, wire: Arc::clone(&self.wire) };
        let stream = Stream { id, headers, reader, writer };
        // Where nobody takes streams any more, the session is about to end.
        let _ = self.sender.send(stream).await;
        Ok(())
    }
}
