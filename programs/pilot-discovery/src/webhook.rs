//! The webhook port: injection of pods, validation of objects, and whether it is ready.

mod count;
mod injection;

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use ironsail_daemon::task::Supervisor;
use ironsail_discovery::Engine;
use ironsail_identity::RootBundle;
use ironsail_identity::tls::{ClientCertificates, incoming, server_config_with};
use tokio::net::TcpListener;

pub(crate) use count::Counts;
pub(crate) use injection::{Injection, follow};

use crate::authority;
use crate::setting::Setting;

/// The API server sends no larger objects.
const MAX_BODY: usize = 8 << 20;

/// Who answers reviews.
#[derive(Clone)]
pub(crate) struct Reviewers {
    pub(crate) injection: Arc<Injection>,
    /// Knows what is in the mesh already.
    pub(crate) engine: Arc<Engine>,
    pub(crate) counts: Arc<Counts>,
}

/// Serves the port over TLS, with the program's own certificate.
pub(crate) fn serve(
    listener: TcpListener,
    (ca, setting): (&authority::Started, &Setting),
    reviewers: Reviewers,
    tasks: &mut Supervisor,
) -> anyhow::Result<()> {
    let alpn = ["h2", "http/1.1"];
    let shown = ca.serving.shown();
    let callers = callers(&setting.variables.webhook_callers)?;
    let config = server_config_with(&setting.suites, shown, callers, &alpn)
        .context("setting up TLS of the webhook port")?;
    let (router, stop) = (router(reviewers), tasks.stop_token());
    tasks.spawn("webhooks", async move {
        use futures::StreamExt;
        let mut connections = std::pin::pin!(incoming(listener, Arc::new(config)));
        loop {
            let (io, _) = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                next = connections.next() => match next {
                    Some(next) => next,
                    None => anyhow::bail!("the listener ended"),
                },
            };
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(async move {
                let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                if let Err(error) = server.serve_connection(TokioIo::new(io), service).await {
                    tracing::debug!(%error, "webhook connection");
                }
            });
        }
    });
    Ok(())
}

/// Whoever can reach the port may ask, unless there are roots that the API server's certificate is of.
fn callers(roots: &str) -> anyhow::Result<ClientCertificates> {
    if roots.is_empty() {
        return Ok(ClientCertificates::Ignored);
    }
    let doing = || format!("reading WEBHOOK_CLIENT_CA_FILE {roots}");
    let pem = std::fs::read(roots).with_context(doing)?;
    Ok(ClientCertificates::Issued(RootBundle::from_pem(&pem).with_context(doing)?))
}

fn router(reviewers: Reviewers) -> Router {
    Router::new()
        .route("/inject", post(inject))
        .route("/inject/{*place}", post(inject))
        .route("/validate", post(validate))
        .route("/validate/{*rest}", post(validate))
        .route("/httpsReady", get(ready))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(reviewers)
}

async fn ready(State(Reviewers { injection, .. }): State<Reviewers>) -> StatusCode {
    if injection.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn inject(State(reviewers): State<Reviewers>, uri: Uri, body: Bytes) -> Response {
    // Templates are rendered, which may take some milliseconds.
    let done = tokio::task::spawn_blocking(move || {
        let answer = reviewers.injection.review(uri.path(), &body);
        reviewers.counts.injection(answer.as_deref());
        answer
    })
    .await;
    match done {
        Ok(Some(answer)) => json(answer),
        Ok(None) => (StatusCode::SERVICE_UNAVAILABLE, "injection is not ready").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn validate(State(reviewers): State<Reviewers>, body: Bytes) -> Response {
    let snapshot = reviewers.engine.snapshot();
    let done = tokio::task::spawn_blocking(move || {
        let answer = ironsail_discovery::review(&body, snapshot.as_deref());
        reviewers.counts.validation(&body, &answer);
        answer
    })
    .await;
    match done {
        Ok(answer) => json(answer),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn json(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
