//! Endpoints whose answer does not depend on who asks.

use axum::Json;
use axum::extract::{Path, Query};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LOCATION, SET_COOKIE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use serde_json::{Value, json};

pub(crate) async fn index() -> Html<&'static str> {
    Html(
        "<!doctype html><title>httpbin</title><h1>httpbin</h1><p>Try \
         <a href=\"/get\">/get</a>, <a href=\"/headers\">/headers</a>, <a href=\"/ip\">/ip</a>, \
         <a href=\"/status/418\">/status/418</a>, <a href=\"/delay/1\">/delay/1</a>, \
         <a href=\"/anything\">/anything</a>, <a href=\"/stream/3\">/stream/3</a>.</p>\n",
    )
}

pub(crate) async fn set_cookies(Query(cookies): Query<Vec<(String, String)>>) -> Response {
    let mut response = StatusCode::FOUND.into_response();
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/cookies"));
    for (name, value) in cookies.iter().take(50) {
        if let Ok(cookie) = HeaderValue::from_str(&format!("{name}={value}; Path=/")) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    response
}

/// Answers with the headers that the query names.
pub(crate) async fn response_headers(Query(wanted): Query<Vec<(String, String)>>) -> Response {
    let shown: Vec<Value> = wanted.iter().map(|(k, v)| json!({k: v})).collect();
    let mut response = Json(shown).into_response();
    for (name, value) in &wanted {
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value))
            // What frames the answer is not the query's to set.
            && !matches!(name.as_str(), "content-length" | "transfer-encoding" | "connection")
        {
            response.headers_mut().append(name, value);
        }
    }
    response
}

pub(crate) async fn cache(headers: HeaderMap) -> Response {
    if headers.contains_key(IF_MODIFIED_SINCE) || headers.contains_key(IF_NONE_MATCH) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    ([(ETAG, "\"httpbin\"")], Json(json!({"cached": false}))).into_response()
}

pub(crate) async fn cache_for(Path(seconds): Path<u32>) -> Response {
    ([(CACHE_CONTROL, format!("public, max-age={seconds}"))], Json(json!({}))).into_response()
}

pub(crate) async fn etag(Path(etag): Path<String>, headers: HeaderMap) -> Response {
    let quoted = format!("\"{etag}\"");
    let known = headers.get(IF_NONE_MATCH).and_then(|h| h.to_str().ok());
    if known.is_some_and(|k| k == "*" || k.split(',').any(|e| e.trim() == quoted)) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    match HeaderValue::from_str(&quoted) {
        Ok(value) => ([(ETAG, value)], Json(json!({"etag": etag}))).into_response(),
        Err(_) => (StatusCode::BAD_REQUEST, "Invalid etag\n").into_response(),
    }
}

pub(crate) async fn uuid() -> Json<Value> {
    Json(json!({"uuid": uuid::Uuid::new_v4().to_string()}))
}

pub(crate) async fn base64(Path(text): Path<String>) -> Response {
    match base64::engine::general_purpose::URL_SAFE.decode(&text) {
        Ok(bytes) => bytes.into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("not base64: {error}\n")).into_response(),
    }
}

pub(crate) async fn html() -> Html<&'static str> {
    Html("<!doctype html><title>Page</title><h1>A page</h1><p>With one paragraph.</p>\n")
}

pub(crate) async fn json() -> Json<Value> {
    Json(json!({"slideshow": {"title": "Sample", "slides": [
        {"type": "all", "title": "One"}, {"type": "all", "title": "Two", "items": ["a", "b"]}]}}))
}

pub(crate) async fn xml() -> Response {
    let text =
        "<?xml version=\"1.0\"?><slideshow title=\"Sample\"><slide>One</slide></slideshow>\n";
    ([(CONTENT_TYPE, "application/xml")], text).into_response()
}

pub(crate) async fn robots() -> &'static str {
    "User-agent: *\nDisallow: /deny\n"
}
