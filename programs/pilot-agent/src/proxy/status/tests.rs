//! The agent's port as kubelets, scrapers and applications use it.

use std::sync::Arc;

use axum::routing::get;
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use ironsail_identity::tls::{ClientCertificates, Shown, server_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::proxy::tests::Mint;

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// An HTTP server with one path.
async fn toy(path: &'static str, code: u16, text: &'static str) -> SocketAddr {
    let (listener, address) = listen().await;
    let code = StatusCode::from_u16(code).unwrap();
    let router = Router::new().route(path, get(move || async move { (code, text) }));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

async fn nobody() -> SocketAddr {
    listen().await.1
}

async fn start(
    proxy: SocketAddr,
    application: Option<SocketAddr>,
    probes: &str,
) -> (Admin, CancellationToken) {
    let annotations = application
        .map(|address| format!(r#"{{"scrape":"true","path":"/m","port":"{}"}}"#, address.port()));
    let application = annotations.and_then(|text| Application::parse(&text, 15020).unwrap());
    let quit = CancellationToken::new();
    let status = Status {
        admin: Admin::new(proxy),
        proxy_metrics: Admin::new(proxy),
        application,
        metrics: Metrics::with_process(),
        probes: Probes::parse(probes, None).unwrap(),
        names: None,
        quit: quit.clone(),
        has_proxy: true,
    };
    let (listener, address) = listen().await;
    tokio::spawn(serve(listener, status, CancellationToken::new()));
    (Admin::new(address), quit)
}

#[tokio::test]
async fn metrics_of_agent_proxy_and_application_are_one_text() {
    let proxy = toy("/stats/prometheus", 200, "envoy_a 1\n").await;
    let application = toy("/m", 200, "app_b 2\n# EOF\n").await;
    let (port, _) = start(proxy, Some(application), "{}").await;
    let text = port.get("/stats/prometheus").await.unwrap();
    assert!(text.contains("process_"), "{text}");
    assert!(text.ends_with("envoy_a 1\napp_b 2\n"), "{text}");
}

#[tokio::test]
async fn a_part_that_is_away_or_fails_does_not_take_the_others_with_it() {
    let broken = toy("/m", 500, "sorry").await;
    let (port, _) = start(nobody().await, Some(broken), "{}").await;
    let text = port.get("/stats/prometheus").await.unwrap();
    assert!(text.contains("process_") && !text.contains("sorry"), "{text}");
}

#[tokio::test]
async fn the_proxy_is_not_ready_before_it_has_its_configuration() {
    let (port, _) = start(nobody().await, None, "{}").await;
    assert!(port.get("/healthz/ready").await.unwrap_err().to_string().contains("503"));
    let stats = "cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_success: 1\n\
                 listener_manager.workers_started: 1\nserver.state: 0\n";
    let (port, _) = start(toy("/stats", 200, stats).await, None, "{}").await;
    port.get("/healthz/ready").await.unwrap();
}

#[tokio::test]
async fn quitting_is_asked_by_post() {
    let (port, quit) = start(nobody().await, None, "{}").await;
    assert!(port.get("/quitquitquit").await.is_err());
    assert!(!quit.is_cancelled());
    port.post("/quitquitquit").await.unwrap();
    assert!(quit.is_cancelled());
}

fn refused(result: anyhow::Result<String>) -> bool {
    result.is_err_and(|error| error.to_string().contains("500"))
}

#[tokio::test]
async fn http_and_tcp_probes_are_asked_of_the_application() {
    let good = toy("/ok", 200, "").await.port();
    let away = nobody().await.port();
    let probes = format!(
        r#"{{"/app-health/a/livez": {{"httpGet": {{"path": "/ok", "port": {good}}}}},
             "/app-health/a/readyz": {{"httpGet": {{"path": "other", "port": {good}}}}},
             "/app-health/b/livez": {{"tcpSocket": {{"port": {good}}}}},
             "/app-health/b/readyz": {{"tcpSocket": {{"port": {away}}}}}}}"#
    );
    let (port, _) = start(nobody().await, None, &probes).await;
    port.get("/app-health/a/livez").await.unwrap();
    port.get("/app-health/b/livez").await.unwrap();
    let missing = port.get("/app-health/a/readyz").await.unwrap_err().to_string();
    assert!(missing.contains("404"), "{missing}");
    assert!(refused(port.get("/app-health/b/readyz").await));
    let unknown = port.get("/app-health/c/livez").await.unwrap_err().to_string();
    assert!(unknown.contains("no probe livez of container c"), "{unknown}");
}

#[tokio::test]
async fn an_https_probe_takes_any_certificate() {
    let (listener, address) = listen().await;
    let shown = Shown::new(Mint::new("m").credential("a.test"));
    let config = server_config(&shown, ClientCertificates::Ignored, &["http/1.1"]).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let probes = format!(
        r#"{{"/app-health/a/livez": {{"httpGet": {{"scheme": "HTTPS", "port": {}}}}}}}"#,
        address.port()
    );
    let (port, _) = start(nobody().await, None, &probes).await;
    port.get("/app-health/a/livez").await.unwrap();
}

/// A gRPC health service that always says the same.
async fn health(serving: u8) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(move |request: http::Request<_>| async move {
                let _: &hyper::body::Incoming = request.body();
                assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                let mut end = HeaderMap::new();
                end.insert("grpc-status", "0".parse().unwrap());
                let answer = Bytes::from(vec![0, 0, 0, 0, 2, 8, serving]);
                let frames = [Ok::<_, std::convert::Infallible>(Frame::data(answer))];
                let frames = frames.into_iter().chain([Ok(Frame::trailers(end))]);
                let body = StreamBody::new(futures::stream::iter(frames));
                let response = http::Response::builder().header("content-type", "application/grpc");
                response.body(body)
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    address
}

#[tokio::test]
async fn a_grpc_probe_asks_the_health_service() {
    for (answer, good) in [(1, true), (2, false)] {
        let probes = format!(
            r#"{{"/app-health/a/livez": {{"grpc": {{"port": {}, "service": "x"}}}}}}"#,
            health(answer).await.port()
        );
        let (port, _) = start(nobody().await, None, &probes).await;
        let seen = port.get("/app-health/a/livez").await;
        assert_eq!(seen.is_ok(), good, "{seen:?}");
    }
}
