//! `GET /hello` tells which version and which pod answered: the smallest sample to see traffic
//! being split.

use std::net::{Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use anyhow::Context;
use axum::Router;
use axum::routing::get;
use clap::Parser;

#[derive(Parser)]
#[command(version, about = "Says which version and which pod answered")]
struct Args {
    /// Port to listen on.
    #[arg(long, default_value_t = 5000, env = "PORT")]
    port: u16,
    /// Version to tell.
    #[arg(long, default_value = "unknown", env = "SERVICE_VERSION")]
    service_version: String,
    /// Name of this instance.
    #[arg(long, default_value = "unknown", env = "HOSTNAME")]
    instance: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("helloworld: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    let stop = ironsail_daemon::signal::stop_on_signals().context("watching for signals")?;
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, args.port));
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on port {}", args.port))?;
    axum::serve(listener, routes(&args))
        .with_graceful_shutdown(async move { stop.cancelled().await })
        .await
        .context("serving")
}

fn routes(args: &Args) -> Router {
    let hello = format!("Hello version: {}, instance: {}\n", args.service_version, args.instance);
    Router::new()
        .route("/hello", get(async move || hello))
        .route("/health", get(async || "Helloworld is healthy\n"))
}
