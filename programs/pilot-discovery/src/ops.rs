//! What people and Prometheus see of the running program: debug pages, metrics, ControlZ, profiles.
//!
//! In: the engine and the certificate authority, which are only looked at; out: HTTP. Off this
//! machine, debug data needs an identity of the mesh; readiness, metrics and the version do not.

mod debug;
mod metrics;
mod page;
mod stray;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ironsail_ca::{Authenticator, Authority};
use ironsail_discovery::{Access, Engine, Identity};
use ironsail_names::Namespace;

pub(crate) use metrics::register;

use crate::webhook::{Counts, Injection};

/// What is looked at.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) engine: Arc<Engine>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) authenticator: Authenticator,
    pub(crate) metrics: ironsail_daemon::metrics::Metrics,
    pub(crate) root_namespace: Namespace,
    /// `ENABLE_DEBUG_ENDPOINT_AUTH` is off.
    pub(crate) open_debug: bool,
    /// `--profile`
    pub(crate) profile: bool,
    pub(crate) reviews: Reviews,
}

/// What the webhooks do.
#[derive(Clone)]
pub(crate) struct Reviews {
    pub(crate) counts: Arc<Counts>,
    pub(crate) injection: Arc<Injection>,
}

/// The pages also answer over discovery itself.
pub(crate) fn answer_over_discovery(watched: &Watched) {
    let engine = Arc::downgrade(&watched.engine);
    watched.engine.set_pages(Box::new(move |path, access| {
        let engine = engine.upgrade()?;
        let page = page::Asked::parse(path).answer(&engine, access)?;
        Some(page.body.into())
    }));
}

/// Debug pages and profiles.
pub(crate) fn debug(watched: &Watched) -> Router {
    let pages = Router::new()
        .route("/debug", get(debug::list))
        .route("/debug/", get(debug::list))
        .route("/debug/{*page}", get(debug::answer))
        .with_state(watched.clone());
    let profiles = match watched.profile {
        true => ironsail_profile::router(),
        false => Router::new(),
    };
    let guard = middleware::from_fn_with_state(watched.clone(), admit);
    profiles.merge(pages).layer(guard)
}

/// Metrics, for whoever scrapes.
pub(crate) fn metrics(watched: &Watched) -> Router {
    let all = watched.metrics.clone();
    let content = [(header::CONTENT_TYPE, ironsail_daemon::metrics::CONTENT_TYPE)];
    Router::new().route("/metrics", get(async move || (content, all.text())))
}

/// For a port that nobody asked to open: readiness is for the kubelet, the rest for this machine.
pub(crate) async fn only_from_here(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    match peer.ip().to_canonical().is_loopback() {
        true => next.run(request).await,
        false => {
            let text = "debug data is for this machine on this port: use the monitoring port, or \
                --httpAddr to open this one\n";
            (StatusCode::FORBIDDEN, text).into_response()
        }
    }
}

/// Says what the caller may see, and turns away who may see nothing.
async fn admit(
    State(watched): State<Watched>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = match peer.ip().to_canonical().is_loopback() || watched.open_debug {
        true => Access::Everything,
        false => {
            let nothing = http::Extensions::new();
            let caller = watched.authenticator.authenticate(request.headers(), &nothing).await;
            match caller {
                Ok(caller) => {
                    let identity = Identity(caller.identity);
                    Access::of(Some(&identity), &watched.root_namespace, false)
                }
                Err(_) => Access::Nothing,
            }
        }
    };
    let profile = request.uri().path().starts_with("/debug/pprof");
    match (&access, profile) {
        (Access::Nothing, _) | (Access::Namespace(_), true) => {
            let text = "debug data needs a token of the mesh: Authorization: Bearer TOKEN\n";
            (StatusCode::UNAUTHORIZED, text).into_response()
        }
        _ => {
            request.extensions_mut().insert(access);
            next.run(request).await
        }
    }
}
