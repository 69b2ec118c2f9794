//! Endpoints that show the request as JSON.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST};
use axum::http::request::Parts;
use base64::Engine;
use serde_json::{Map, Value, json};

use crate::{Bin, HeaderStyle, Peer, Shared};

/// The whole request: `/get`, `/post`, `/anything` …
pub(crate) async fn request(bin: Shared, peer: Peer, parts: Parts, body: Bytes) -> Json<Value> {
    let headers = &parts.headers;
    let args = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let host = headers.get(HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let content_type = headers.get(CONTENT_TYPE).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let form: BTreeMap<String, String> =
        if content_type.starts_with("application/x-www-form-urlencoded") {
            Query::try_from_uri(
                &format!("/?{}", String::from_utf8_lossy(&body)).parse().unwrap_or_default(),
            )
            .map(|Query(form)| form)
            .unwrap_or_default()
        } else {
            BTreeMap::new()
        };
    Json(json!({
        "args": grouped(args.map(|Query(a)| a).unwrap_or_default(), bin.style),
        "data": data(&body),
        "form": form,
        "headers": header_map(&bin, headers),
        "json": serde_json::from_slice::<Value>(&body).unwrap_or(Value::Null),
        "method": parts.method.as_str(),
        "origin": origin(headers, &peer),
        "url": format!("{}://{host}{}", scheme(headers), parts.uri),
    }))
}

pub(crate) async fn headers(bin: Shared, headers: HeaderMap) -> Json<Value> {
    let shown = header_map(&bin, &headers);
    Json(match bin.style {
        HeaderStyle::Strings => shown,
        HeaderStyle::Lists => json!({"headers": shown}),
    })
}

pub(crate) async fn ip(peer: Peer, headers: HeaderMap) -> Json<Value> {
    Json(json!({"origin": origin(&headers, &peer)}))
}

pub(crate) async fn user_agent(headers: HeaderMap) -> Json<Value> {
    let agent = headers.get("user-agent").and_then(|h| h.to_str().ok());
    Json(json!({"user-agent": agent}))
}

/// The bare name in the string style, as an object in the other.
pub(crate) async fn hostname(bin: Shared) -> Json<Value> {
    Json(match bin.style {
        HeaderStyle::Strings => json!(bin.hostname),
        HeaderStyle::Lists => json!({"hostname": bin.hostname}),
    })
}

pub(crate) async fn cookies(headers: HeaderMap) -> Json<Value> {
    let cookies: BTreeMap<_, _> = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|h| h.to_str().ok())
        .flat_map(|h| h.split(';'))
        .filter_map(|c| c.trim().split_once('='))
        .collect();
    Json(json!({"cookies": cookies}))
}

/// Headers by their usual spelling; `Host` only among lists.
fn header_map(bin: &Bin, headers: &HeaderMap) -> Value {
    let shown = headers.iter().filter(|(name, _)| bin.style == HeaderStyle::Lists || *name != HOST);
    let pairs = shown.map(|(name, value)| {
        (spelled(name.as_str()), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    grouped(pairs, bin.style)
}

fn grouped(pairs: impl IntoIterator<Item = (String, String)>, style: HeaderStyle) -> Value {
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in pairs {
        lists.entry(key).or_default().push(value);
    }
    let map: Map<String, Value> = lists
        .into_iter()
        .map(|(key, values)| match style {
            HeaderStyle::Strings => (key, Value::String(values.join(","))),
            HeaderStyle::Lists => (key, json!(values)),
        })
        .collect();
    Value::Object(map)
}

/// `x-request-id` as `X-Request-Id`.
fn spelled(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut start = true;
    for c in name.chars() {
        out.push(if start { c.to_ascii_uppercase() } else { c });
        start = c == '-';
    }
    out
}

fn origin(headers: &HeaderMap, peer: &Peer) -> String {
    match headers.get("x-forwarded-for").and_then(|h| h.to_str().ok()) {
        Some(origin) => origin.to_owned(),
        None => peer.0.ip().to_canonical().to_string(),
    }
}

fn scheme(headers: &HeaderMap) -> &str {
    headers.get("x-forwarded-proto").and_then(|h| h.to_str().ok()).unwrap_or("http")
}

/// Text as it is, anything else as a data address.
fn data(body: &[u8]) -> String {
    match std::str::from_utf8(body) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(body);
            format!("data:application/octet-stream;base64,{encoded}")
        }
    }
}
