//! A collector of traces and logs for tests and demos: Zipkin's JSON, and OpenTelemetry over gRPC and
//! HTTP. It keeps the last of what it got and shows it as JSON under `/spans` and `/logs`.

mod otlp;
mod store;
mod zipkin;

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use clap::Parser;

use store::Store;

/// Collects spans and log records.
#[derive(Parser)]
struct Args {
    /// Where all of it is taken and shown.
    #[arg(long, value_delimiter = ',', default_value = "9411,4317,4318")]
    ports: Vec<u16>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let store = Arc::new(Store::default());
    let mut servers = Vec::new();
    for port in args.ports {
        let listener = tokio::net::TcpListener::bind(("0.0.0.0", port))
            .await
            .with_context(|| format!("listening on port {port}"))?;
        let app = app(store.clone());
        servers.push(async move { axum::serve(listener, app).await.context("serving") });
    }
    let stop = ironsail_daemon::signal::stop_on_signals().context("watching for signals")?;
    match stop.run_until_cancelled(futures::future::try_join_all(servers)).await {
        Some(ended) => ended.map(|_| ()),
        None => Ok(()),
    }
}

/// Every port takes everything: a test need not care.
fn app(store: Arc<Store>) -> Router {
    const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    Router::new()
        .route("/api/v2/spans", post(zipkin::spans))
        .route("/v1/traces", post(otlp::http_traces))
        .route(TRACES, post(otlp::grpc_traces))
        .route(LOGS, post(otlp::grpc_logs))
        .route("/spans", get(async |State(store): State<Arc<Store>>| axum::Json(store.spans())))
        .route("/logs", get(async |State(store): State<Arc<Store>>| axum::Json(store.logs())))
        .route("/ready", get(async || "ready"))
        .with_state(store)
}
