//! Port-forward over SPDY: for each connection a stream for data and one for its error.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

use super::error_text;
use crate::pod::{PodRef, PodStreams};
use crate::spdy::{Connection, Error, Stream};

/// Connections of which only one stream has come yet.
const MAX_WAITING: usize = 256;

#[derive(Default)]
struct Pair {
    data: Option<Stream>,
    error: Option<Stream>,
}

pub(super) async fn run(
    mut connection: Connection,
    reader: impl Future<Output = Error>,
    pod: PodRef,
    streams: Arc<dyn PodStreams>,
) {
    let mut reader = std::pin::pin!(reader);
    let mut waiting: FxHashMap<String, Pair> = FxHashMap::default();
    let mut running = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = connection.streams.recv() => stream,
            Some(_) = running.join_next() => continue,
            error = &mut reader => {
                tracing::debug!(%error, "a port-forward ended");
                return;
            }
        };
        let Some((id, stream, is_error)) = stream.and_then(classify) else {
            tracing::debug!("a port-forward client opened a stream of an unknown type");
            return;
        };
        let pair = waiting.entry(id.clone()).or_default();
        *(if is_error { &mut pair.error } else { &mut pair.data }) = Some(stream);
        if let Pair { data: Some(_), error: Some(_) } = pair
            && let Some(Pair { data: Some(data), error: Some(error) }) = waiting.remove(&id)
        {
            running.spawn(connect(data, error, pod.clone(), Arc::clone(&streams)));
        }
        if waiting.len() > MAX_WAITING {
            tracing::debug!("a port-forward client opened too many half connections");
            return;
        }
    }
}

/// The number of the connection that a stream belongs to, and whether it is its error stream.
/// Old clients give no number, but open the error stream right before the data stream.
fn classify(stream: Stream) -> Option<(String, Stream, bool)> {
    let is_error = match stream.header("streamtype")? {
        "error" => true,
        "data" => false,
        _ => return None,
    };
    let id = match stream.header("requestid") {
        Some(id) => id.to_owned(),
        None if is_error => stream.id.to_string(),
        None => stream.id.checked_sub(2)?.to_string(),
    };
    Some((id, stream, is_error))
}

async fn connect(data: Stream, error: Stream, pod: PodRef, streams: Arc<dyn PodStreams>) {
    let port = data.header("port").and_then(|p| p.parse::<u16>().ok()).filter(|p| *p > 0);
    let outcome = match port {
        Some(port) => match streams.connect(pod.clone(), port).await {
            Ok(target) => carry(data, target).await,
            Err(why) => {
                // Sent before the data stream closes, so that the client shows it.
                let text = error_text(&pod, port, &why);
                let told = error.writer.send(text.as_bytes()).await;
                told.and(data.writer.finish().await)
            }
        },
        None => {
            let told = error.writer.send(b"the stream names no valid port").await;
            told.and(data.writer.finish().await)
        }
    };
    if let Err(why) = outcome.and(error.writer.finish().await) {
        tracing::debug!(%why, "a forwarded connection broke");
    }
}

/// Copies both ways; each direction ends by itself.
async fn carry(data: Stream, target: Box<dyn crate::pod::Duplex>) -> std::io::Result<()> {
    let Stream { mut reader, writer, .. } = data;
    let (from_pod, mut to_pod) = tokio::io::split(target);
    let upward = async {
        let copied = tokio::io::copy(&mut reader, &mut to_pod).await;
        copied.map(|_| ()).and(to_pod.shutdown().await)
    };
    let downward = writer.pump(Some(from_pod));
    // A target that takes no more may still have something to say.
    let (_, ()) = tokio::join!(upward, downward);
    Ok(())
}
