//! Endpoints that answer with a given code, later, elsewhere, or only to whom they know.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query};
use axum::http::header::{AUTHORIZATION, LOCATION, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use rand::Rng;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Peer, Shared, inspect};

/// The longest anybody is made to wait.
const LONGEST: f64 = 60.0;

/// `/status/503`, or one of several by weight: `/status/200:0.9,503:0.1`.
pub(crate) async fn status(Path(codes): Path<String>) -> Response {
    let Some(choices) = choices(&codes) else {
        return (StatusCode::BAD_REQUEST, "Invalid status code\n").into_response();
    };
    let total: f64 = choices.iter().map(|(_, weight)| weight).sum();
    let mut point = rand::rng().random::<f64>() * total;
    let mut chosen = choices[0].0;
    for (code, weight) in choices {
        chosen = code;
        point -= weight;
        if point < 0.0 {
            break;
        }
    }
    match chosen.as_u16() {
        301 | 302 | 303 | 307 | 308 => (chosen, [(LOCATION, "/redirect/1")]).into_response(),
        401 => (chosen, [(WWW_AUTHENTICATE, "Basic realm=\"Fake Realm\"")]).into_response(),
        418 => (chosen, "I am a teapot.\n").into_response(),
        _ => chosen.into_response(),
    }
}

fn choices(text: &str) -> Option<Vec<(StatusCode, f64)>> {
    let choices: Option<Vec<_>> = text
        .split(',')
        .take(20)
        .map(|part| {
            let (code, weight) = part.split_once(':').unwrap_or((part, "1"));
            let code: u16 = code.trim().parse().ok().filter(|c| (200..600).contains(c))?;
            let weight: f64 =
                weight.trim().parse().ok().filter(|w: &f64| w.is_finite() && *w >= 0.0)?;
            Some((StatusCode::from_u16(code).ok()?, weight))
        })
        .collect();
    choices.filter(|c| !c.is_empty())
}

/// The request, shown after some seconds.
pub(crate) async fn delay(
    bin: Shared,
    peer: Peer,
    Path(seconds): Path<f64>,
    parts: Parts,
    body: Bytes,
) -> Json<Value> {
    // NaN and negative numbers become no wait.
    tokio::time::sleep(Duration::from_secs_f64(seconds.clamp(0.0, LONGEST).max(0.0))).await;
    inspect::request(bin, peer, parts, body).await
}

pub(crate) async fn redirect(Path(n): Path<u32>) -> Response {
    let next = match n {
        0 | 1 => "/get".to_owned(),
        n => format!("/redirect/{}", n.min(100) - 1),
    };
    (StatusCode::FOUND, [(LOCATION, next)]).into_response()
}

#[derive(Deserialize)]
pub(crate) struct To {
    url: String,
    status_code: Option<u16>,
}

pub(crate) async fn redirect_to(Query(to): Query<To>) -> Response {
    let status = to.status_code.and_then(|c| StatusCode::from_u16(c).ok());
    match HeaderValue::from_str(&to.url) {
        Ok(url) => (
            status.filter(StatusCode::is_redirection).unwrap_or(StatusCode::FOUND),
            [(LOCATION, url)],
        )
            .into_response(),
        Err(_) => (StatusCode::BAD_REQUEST, "Invalid url\n").into_response(),
    }
}

pub(crate) async fn basic_auth(
    Path((user, password)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|h| h.to_str().ok()?.strip_prefix("Basic "))
        .and_then(|b| base64::engine::general_purpose::STANDARD.decode(b).ok());
    if given.as_deref() == Some(format!("{user}:{password}").as_bytes()) {
        return Json(json!({"authenticated": true, "user": user})).into_response();
    }
    let realm = [(WWW_AUTHENTICATE, "Basic realm=\"Fake Realm\"")];
    (StatusCode::UNAUTHORIZED, realm, Json(json!({"authenticated": false}))).into_response()
}

pub(crate) async fn bearer(headers: HeaderMap) -> Response {
    match headers.get(AUTHORIZATION).and_then(|h| h.to_str().ok()?.strip_prefix("Bearer ")) {
        Some(token) => Json(json!({"authenticated": true, "token": token})).into_response(),
        None => (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")]).into_response(),
    }
}

pub(crate) async fn not_found(uri: Uri) -> Response {
    let error = json!({"status_code": 404, "error": "Not Found", "path": uri.path()});
    (StatusCode::NOT_FOUND, Json(error)).into_response()
}
