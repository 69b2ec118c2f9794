//! Exec over WebSocket: channel numbers 0 to 4, and in v5 a signal that closes a channel.

use std::sync::Arc;

use futures::StreamExt as _;
use hyper::upgrade::Upgraded;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;

use super::{Request, end_status, pipes, terminal_size};
use crate::pod::{PodStreams, TerminalSize};
use crate::websocket::{self, Sender, Source};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Followed by the channel that its sender closes.
const CLOSE: u8 = 255;

pub(super) async fn run(
    upgraded: Upgraded,
    closes: bool,
    request: Request,
    streams: Arc<dyn PodStreams>,
) {
    let (io, ends) = pipes(&request);
    let (sink, source) = websocket::socket(upgraded).await.split();
    let sender = Sender::new(sink);
    // An empty message on the first output tells the client that it is connected.
    let first = if request.stdout {
        STDOUT
    } else if request.stderr {
        STDERR
    } else {
        ERROR
    };
    if sender.send(first, &[]).await.is_err() {
        return;
    }
    let mut gone = std::pin::pin!(read(source, closes, ends.stdin, ends.resize));
    let work = async {
        let outputs = async {
            tokio::join!(sender.pump(STDOUT, ends.stdout), sender.pump(STDERR, ends.stderr))
        };
        let (outcome, _) = tokio::join!(streams.exec(request.pod, request.options, io), outputs);
        outcome
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        () = &mut gone => return,
    };
    let status = end_status(outcome).to_string();
    if sender.send(ERROR, status.as_bytes()).await.is_ok() {
        sender.close(gone).await;
    }
}

/// Hands on what the client sends, until it is gone.
async fn read(
    mut source: Source,
    closes: bool,
    mut stdin: Option<DuplexStream>,
    resize: mpsc::Sender<TerminalSize>,
) {
    while let Some((channel, data)) = websocket::next(&mut source).await {
        match channel {
            STDIN => {
                if let Some(pipe) = &mut stdin
                    && pipe.write_all(&data).await.is_err()
                {
                    // The command does not read any more; what comes is thrown away.
                    stdin = None;
                }
            }
            RESIZE => {
                let size = serde_json::from_slice(&data).ok();
                if let Some(size) = size.as_ref().and_then(terminal_size) {
                    // A command that takes no sizes needs none.
                    let _ = resize.try_send(size);
                }
            }
            CLOSE if closes && data.first() == Some(&STDIN) => stdin = None,
            _ => {}
        }
    }
}
