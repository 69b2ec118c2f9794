//! ControlZ: a page that shows a running program and changes its log levels.
//!
//! In: what the program knows of itself; out: pages for people under `/scopez/`, `/memz/` … and the
//! same as JSON under `/scopej/`, `/memj/` …, the paths that Istio's tools ask. The page can end the
//! program, so it is served on loopback only unless someone asks otherwise.

mod page;
mod topic;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, put};
use ironsail_daemon::log::Levels;
use ironsail_daemon::metrics::Metrics;
use tokio_util::sync::CancellationToken;

/// What the page shows and changes.
pub struct Program {
    pub name: &'static str,
    pub version: String,
    pub levels: Levels,
    pub metrics: Metrics,
    /// The environment the program started with.
    pub environment: Vec<(String, String)>,
    pub arguments: Vec<String>,
    /// Cancelled when the page asks the program to end.
    pub stop: CancellationToken,
    /// Further pages that are served beside: path, title, what they show.
    pub more: &'static [(&'static str, &'static str, &'static str)],
}

/// Serves the page.
pub fn router(program: Program) -> Router {
    Router::new()
        .route("/", get(page::home))
        .route("/scopez/", get(page::scopes))
        .route("/memz/", get(page::memory))
        .route("/envz/", get(page::environment))
        .route("/procz/", get(page::process))
        .route("/argsz/", get(page::arguments))
        .route("/versionz/", get(page::version))
        .route("/metricz/", get(page::metrics))
        .route("/signalz/", get(page::signals))
        .route("/scopej/", get(topic::scopes).put(topic::set_scopes))
        .route("/scopej/{scope}", get(topic::scope))
        .route("/scopej/{scope}", put(topic::set_scope))
        .route("/memj/", get(topic::memory))
        .route("/envj/", get(topic::environment))
        .route("/procj/", get(topic::process))
        .route("/argsj/", get(topic::arguments))
        .route("/versionj/", get(topic::version))
        .route("/signalj/SIGTERM", put(topic::end))
        .with_state(Arc::new(program))
}
