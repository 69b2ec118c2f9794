//! Endpoints whose answer comes in parts: bytes, lines, events, WebSocket messages.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use rand::RngCore;
use serde::Deserialize;
use serde_json::json;

const MOST_BYTES: usize = 10 << 20;
const MOST_LINES: u64 = 1_000;

fn random(n: usize) -> Bytes {
    let mut bytes = vec![0; n];
    rand::rng().fill_bytes(&mut bytes);
    bytes.into()
}

fn answer(
    content_type: &'static str,
    parts: impl Stream<Item = Bytes> + Send + 'static,
) -> Response {
    let body = Body::from_stream(parts.map(Ok::<_, Infallible>));
    ([(CONTENT_TYPE, content_type)], body).into_response()
}

pub(crate) async fn bytes(Path(n): Path<usize>) -> Response {
    ([(CONTENT_TYPE, "application/octet-stream")], random(n.min(MOST_BYTES))).into_response()
}

pub(crate) async fn stream_bytes(Path(n): Path<usize>) -> Response {
    let n = n.min(MOST_BYTES);
    let sizes = (0..n).step_by(10_240).map(move |at| 10_240.min(n - at));
    answer("application/octet-stream", stream::iter(sizes).map(random))
}

/// `n` JSON objects, one a line.
pub(crate) async fn stream(Path(n): Path<u64>) -> Response {
    let lines = (0..n.min(MOST_LINES)).map(|id| Bytes::from(format!("{}\n", json!({"id": id}))));
    answer("application/json", stream::iter(lines))
}

#[derive(Deserialize)]
#[serde(default)]
pub(crate) struct Drip {
    duration: f64,
    numbytes: u64,
    delay: f64,
    code: u16,
}

impl Default for Drip {
    fn default() -> Self {
        Self { duration: 2.0, numbytes: 10, delay: 0.0, code: 200 }
    }
}

fn seconds(n: f64) -> Duration {
    Duration::from_secs_f64(n.clamp(0.0, 60.0).max(0.0))
}

/// A few bytes, spread over some seconds.
pub(crate) async fn drip(Query(drip): Query<Drip>) -> Response {
    tokio::time::sleep(seconds(drip.delay)).await;
    let count = drip.numbytes.clamp(1, MOST_LINES);
    let pause = seconds(drip.duration) / u32::try_from(count).unwrap_or(1);
    let parts = stream::iter(0..count).then(move |_| async move {
        tokio::time::sleep(pause).await;
        Bytes::from_static(b"*")
    });
    let mut response = answer("application/octet-stream", parts);
    *response.status_mut() = StatusCode::from_u16(drip.code).unwrap_or(StatusCode::OK);
    response
}

#[derive(Deserialize)]
#[serde(default)]
pub(crate) struct Events {
    count: u64,
    duration: f64,
}

impl Default for Events {
    fn default() -> Self {
        Self { count: 10, duration: 5.0 }
    }
}

/// Server-sent events.
pub(crate) async fn sse(Query(events): Query<Events>) -> Response {
    let count = events.count.clamp(1, MOST_LINES);
    let pause = seconds(events.duration) / u32::try_from(count).unwrap_or(1);
    let parts = stream::iter(0..count).then(move |id| async move {
        tokio::time::sleep(pause).await;
        Bytes::from(format!("event: ping\ndata: {}\n\n", json!({"id": id})))
    });
    answer("text/event-stream", parts)
}

/// Sends every message back.
pub(crate) async fn websocket(upgrade: WebSocketUpgrade) -> Response {
    upgrade.max_message_size(1 << 20).on_upgrade(async |mut socket| {
        while let Some(Ok(message)) = socket.recv().await {
            let sent = match message {
                Message::Text(_) | Message::Binary(_) => socket.send(message).await,
                Message::Close(_) => break,
                Message::Ping(_) | Message::Pong(_) => Ok(()),
            };
            if sent.is_err() {
                break;
            }
        }
    })
}
