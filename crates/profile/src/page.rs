//! `/debug/pprof/`: what there is, and the profiles themselves.

use std::time::Duration;

use axum::Router;
use axum::extract::Query;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

use crate::{Error, cpu, heap};

/// Longest CPU profile that may be asked for.
const MAX_SECONDS: u64 = 300;

/// Serves `/debug/pprof/…`.
pub fn router() -> Router {
    Router::new()
        .route("/debug/pprof/", get(async || Html(INDEX)))
        .route("/debug/pprof", get(async || Html(INDEX)))
        .route("/debug/pprof/cmdline", get(command_line))
        .route("/debug/pprof/profile", get(take_cpu))
        .route("/debug/pprof/heap", get(async || answer(heap().await)))
        .route("/debug/pprof/allocs", get(async || answer(heap().await)))
        .route("/debug/pprof/{name}", get(unknown))
}

const INDEX: &str = "<html><head><title>/debug/pprof/</title></head><body>\
    <p><code>go tool pprof -http=: http://THIS/debug/pprof/heap</code></p><ul>\
    <li><a href=\"heap\">heap</a>: what is allocated now, by who allocated it</li>\
    <li><a href=\"profile?seconds=30\">profile</a>: where CPU time goes; <code>?seconds=N</code></li>\
    <li><a href=\"cmdline\">cmdline</a>: the command line of this program</li></ul></body></html>\n";

#[derive(serde::Deserialize)]
struct Asked {
    seconds: Option<u64>,
}

async fn take_cpu(Query(asked): Query<Asked>) -> Response {
    match asked.seconds.unwrap_or(30) {
        seconds @ 1..=MAX_SECONDS => answer(cpu(Duration::from_secs(seconds)).await),
        _ => {
            let text = format!("seconds must be from 1 to {MAX_SECONDS}\n");
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}

fn answer(profile: Result<Vec<u8>, Error>) -> Response {
    match profile {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response(),
        Err(error @ Error::Busy) => (StatusCode::CONFLICT, format!("{error}\n")).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn command_line() -> String {
    std::env::args().collect::<Vec<_>>().join("\0")
}

async fn unknown(axum::extract::Path(name): axum::extract::Path<String>) -> Response {
    let text = format!(
        "no profile {name:?}: this program is not written in Go; there are heap and profile\n"
    );
    (StatusCode::NOT_FOUND, text).into_response()
}
