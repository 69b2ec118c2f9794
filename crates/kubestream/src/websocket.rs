//! WebSocket messages with a channel number in front, and WebSocket as a plain byte stream.

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::Mutex;
use tokio::time::{Duration, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

pub(crate) type Socket = WebSocketStream<TokioIo<Upgraded>>;
pub(crate) type Source = SplitStream<Socket>;

/// Largest message taken from a client; clients send some tens of kilobytes at once.
const MAX_MESSAGE: usize = 4 << 20;
/// How much is sent at once.
const CHUNK: usize = 32 << 10;
/// How long a client may take to close its end.
const GOODBYE: Duration = Duration::from_secs(5);

pub(crate) async fn socket(upgraded: Upgraded) -> Socket {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await
}

/// The sending half, shared by all channels.
pub(crate) struct Sender(Mutex<SplitSink<Socket, Message>>);

impl Sender {
    pub(crate) fn new(sink: SplitSink<Socket, Message>) -> Self {
        Self(Mutex::new(sink))
    }

    /// One message on one channel.
    pub(crate) async fn send(&self, channel: u8, data: &[u8]) -> Result<(), Error> {
        let mut message = Vec::with_capacity(data.len() + 1);
        message.push(channel);
        message.extend_from_slice(data);
        self.0.lock().await.send(Message::Binary(message.into())).await
    }

    /// Sends everything from `reader` on one channel, until it ends or the client is gone.
    pub(crate) async fn pump(&self, channel: u8, reader: Option<impl AsyncRead + Unpin>) {
        let Some(mut reader) = reader else { return };
        let mut buffer = vec![0; CHUNK];
        while let Ok(length @ 1..) = reader.read(&mut buffer).await {
            if self.send(channel, &buffer[..length]).await.is_err() {
                return;
            }
        }
    }

    /// Says goodbye and waits a moment for the other end, so that nothing on the way is lost.
    pub(crate) async fn close(&self, ended: impl Future<Output = ()>) {
        if self.0.lock().await.send(goodbye()).await.is_ok() {
            // Whether the client answers in time makes no difference any more.
            let _ = timeout(GOODBYE, ended).await;
        }
    }
}

/// Without a code, `kubectl` takes the end for a failure.
fn goodbye() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
}

/// The next message as channel and data; `None` when the client is gone. Text is not part of the
/// protocols and is passed over, as are empty messages.
pub(crate) async fn next(source: &mut Source) -> Option<(u8, Bytes)> {
    loop {
        match source.next().await?.ok()? {
            Message::Binary(mut data) if !data.is_empty() => {
                let channel = data.split_to(1)[0];
                return Some((channel, data));
            }
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// The bytes of a WebSocket's messages as one stream, as SPDY is tunnelled in it.
pub(crate) fn tunnel(socket: Socket) -> (DuplexStream, impl Future<Output = ()>) {
    let (near, far) = tokio::io::duplex(4 * CHUNK);
    let (mut reader, mut writer) = tokio::io::split(far);
    let (mut sink, mut source) = socket.split();
    let carry = async move {
        let inward = async {
            while let Some(Ok(message)) = source.next().await {
                match message {
                    Message::Binary(data) if writer.write_all(&data).await.is_err() => break,
                    Message::Close(_) => break,
                    _ => {}
                }
            }
            // Whoever reads on the near side sees the end.
            let _ = writer.shutdown().await;
        };
        let outward = async {
            let mut buffer = vec![0; CHUNK];
            while let Ok(length @ 1..) = reader.read(&mut buffer).await {
                let data = Bytes::copy_from_slice(&buffer[..length]);
                if sink.send(Message::Binary(data)).await.is_err() {
                    return;
                }
            }
            // A client that is gone needs no goodbye.
            let _ = sink.send(goodbye()).await;
        };
        let mut inward = std::pin::pin!(inward);
        tokio::select! {
            () = outward => {
                let _ = timeout(GOODBYE, inward).await;
            }
            () = &mut inward => {}
        }
    };
    (near, carry)
}
