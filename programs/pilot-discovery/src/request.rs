//! `pilot-discovery request METHOD PATH [BODY]`: one HTTP request to a running control plane.

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;

use crate::args::Request;

/// Makes the request and gives the body; an answer that is no success is an error.
pub(crate) async fn run(args: &Request) -> anyhow::Result<String> {
    let doing = || format!("{} {} at {}", args.method, args.path, args.address);
    let stream = tokio::net::TcpStream::connect(&args.address).await.with_context(doing)?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.with_context(doing)?;
    let connection = tokio::spawn(connection);
    let path =
        if args.path.starts_with('/') { args.path.clone() } else { format!("/{}", args.path) };
    let request = http::Request::builder()
        .method(args.method.to_uppercase().as_str())
        .uri(path)
        .header(http::header::HOST, &args.address)
        .body(Full::<hyper::body::Bytes>::from(args.body.clone().unwrap_or_default()))
        .with_context(doing)?;
    let response = sender.send_request(request).await.with_context(doing)?;
    let status = response.status();
    let body = response.into_body().collect().await.with_context(doing)?.to_bytes();
    connection.abort();
    let text = String::from_utf8_lossy(&body).into_owned();
    ensure!(status.is_success(), "{}: {status}: {}", doing(), text.trim());
    Ok(text)
}
