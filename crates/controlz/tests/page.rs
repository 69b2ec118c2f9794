//! The page shows what is, and changes what it may.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use ironsail_controlz::{Program, router};
use ironsail_daemon::{log, metrics::Metrics};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

struct Page {
    router: axum::Router,
    levels: log::Levels,
    stop: CancellationToken,
}

/// The log of a process is set up once, so one page serves all tests.
fn page() -> &'static Page {
    static PAGE: std::sync::OnceLock<Page> = std::sync::OnceLock::new();
    PAGE.get_or_init(|| {
        let config = log::Config { levels: "default:error,ads:warn".into(), json: false };
        let levels = log::start(&config).unwrap();
        let stop = CancellationToken::new();
        let program = Program {
            name: "pilot-discovery",
            version: "1.2.3".into(),
            levels: levels.clone(),
            metrics: Metrics::with_process(),
            environment: vec![
                ("POD_NAME".into(), "<istiod>".into()),
                ("API_TOKEN".into(), "abc".into()),
            ],
            arguments: vec!["discovery".into()],
            stop: stop.clone(),
            more: &[("/mesh/", "Mesh", "the mesh")],
        };
        Page { router: router(program), levels, stop }
    })
}

async fn ask(method: &str, path: &str, body: &'static str) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(path);
    let request =
        request.header("content-type", "application/json").body(Body::from(body)).unwrap();
    let response = page().router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_log_level_is_shown_and_changed() {
    assert!(ask("GET", "/scopej/ads", "").await.1.contains("\"output_level\":\"warn\""));
    let (status, text) = ask("PUT", "/scopej/ads", r#"{"output_level":"debug"}"#).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{text}");
    assert_eq!(page().levels.get("ads"), Some("debug"));
    assert!(ask("GET", "/scopez/", "").await.1.contains("<option selected>debug</option>"));
}

#[tokio::test]
async fn a_wrong_change_is_refused_by_name() {
    let (status, text) = ask("PUT", "/scopej/default", r#"{"output_level":"loud"}"#).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.contains("\"loud\""), "{text}");
    let (status, text) = ask("PUT", "/scopej/nobody", r#"{"output_level":"info"}"#).await;
    assert_eq!((status, text.contains("nobody")), (StatusCode::BAD_REQUEST, true));
    let full = r#"{"output_level":"info","log_callers":true}"#;
    assert_eq!(ask("PUT", "/scopej/default", full).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn every_topic_answers_escaped_and_without_secrets() {
    let topics = ["scope", "mem", "env", "proc", "args", "version", "metric", "signal"];
    for topic in topics {
        let (status, html) = ask("GET", &format!("/{topic}z/"), "").await;
        assert_eq!(status, StatusCode::OK, "{topic}");
        assert!(html.contains("ControlZ: pilot-discovery"), "{topic}");
    }
    let (_, html) = ask("GET", "/envz/", "").await;
    assert!(html.contains("&lt;istiod&gt;") && !html.contains("abc"), "{html}");
    assert!(ask("GET", "/versionj/", "").await.1.contains("1.2.3"));
}

#[tokio::test]
async fn the_program_is_asked_to_end() {
    assert_eq!(ask("PUT", "/signalj/SIGTERM", "").await.0, StatusCode::ACCEPTED);
    assert!(page().stop.is_cancelled());
}
