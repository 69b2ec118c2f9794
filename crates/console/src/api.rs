//! The page and the JSON behind it.
//!
//! Everything is read only. The page comes with rules for the browser: it may load nothing from
//! elsewhere. A browser that was led here under a foreign name (DNS rebinding) gets nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;

use crate::traffic::Traffic;
use crate::world::World;

/// Files of the page: path, type, text.
const FILES: [(&str, &str, &str); 8] = [
    ("", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("app.js", "text/javascript; charset=utf-8", include_str!("page/app.js")),
    ("dom.js", "text/javascript; charset=utf-8", include_str!("page/dom.js")),
    ("layout.js", "text/javascript; charset=utf-8", include_str!("page/layout.js")),
    ("map.js", "text/javascript; charset=utf-8", include_str!("page/map.js")),
    ("lists.js", "text/javascript; charset=utf-8", include_str!("page/lists.js")),
    ("detail.js", "text/javascript; charset=utf-8", include_str!("page/detail.js")),
];

/// Nothing but this program, no frames around it.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

#[derive(Clone)]
struct Shown {
    world: Arc<dyn World>,
    traffic: Arc<Traffic>,
}

/// Serves the page and its data below `/mesh/`.
pub fn router(world: Arc<dyn World>, traffic: Arc<Traffic>) -> Router {
    Router::new()
        .route("/mesh", get(async || Redirect::permanent("/mesh/")))
        .route("/mesh/", get(async || file("")))
        .route("/mesh/{file}", get(async |Path(name): Path<String>| file(&name)))
        .route("/mesh/api/v1/overview", get(overview))
        .route("/mesh/api/v1/map", get(map))
        .route("/mesh/api/v1/workloads", get(workloads))
        .route("/mesh/api/v1/workloads/{namespace}/{name}", get(workload))
        .route("/mesh/api/v1/services", get(services))
        .route("/mesh/api/v1/resources", get(objects))
        .route("/mesh/api/v1/resources/{kind}/{namespace}/{name}", get(object))
        .route("/mesh/api/v1/pushes", get(pushes))
        .layer(middleware::from_fn(guard))
        .with_state(Shown { world, traffic })
}

fn file(name: &str) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(header::CONTENT_TYPE, *kind)], *text).into_response(),
        None => (StatusCode::NOT_FOUND, "there is no such file\n").into_response(),
    }
}

async fn guard(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_none_or(is_own_name) {
        let text = "this page is asked for as localhost or by an address\n";
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// An address, `localhost`, or a name that only a machine nearby can have.
fn is_own_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.parse::<std::net::IpAddr>().is_ok() || name == "localhost" || !name.contains('.')
}

async fn overview(State(shown): State<Shown>) -> Response {
    axum::Json(shown.world.overview()).into_response()
}

#[derive(Deserialize)]
struct Asked {
    window: Option<u64>,
}

async fn map(State(shown): State<Shown>, Query(asked): Query<Asked>) -> Response {
    shown.traffic.look();
    let window = Duration::from_secs(asked.window.unwrap_or(60).clamp(5, 15 * 60));
    match shown.traffic.map(window).await {
        Ok(map) => axum::Json(map).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, axum::Json(json!({"error": error.to_string()})))
            .into_response(),
    }
}

async fn workloads(State(shown): State<Shown>) -> Response {
    shown.traffic.look();
    let mut rows = shown.world.workloads();
    for row in &mut rows {
        row.certificate = shown.traffic.certificate(&format!("{}/{}", row.namespace, row.name));
    }
    axum::Json(rows).into_response()
}

async fn workload(
    State(shown): State<Shown>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    shown.traffic.look();
    match shown.world.workload(&namespace, &name) {
        Some(mut detail) => {
            detail.row.certificate = shown.traffic.certificate(&format!("{namespace}/{name}"));
            axum::Json(detail).into_response()
        }
        None => missing(&format!("workload {namespace}/{name}")),
    }
}

async fn services(State(shown): State<Shown>) -> Response {
    axum::Json(shown.world.services()).into_response()
}

async fn objects(State(shown): State<Shown>) -> Response {
    axum::Json(shown.world.objects()).into_response()
}

async fn object(
    State(shown): State<Shown>,
    Path((kind, namespace, name)): Path<(String, String, String)>,
) -> Response {
    match shown.world.object(&kind, &namespace, &name) {
        Some(object) => axum::Json(object).into_response(),
        None => missing(&format!("{kind} {namespace}/{name}")),
    }
}

async fn pushes(State(shown): State<Shown>) -> Response {
    axum::Json(shown.world.pushes()).into_response()
}

fn missing(what: &str) -> Response {
    let error = format!("{what} is not known here");
    (StatusCode::NOT_FOUND, axum::Json(json!({"error": error}))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_name_is_not_ours() {
        for host in ["localhost", "localhost:9876", "127.0.0.1:9876", "[::1]:9876", "istiod:9876"] {
            assert!(is_own_name(host), "{host}");
        }
        for host in ["evil.example", "evil.example:9876", "127.0.0.1.evil.example"] {
            assert!(!is_own_name(host), "{host}");
        }
    }

    #[test]
    fn the_page_asks_for_files_that_are_there() {
        let mut text: Vec<&str> = FILES.iter().map(|(.., text)| *text).collect();
        text.dedup();
        for text in text {
            assert!(
                !text.contains("http://") || text.contains("http://www.w3.org/"),
                "from outside"
            );
            for word in text.split(['"', '\'']) {
                let Some(name) = word.strip_prefix("./") else { continue };
                assert!(FILES.iter().any(|(known, ..)| *known == name), "{name}");
            }
        }
    }
}
