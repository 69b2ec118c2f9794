//! Exec over SPDY: one stream per input and output, named by its `streamtype`.

use std::sync::Arc;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::{Duration, timeout};

use super::{Request, end_status, pipes, terminal_size};
use crate::pod::{PodStreams, TerminalSize};
use crate::spdy::{self, Stream};

/// How long a client may take to open its streams, and to close the connection at the end.
const PATIENCE: Duration = Duration::from_secs(30);
const GOODBYE: Duration = Duration::from_secs(5);
/// Sizes are a few bytes each; nobody has this much of them unread.
const MAX_SIZES: usize = 4 << 10;

#[derive(Default)]
struct Opened {
    error: Option<Stream>,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
}

pub(super) async fn run(upgraded: Upgraded, request: Request, streams: Arc<dyn PodStreams>) {
    let (mut connection, reader) = spdy::serve(TokioIo::new(upgraded));
    let mut gone = std::pin::pin!(reader);
    let opened = tokio::select! {
        opened = timeout(PATIENCE, open(&mut connection.streams, &request)) => opened,
        error = &mut gone => {
            tracing::debug!(%error, "a client left before it opened its streams");
            return;
        }
    };
    let Ok(Some(opened)) = opened else {
        tracing::debug!("a client did not open the streams of its exec session");
        return;
    };
    // Streams that the request does not speak of must not hold up the reading, which tells us when
    // the client is gone.
    connection.streams.close();
    let Some(error) = opened.error else { return };
    let work =
        command(request, streams, opened.stdin, [opened.stdout, opened.stderr], opened.resize);
    let outcome = tokio::select! {
        outcome = work => outcome,
        _ = &mut gone => return,
    };
    let status = end_status(outcome).to_string();
    if error.writer.send(status.as_bytes()).await.is_ok() && error.writer.finish().await.is_ok() {
        connection.closer.goodbye().await;
        // The client has all it needs; whether it says goodbye makes no difference.
        let _ = timeout(GOODBYE, gone).await;
    }
}

async fn command(
    request: Request,
    streams: Arc<dyn PodStreams>,
    stdin: Option<Stream>,
    outputs: [Option<Stream>; 2],
    resize: Option<Stream>,
) -> Result<crate::pod::Exit, crate::pod::Error> {
    let (io, ends) = pipes(&request);
    let [stdout, stderr] = outputs;
    let out = async {
        if let Some(stream) = stdout {
            stream.writer.pump(ends.stdout).await;
        }
    };
    let err = async {
        if let Some(stream) = stderr {
            stream.writer.pump(ends.stderr).await;
        }
    };
    let inputs = async { tokio::join!(copy(stdin, ends.stdin), sizes(resize, ends.resize)) };
    let work = async { tokio::join!(streams.exec(request.pod, request.options, io), out, err).0 };
    // The inputs may stay open after the command ended, so nobody waits for them.
    let mut work = std::pin::pin!(work);
    tokio::select! {
        outcome = &mut work => outcome,
        _ = inputs => work.await,
    }
}

/// Waits for all streams that the request speaks of. `None` where the client sends others.
async fn open(incoming: &mut mpsc::Receiver<Stream>, request: &Request) -> Option<Opened> {
    let mut opened = Opened::default();
    loop {
        let complete = opened.error.is_some()
            && opened.stdin.is_some() == request.stdin
            && opened.stdout.is_some() == request.stdout
            && opened.stderr.is_some() == request.stderr
            && opened.resize.is_some() == request.options.tty;
        if complete {
            return Some(opened);
        }
        let stream = incoming.recv().await?;
        let place = match stream.header("streamtype")? {
            "error" => &mut opened.error,
            "stdin" if request.stdin => &mut opened.stdin,
            "stdout" if request.stdout => &mut opened.stdout,
            "stderr" if request.stderr => &mut opened.stderr,
            "resize" if request.options.tty => &mut opened.resize,
            _ => return None,
        };
        *place = Some(stream);
    }
}

async fn copy(from: Option<Stream>, to: Option<DuplexStream>) {
    let (Some(mut from), Some(mut to)) = (from, to) else { return };
    // An error on either side means that one of them is gone.
    let _ = tokio::io::copy(&mut from.reader, &mut to).await;
    let _ = to.shutdown().await;
}

async fn sizes(from: Option<Stream>, to: mpsc::Sender<TerminalSize>) {
    let Some(mut from) = from else { return };
    let mut buffer = Vec::new();
    while let Ok(1..) = from.reader.read_buf(&mut buffer).await {
        let mut values = serde_json::Deserializer::from_slice(&buffer).into_iter::<Value>();
        let mut taken = 0;
        while let Some(Ok(value)) = values.next() {
            taken = values.byte_offset();
            if let Some(size) = terminal_size(&value) {
                let _ = to.try_send(size);
            }
        }
        buffer.drain(..taken);
        if buffer.len() > MAX_SIZES {
            return;
        }
    }
}
