//! HTTP for probes and people: readiness on one port, metrics and version on the other.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use ironsail_discovery::Engine;

use crate::version;

/// Readiness: once every object was read, proxies can be served.
pub(crate) fn ready(engine: Arc<Engine>) -> Router {
    async fn ready(State(engine): State<Arc<Engine>>) -> (StatusCode, &'static str) {
        match engine.is_ready() {
            true => (StatusCode::OK, ""),
            false => (StatusCode::SERVICE_UNAVAILABLE, "not all objects have been read yet\n"),
        }
    }
    Router::new().route("/ready", get(ready)).with_state(engine)
}

/// What the program is.
pub(crate) fn about() -> Router {
    Router::new().route("/version", get(async || version::NUMBER))
}
