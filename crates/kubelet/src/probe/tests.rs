//! Probes against small servers on loopback.

use super::*;
use crate::runtime::{Process, StartedSession};
use ironsail_container::{ExecSpec, ExitStatus, StartError, TerminalSize};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

struct Loopback;

impl Dial for Loopback {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<TcpStream, String>> {
        Box::pin(async move {
            TcpStream::connect((host, port))
                .await
                .map_err(|e| format!("dial tcp {host}:{port}: connect: {}", plain(&e)))
        })
    }
}

struct NoProcess;

impl Process for NoProcess {
    fn signal(&self, _: i32) {}
    fn kill(&self) {}
    fn resize(&self, _: TerminalSize) {}
    fn wait(&self) -> BoxFuture<'_, ExitStatus> {
        Box::pin(std::future::pending())
    }
    fn exec(&self, _: ExecSpec) -> BoxFuture<'_, Result<StartedSession, StartError>> {
        Box::pin(async { Err(StartError::ZygoteLost) })
    }
}

fn subject(ports: Value) -> Subject {
    let container = serde_json::from_value(json!({"name": "c", "ports": ports})).unwrap();
    Subject {
        container: Arc::new(container),
        ip: "127.0.0.1".parse().unwrap(),
        process: Arc::new(NoProcess),
        dial: Arc::new(Loopback),
    }
}

/// A server that gives the same answer to all and remembers what it was sent.
async fn server(answer: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let remember = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; 4096];
            let n = stream.read(&mut buffer).await.unwrap_or(0);
            remember.lock().push(String::from_utf8_lossy(&buffer[..n]).into_owned());
            let _ = stream.write_all(answer.replace("PORT", &port.to_string()).as_bytes()).await;
        }
    });
    (port, seen)
}

async fn ask_of(probe: Value) -> Outcome {
    let probe: Probe = serde_json::from_value(probe).unwrap();
    ask(&probe, &subject(json!([]))).await
}

#[tokio::test]
async fn http_answers_below_400_are_good() {
    let (port, seen) = server("HTTP/1.1 204 No Content\r\n\r\n").await;
    let probe = json!({"httpGet": {"port": port, "path": "/healthz?x=1", "httpHeaders": [{"name": "X-A", "value": "b"}]}});
    assert_eq!(ask_of(probe).await, Outcome::Success);
    let request = seen.lock()[0].to_lowercase();
    assert!(request.starts_with("get /healthz?x=1 http/1.1\r\n"), "{request}");
    assert!(
        request.contains("user-agent: kube-probe/1.36\r\n") && request.contains("x-a: b\r\n"),
        "{request}"
    );
    assert!(request.contains(&format!("host: 127.0.0.1:{port}\r\n")), "{request}");
    let (port, _) = server("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n").await;
    let bad = ask_of(json!({"httpGet": {"port": port}})).await;
    assert_eq!(bad, Outcome::Failure("HTTP probe failed with statuscode: 503".into()));
}

#[tokio::test]
async fn redirects_are_followed_at_home_and_only_warned_of_abroad() {
    let (port, _) = server(
        "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.example/\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    assert!(matches!(ask_of(json!({"httpGet": {"port": port}})).await, Outcome::Warning(_)));
    let (port, seen) =
        server("HTTP/1.1 302 Found\r\nlocation: /loop\r\ncontent-length: 0\r\n\r\n").await;
    assert!(matches!(ask_of(json!({"httpGet": {"port": port}})).await, Outcome::Failure(_)));
    assert!(seen.lock().len() > 5);
}

#[tokio::test]
async fn a_refused_connection_is_told_in_the_usual_words() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let dial = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(ask_of(json!({"tcpSocket": {"port": port}})).await, Outcome::Failure(dial.clone()));
    let http = ask_of(json!({"httpGet": {"port": port, "path": "/x"}})).await;
    assert_eq!(http, Outcome::Failure(format!("Get \"http://127.0.0.1:{port}/x\": {dial}")));
    assert!(matches!(ask_of(json!({"grpc": {"port": port}})).await, Outcome::Failure(_)));
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let outcome = ask_of(json!({"httpGet": {"port": port}, "timeoutSeconds": 1})).await;
    assert!(
        matches!(outcome, Outcome::Failure(text) if text.contains("context deadline exceeded"))
    );
    assert_eq!(ask_of(json!({"tcpSocket": {"port": port}})).await, Outcome::Success);
}

#[test]
fn ports_are_found_by_name() {
    let subject = subject(json!([{"name": "web", "containerPort": 8080}]));
    let resolve = |port| resolve_port(&port, &subject.container);
    assert_eq!(resolve(IntOrString::String("web".into())), Ok(8080));
    assert_eq!(resolve(IntOrString::String("81".into())), Ok(81));
    assert!(resolve(IntOrString::String("nope".into())).is_err());
    assert!(resolve(IntOrString::Int(70000)).is_err());
}

#[tokio::test]
async fn a_grpc_health_service_is_asked() {
    use tonic::codegen::http;
    // One answer of the health protocol, by hand: headers, a message, trailers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(
                |request: http::Request<hyper::body::Incoming>| async move {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    use http_body_util::BodyExt;
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let serving = body.ends_with(b"good");
                    let message: &'static [u8] =
                        if serving { &[0, 0, 0, 0, 2, 8, 1] } else { &[0, 0, 0, 0, 2, 8, 2] };
                    let mut trailers = http::HeaderMap::new();
                    trailers.insert("grpc-status", "0".parse().unwrap());
                    let body = http_body_util::Full::new(hyper::body::Bytes::from_static(message))
                        .with_trailers(async move { Some(Ok(trailers)) });
                    let response = http::Response::builder()
                        .header("content-type", "application/grpc")
                        .body(body);
                    Ok::<_, std::convert::Infallible>(response.unwrap())
                },
            );
            let executor = hyper_util::rt::TokioExecutor::new();
            let io = hyper_util::rt::TokioIo::new(stream);
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(executor).serve_connection(io, service),
            );
        }
    });
    assert_eq!(ask_of(json!({"grpc": {"port": port, "service": "good"}})).await, Outcome::Success);
    assert_eq!(
        ask_of(json!({"grpc": {"port": port, "service": "other"}})).await,
        Outcome::Failure("service unhealthy (responded with \"NOT_SERVING\")".into())
    );
}

#[tokio::test(start_paused = true)]
async fn an_early_success_counts_and_an_early_failure_does_not() {
    let probe: Probe = serde_json::from_value(
        json!({"exec": {"command": ["x"]}, "periodSeconds": 10, "failureThreshold": 1}),
    )
    .unwrap();
    let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
    let start = Instant::now();
    let run = tokio::spawn(run(Kind::Readiness, probe, subject(json!([])), move |report| {
        drop(tx.send((Instant::now(), report)));
    }));
    let (at, first) = rx.recv().await.unwrap();
    assert_eq!((at - start).as_secs(), 10);
    assert!(
        matches!(first, Report::Unhealthy(text) if text.starts_with("Readiness probe errored"))
    );
    assert_eq!(rx.recv().await.unwrap().1, Report::Changed(false));
    run.abort();
}
