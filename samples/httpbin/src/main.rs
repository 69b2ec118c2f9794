//! httpbin: answers that show the request, for trying what a mesh does to traffic.
//!
//! The endpoints people know from httpbin. With `--headers lists` header values are lists, as the
//! Go version of httpbin shows them; the default is one string each.

mod answer;
mod inspect;
mod status;
mod stream;

use std::net::{Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::{any, get};
use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(version, about = "Answers that show the request")]
struct Args {
    /// Port to listen on.
    #[arg(long, default_value_t = 80, env = "PORT")]
    port: u16,
    /// How header values are shown.
    #[arg(long, value_enum, default_value = "strings", env = "HTTPBIN_HEADERS")]
    headers: HeaderStyle,
    /// Name told by /hostname.
    #[arg(long, default_value = "localhost", env = "HOSTNAME")]
    hostname: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeaderStyle {
    /// One string a header; `/headers` is the bare map.
    Strings,
    /// A list of values a header; `/headers` has them under `headers`.
    Lists,
}

/// What every handler may look at.
pub(crate) struct Bin {
    pub(crate) style: HeaderStyle,
    pub(crate) hostname: String,
}

pub(crate) type Shared = axum::extract::State<Arc<Bin>>;
pub(crate) type Peer = ConnectInfo<SocketAddr>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("httpbin: {error:#}");
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
    println!("httpbin listens on port {}", args.port);
    let routes = routes(Bin { style: args.headers, hostname: args.hostname });
    axum::serve(listener, routes.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async move { stop.cancelled().await })
        .await
        .context("serving")
}

fn routes(bin: Bin) -> Router {
    Router::new()
        .route("/", get(answer::index))
        .route("/get", get(inspect::request))
        .route("/post", axum::routing::post(inspect::request))
        .route("/put", axum::routing::put(inspect::request))
        .route("/patch", axum::routing::patch(inspect::request))
        .route("/delete", axum::routing::delete(inspect::request))
        .route("/anything", any(inspect::request))
        .route("/anything/{*rest}", any(inspect::request))
        .route("/headers", get(inspect::headers))
        .route("/ip", get(inspect::ip))
        .route("/user-agent", get(inspect::user_agent))
        .route("/hostname", get(inspect::hostname))
        .route("/cookies", get(inspect::cookies))
        .route("/cookies/set", get(answer::set_cookies))
        .route("/status/{codes}", any(status::status))
        .route("/delay/{seconds}", any(status::delay))
        .route("/redirect/{n}", any(status::redirect))
        .route("/relative-redirect/{n}", any(status::redirect))
        .route("/redirect-to", any(status::redirect_to))
        .route("/basic-auth/{user}/{password}", get(status::basic_auth))
        .route("/bearer", get(status::bearer))
        .route("/response-headers", any(answer::response_headers))
        .route("/cache", get(answer::cache))
        .route("/cache/{seconds}", get(answer::cache_for))
        .route("/etag/{etag}", get(answer::etag))
        .route("/uuid", get(answer::uuid))
        .route("/base64/{text}", get(answer::base64))
        .route("/html", get(answer::html))
        .route("/json", get(answer::json))
        .route("/xml", get(answer::xml))
        .route("/robots.txt", get(answer::robots))
        .route("/bytes/{n}", get(stream::bytes))
        .route("/stream/{n}", get(stream::stream))
        .route("/stream-bytes/{n}", get(stream::stream_bytes))
        .route("/drip", get(stream::drip))
        .route("/sse", get(stream::sse))
        .route("/websocket/echo", get(stream::websocket))
        .route("/websocket", get(stream::websocket))
        .fallback(status::not_found)
        .with_state(Arc::new(bin))
}

#[cfg(test)]
mod tests;
