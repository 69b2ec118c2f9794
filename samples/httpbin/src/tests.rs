//! Requests into the router, without a socket.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{Bin, HeaderStyle, routes};

async fn ask(
    style: HeaderStyle,
    request: axum::http::request::Builder,
    body: &str,
) -> (StatusCode, String) {
    let mut request = request.body(Body::from(body.to_owned())).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([10, 0, 0, 7], 4000))));
    let bin = Bin { style, hostname: "pod-1".into() };
    let response = routes(bin).oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn json_of(style: HeaderStyle, request: axum::http::request::Builder, body: &str) -> Value {
    serde_json::from_str(&ask(style, request, body).await.1).unwrap()
}

#[tokio::test]
async fn headers_are_a_bare_map_of_strings_or_lists_under_a_key() {
    let request = || Request::get("/headers").header("x-request-id", "1").header("accept", "*/*");
    assert_eq!(
        json_of(HeaderStyle::Strings, request(), "").await,
        json!({"Accept": "*/*", "X-Request-Id": "1"})
    );
    assert_eq!(
        json_of(HeaderStyle::Lists, request(), "").await,
        json!({"headers": {"Accept": ["*/*"], "X-Request-Id": ["1"]}})
    );
}

#[tokio::test]
async fn anything_shows_method_body_query_and_origin() {
    let request = Request::post("/anything/a?x=1")
        .header("host", "h")
        .header("content-type", "application/json");
    let shown = json_of(HeaderStyle::Strings, request, r#"{"a":1}"#).await;
    assert_eq!(shown["method"], "POST");
    assert_eq!(shown["json"], json!({"a": 1}));
    assert_eq!(shown["args"], json!({"x": "1"}));
    assert_eq!(shown["origin"], "10.0.0.7");
    assert_eq!(shown["url"], "http://h/anything/a?x=1");
}

#[tokio::test]
async fn a_form_is_decoded() {
    let request =
        Request::post("/post").header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(
        json_of(HeaderStyle::Strings, request, "a=b+c&d=%26").await["form"],
        json!({"a": "b c", "d": "&"})
    );
}

#[tokio::test]
async fn status_answers_the_code_and_refuses_nonsense() {
    for (path, code) in [
        ("/status/418", 418),
        ("/status/503:1", 503),
        ("/status/99", 400),
        ("/status/x", 400),
        ("/nowhere", 404),
    ] {
        let (status, _) = ask(HeaderStyle::Strings, Request::get(path), "").await;
        assert_eq!(status.as_u16(), code, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn delay_waits_but_not_for_ever() {
    let before = tokio::time::Instant::now();
    ask(HeaderStyle::Strings, Request::get("/delay/1e300"), "").await;
    assert_eq!(before.elapsed().as_secs(), 60);
}

#[tokio::test]
async fn streams_are_bounded() {
    let (_, text) = ask(HeaderStyle::Strings, Request::get("/stream/999999999"), "").await;
    assert_eq!(text.lines().count(), 1_000);
}

#[tokio::test]
async fn hostname_is_the_pod() {
    assert_eq!(json_of(HeaderStyle::Strings, Request::get("/hostname"), "").await, json!("pod-1"));
}
