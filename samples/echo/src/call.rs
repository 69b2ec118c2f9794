//! `echo call`: sends requests and prints, one JSON object a line, what came back.

mod dial;
mod grpc;
mod http;
mod line;
pub(crate) mod load;
mod websocket;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use axum::http::Uri;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

/// Sends requests to URL, whose scheme chooses the protocol: http, https, h2c, h2 (TLS), grpc,
/// grpcs, ws, wss, tcp, tls.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    url: Uri,
    /// Header to send, `Name: value`.
    #[arg(short = 'H', long = "header")]
    headers: Vec<String>,
    /// HTTP method.
    #[arg(short = 'X', long, default_value = "GET")]
    method: String,
    /// What to send.
    #[arg(short = 'd', long, default_value = "")]
    data: String,
    /// How many requests, one after the other.
    #[arg(short = 'n', long, default_value_t = 1)]
    count: u32,
    /// Milliseconds between requests.
    #[arg(long, default_value_t = 0)]
    pause: u64,
    /// All requests on one connection, instead of a new one each (HTTP).
    #[arg(long)]
    keep: bool,
    /// Milliseconds until a request counts as failed.
    #[arg(long, default_value_t = 10_000)]
    timeout: u64,
    /// CA certificates to trust (PEM); without it every server is accepted.
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Client certificate chain (PEM).
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Client key (PEM).
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// Server name to ask for, instead of the URL's host.
    #[arg(long)]
    sni: Option<String>,
    /// gRPC status code that the server shall answer with.
    #[arg(long, default_value_t = 0)]
    grpc_code: i32,
}

/// What came back for one request.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    /// HTTP status, or gRPC status code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, Vec<String>>,
    /// Parsed where it is JSON.
    pub(crate) body: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    pub(crate) millis: u64,
}

impl Outcome {
    fn with_body(text: &[u8]) -> Self {
        let body = serde_json::from_slice(text)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(text).into_owned()));
        Self { body, ..Self::default() }
    }
}

/// True where every request had an answer, whatever its status.
pub(crate) async fn run(args: Args) -> anyhow::Result<bool> {
    let scheme = args.url.scheme_str().context("the URL needs a scheme, as in http://")?.to_owned();
    let dial = dial::Dial::new(&args, &scheme)?;
    let mut session = http::Session::default();
    let mut all = true;
    for turn in 0..args.count {
        if turn > 0 && args.pause > 0 {
            tokio::time::sleep(Duration::from_millis(args.pause)).await;
        }
        let start = Instant::now();
        let request = async {
            match scheme.as_str() {
                "http" | "https" | "h2" | "h2c" => session.call(&args, &dial).await,
                "grpc" | "grpcs" => grpc::call(&args, &dial).await,
                "ws" | "wss" => websocket::call(&args, &dial).await,
                _ => line::call(&args, &dial).await,
            }
        };
        let outcome = match tokio::time::timeout(Duration::from_millis(args.timeout), request).await
        {
            Ok(outcome) => outcome,
            Err(_) => Err(anyhow::anyhow!("no answer within {} ms", args.timeout)),
        };
        let mut outcome = outcome.unwrap_or_else(|error| {
            session = http::Session::default();
            Outcome { error: Some(format!("{error:#}")), ..Outcome::default() }
        });
        outcome.millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        all &= outcome.error.is_none();
        println!("{}", serde_json::to_string(&outcome).context("printing the outcome")?);
    }
    Ok(all)
}
