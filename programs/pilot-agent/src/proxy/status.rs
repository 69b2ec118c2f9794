//! The agent's own port: readiness, merged metrics, the application's probes, the end of the proxy.
//!
//! In: HTTP of kubelets, Prometheus, people and the application itself; out: answers. What may end or
//! drain the proxy is taken from this machine only.

mod merge;
mod probe;
pub(crate) mod ready;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use ironsail_daemon::metrics::Metrics;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) use merge::Application;
pub(crate) use probe::{Grpc, Header, HttpGet, Probe, Probes, TcpPort};

use super::admin::Admin;
use super::names::Names;

/// What the port serves.
pub(crate) struct Status {
    pub(crate) admin: Admin,
    /// Envoy's own port for Prometheus.
    pub(crate) proxy_metrics: Admin,
    pub(crate) application: Option<Application>,
    pub(crate) metrics: Metrics,
    pub(crate) probes: Probes,
    pub(crate) names: Option<Names>,
    /// Cancelled to end the agent and its proxy.
    pub(crate) quit: CancellationToken,
    /// Without a proxy (`DISABLE_ENVOY`) there is nothing to wait for.
    pub(crate) has_proxy: bool,
}

/// Serves until told to stop.
pub(crate) async fn serve(
    listener: TcpListener,
    status: Status,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let router = router(status).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await?;
    Ok(())
}

fn router(status: Status) -> Router {
    Router::new()
        .route("/healthz/ready", get(ready))
        .route("/stats/prometheus", get(metrics))
        .route("/app-health/{container}/{probe}", get(application_health))
        .route("/app-lifecycle/{container}/{hook}", get(application_health))
        .route("/quitquitquit", post(quit))
        .route("/drain", post(drain))
        .route("/debug/ndsz", get(names))
        .with_state(Arc::new(status))
        .merge(ironsail_profile::router().layer(axum::middleware::from_fn(only_from_here)))
}

async fn only_from_here(
    ConnectInfo(peer): Peer,
    request: Request,
    next: axum::middleware::Next,
) -> Response {
    match refuse_others(peer) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}

type Known = State<Arc<Status>>;
type Peer = ConnectInfo<SocketAddr>;

async fn ready(State(status): Known) -> Response {
    if !status.has_proxy {
        return StatusCode::OK.into_response();
    }
    match ready::check(&status.admin).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}\n")).into_response(),
    }
}

async fn metrics(State(status): Known, headers: HeaderMap) -> Response {
    merge::answer(&status, &headers).await
}

async fn application_health(
    State(status): Known,
    Path((container, probe)): Path<(String, String)>,
    request: Request,
) -> Response {
    let path = request.uri().path();
    match status.probes.run(path, request.headers()).await {
        Some((code, text)) => (code, text).into_response(),
        None => {
            let text = format!("no probe {probe} of container {container} is known\n");
            (StatusCode::NOT_FOUND, text).into_response()
        }
    }
}

/// Only from this machine: whoever can reach the pod's address must not be able to end it.
fn refuse_others(peer: SocketAddr) -> Option<Response> {
    match peer.ip().to_canonical().is_loopback() {
        true => None,
        false => Some((StatusCode::FORBIDDEN, "only from localhost\n").into_response()),
    }
}

async fn quit(State(status): Known, ConnectInfo(peer): Peer) -> Response {
    if let Some(refusal) = refuse_others(peer) {
        return refusal;
    }
    tracing::info!(target: "agent", "asked to quit");
    status.quit.cancel();
    (StatusCode::OK, "OK").into_response()
}

async fn drain(State(status): Known, ConnectInfo(peer): Peer) -> Response {
    if let Some(refusal) = refuse_others(peer) {
        return refusal;
    }
    match status.admin.post("/drain_listeners?inboundonly&graceful").await {
        Ok(text) => (StatusCode::OK, text).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}\n")).into_response(),
    }
}

async fn names(State(status): Known, ConnectInfo(peer): Peer) -> Response {
    if let Some(refusal) = refuse_others(peer) {
        return refusal;
    }
    match &status.names {
        Some(names) => {
            let json = [(header::CONTENT_TYPE, "application/json")];
            (json, format!("{:#}\n", names.shown())).into_response()
        }
        None => (StatusCode::NOT_FOUND, "DNS is not captured by this proxy\n").into_response(),
    }
}
