//! HTTP: every request is reported; the query can ask for a status, a delay, headers or a size, and
//! how many requests came with the header `x-count`.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::report::{Connection, Report, header_lists};
use crate::{grpc, limit};

const MOST_BODY: usize = 4 << 20;

/// How many requests came with each value of `x-count`, and the host that the last one named.
static COUNTS: Mutex<BTreeMap<String, (u64, String)>> = Mutex::new(BTreeMap::new());
const MOST_COUNTS: usize = 10_000;

/// What the query may ask of the answer.
#[derive(Deserialize)]
struct Wishes {
    status: Option<u16>,
    /// The status is asked only of servers of this version.
    only: Option<String>,
    /// Answer how many requests were counted under this name, instead of a report.
    counted: Option<String>,
    /// Milliseconds before the answer.
    delay: Option<u64>,
    /// `name:value`, for the answer.
    header: Option<String>,
    /// Pad the answer to this many bytes.
    size: Option<usize>,
}

pub(crate) fn routes(seen: Connection) -> Router {
    Router::new()
        .route(grpc::ECHO, axum::routing::post(grpc::echo))
        .route(grpc::HEALTH, axum::routing::post(grpc::health))
        .route(limit::SHOULD_LIMIT, axum::routing::post(limit::should_limit))
        .fallback(echo)
        .with_state(seen)
}

async fn echo(State(seen): State<Connection>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        let mut report = Report::new(seen, "WebSocket", b"");
        report.path = Some(parts.uri.to_string());
        report.headers = header_lists(&parts.headers);
        return upgrade.max_message_size(1 << 20).on_upgrade(|socket| websocket(socket, report));
    }
    let body = match Limited::new(body, MOST_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return (StatusCode::PAYLOAD_TOO_LARGE, format!("{error}\n")).into_response(),
    };
    let wishes = match Query::<Wishes>::try_from_uri(&parts.uri) {
        Ok(Query(wishes)) => wishes,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let authority = parts.uri.authority().map(ToString::to_string).or_else(|| {
        parts.headers.get(HOST).map(|h| String::from_utf8_lossy(h.as_bytes()).into_owned())
    });
    if let Some(name) = wishes.counted {
        let (count, authority) = COUNTS.lock().get(&name).cloned().unwrap_or_default();
        let found = serde_json::json!({"count": count, "authority": authority});
        return axum::Json(found).into_response();
    }
    count(&parts.headers, authority.as_deref());
    let report = Report {
        method: Some(parts.method.to_string()),
        authority,
        path: parts.uri.path_and_query().map(ToString::to_string),
        headers: header_lists(&parts.headers),
        ..Report::new(seen, format!("{:?}", parts.version), &body)
    };
    answer(&report, wishes).await
}

/// Bounded: a client may send what it likes.
fn count(headers: &axum::http::HeaderMap, authority: Option<&str>) {
    let Some(name) = headers.get("x-count").and_then(|value| value.to_str().ok()) else { return };
    let mut counts = COUNTS.lock();
    if counts.len() < MOST_COUNTS || counts.contains_key(name) {
        let entry = counts.entry(name.to_owned()).or_default();
        entry.0 += 1;
        entry.1 = authority.unwrap_or_default().to_owned();
    }
}

async fn answer(report: &Report, wishes: Wishes) -> Response {
    if let Some(millis) = wishes.delay {
        tokio::time::sleep(Duration::from_millis(millis.min(60_000))).await;
    }
    let mut text = report.json();
    text.push('\n');
    if let Some(size) = wishes.size {
        let missing = size.min(MOST_BODY).saturating_sub(text.len());
        text.push_str(&" ".repeat(missing));
    }
    let mut response = Response::new(Body::from(Bytes::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let meant = wishes.only.is_none_or(|only| only == report.connection.who.version);
    let status = wishes.status.filter(|_| meant);
    if let Some(code) = status.and_then(|s| StatusCode::from_u16(s).ok()) {
        *response.status_mut() = code;
    }
    let header = wishes.header.as_deref().and_then(|h| h.split_once(':'));
    if let Some((name, value)) = header
        && let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name.trim()), HeaderValue::from_str(value.trim()))
    {
        response.headers_mut().append(name, value);
    }
    response
}

/// Each message comes back inside a report.
async fn websocket(mut socket: WebSocket, mut report: Report) {
    while let Some(Ok(message)) = socket.recv().await {
        match message {
            Message::Text(text) => report.body = text.to_string(),
            Message::Binary(bytes) => report.body = String::from_utf8_lossy(&bytes).into_owned(),
            Message::Close(_) => break,
            Message::Ping(_) | Message::Pong(_) => continue,
        }
        if socket.send(Message::Text(report.json().into())).await.is_err() {
            break;
        }
    }
}
