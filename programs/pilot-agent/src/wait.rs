//! `pilot-agent wait`: returns when the proxy is ready, for containers that need the network.

use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::Failure;
use crate::args::Wait;

pub(crate) fn run(args: &Wait) -> Result<(), Failure> {
    let uri: http::Uri = match args.url.parse() {
        Ok(uri) => uri,
        Err(error) => return Err(Failure::Settings(vec![format!("--url: {error}")])),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting the runtime")?;
    Ok(runtime.block_on(wait(args, uri))?)
}

async fn wait(args: &Wait, uri: http::Uri) -> anyhow::Result<()> {
    let client: Client<HttpConnector, Empty<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let patience = Duration::from_secs(args.timeout_seconds);
    let end = tokio::time::Instant::now() + patience;
    println!("Waiting for Envoy proxy to be ready (timeout: {} seconds)...", args.timeout_seconds);
    loop {
        let one = Duration::from_millis(args.request_timeout_millis);
        let problem = match tokio::time::timeout(one, client.get(uri.clone())).await {
            Ok(Ok(answer)) if answer.status().is_success() => {
                println!("Envoy is ready!");
                return Ok(());
            }
            Ok(Ok(answer)) => anyhow!("HTTP status code {}", answer.status().as_u16()),
            Ok(Err(error)) => anyhow!(error),
            Err(_) => anyhow!("no answer within {one:?}"),
        };
        if tokio::time::Instant::now() >= end {
            return Err(problem.context(format!("timeout waiting for Envoy proxy at {uri}")));
        }
        println!("Not ready yet: {problem:#}");
        tokio::time::sleep(Duration::from_millis(args.period_millis)).await;
    }
}
