//! Bookinfo: a small book shop of four services, for demos and tests of a mesh.
//!
//! One program, one service a subcommand, as different images of one sample:
//! `productpage` asks `details` and `reviews`; `reviews` (v2, v3) asks `ratings`. Every service
//! passes the caller's trace headers on, so that one page view is one trace.

mod call;
mod details;
mod page;
mod productpage;
mod ratings;
mod reviews;

use std::net::{Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about = "A book shop of four small services")]
struct Args {
    /// Port to listen on.
    #[arg(long, global = true, default_value_t = 9080, env = "PORT")]
    port: u16,
    #[command(subcommand)]
    service: Service,
}

#[derive(Subcommand)]
enum Service {
    /// The page people see; asks details and reviews.
    Productpage(productpage::Args),
    /// Facts about the book.
    Details,
    /// What readers said; v2 and v3 ask ratings for stars.
    Reviews(reviews::Args),
    /// The stars.
    Ratings,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bookinfo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    let (name, routes) = match args.service {
        Service::Productpage(args) => ("productpage", productpage::routes(args)),
        Service::Details => ("details", details::routes()),
        Service::Reviews(args) => ("reviews", reviews::routes(args)),
        Service::Ratings => ("ratings", ratings::routes()),
    };
    let stop = ironsail_daemon::signal::stop_on_signals().context("watching for signals")?;
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, args.port));
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on port {}", args.port))?;
    println!("{name} listens on port {}", args.port);
    axum::serve(listener, with_health(routes))
        .with_graceful_shutdown(async move { stop.cancelled().await })
        .await
        .context("serving")
}

fn with_health(routes: Router) -> Router {
    routes
        .route("/health", get(async || axum::Json(serde_json::json!({"status": "healthy"}))))
        .fallback(async || (StatusCode::NOT_FOUND, "not found\n"))
}
