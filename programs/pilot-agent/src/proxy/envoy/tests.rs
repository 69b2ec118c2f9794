//! Envoy's part is played by scripts, which end as they are told.

use super::*;
use crate::proxy::admin::Admin;

#[test]
fn the_command_line_is_the_one_people_know() {
    let launch = Launch {
        program: "/usr/local/bin/envoy".into(),
        config: "etc/istio/proxy/envoy-rev.json".into(),
        drain: Duration::from_secs(45),
        log_level: "warning".into(),
        component_log_level: "misc:error".into(),
        concurrency: Some(2),
        ipv6_only: false,
        flush_interval: Duration::from_secs(1),
        flush_min_size_kb: None,
        skip_deprecated: true,
        over: None,
        modules: None,
    };
    assert_eq!(
        launch.arguments().join(" "),
        "-c etc/istio/proxy/envoy-rev.json --drain-time-s 45 --drain-strategy immediate \
         --local-address-ip-version v4 --file-flush-interval-msec 1000 --disable-hot-restart \
         --allow-unknown-static-fields --skip-deprecated-logs -l warning \
         --component-log-level misc:error --concurrency 2"
    );
}

fn script(text: &str) -> (tempfile::TempDir, Launch) {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("envoy");
    std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let launch = Launch {
        program,
        config: "x".into(),
        drain: Duration::ZERO,
        log_level: "info".into(),
        component_log_level: String::new(),
        concurrency: None,
        ipv6_only: false,
        flush_interval: Duration::from_secs(1),
        flush_min_size_kb: None,
        skip_deprecated: false,
        over: None,
        modules: None,
    };
    (folder, launch)
}

#[tokio::test]
async fn one_that_always_fails_is_given_up() {
    let (folder, launch) = script("echo x >> \"$(dirname \"$0\")/runs\"; exit 3");
    tokio::time::pause();
    let error =
        run(&launch, &Watchdog::asleep(), CancellationToken::new(), || async {}).await.unwrap_err();
    assert_eq!(error.to_string(), "Envoy failed 10 times in a row");
    let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 10);
}

#[tokio::test]
async fn it_is_drained_then_ended() {
    let (_folder, launch) = script("exec sleep 1000");
    let stop = CancellationToken::new();
    stop.cancel();
    let (drained, seen) = tokio::sync::oneshot::channel();
    run(&launch, &Watchdog::asleep(), stop, || async { drained.send(()).unwrap() }).await.unwrap();
    seen.await.unwrap();
}

/// What the run logged is not seen here; that Envoy is ended and started again is.
#[tokio::test]
async fn one_that_lives_but_does_not_answer_is_started_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let admin = Admin::new(listener.local_addr().unwrap());
    let (folder, launch) = script("echo x >> \"$(dirname \"$0\")/runs\"; exec sleep 1000");
    // Its administration answers once; then it takes connections and says nothing.
    let served = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut silent = Vec::new();
        let (mut first, _) = listener.accept().await.unwrap();
        let _ = first.read(&mut [0; 1024]).await.unwrap();
        let answer = b"HTTP/1.1 503 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        first.write_all(answer).await.unwrap();
        drop(first);
        loop {
            silent.push(listener.accept().await.unwrap());
        }
    });
    let watchdog = Watchdog::new(admin, Duration::from_millis(600));
    let stop = CancellationToken::new();
    let runs = || std::fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
    let two = async {
        while runs().lines().count() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.cancel();
    };
    let (result, ()) = tokio::join!(run(&launch, &watchdog, stop.clone(), || async {}), two);
    result.unwrap();
    served.abort();
}

#[tokio::test]
async fn one_that_answers_is_left_alone() {
    let (asked, mut seen) = tokio::sync::mpsc::channel(8);
    // An answer, here that there is no such page, is a sign of life.
    let router = axum::Router::new().fallback(move || {
        let asked = asked.clone();
        async move {
            asked.send(()).await.unwrap();
            axum::http::StatusCode::NOT_FOUND
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let admin = Admin::new(listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let watchdog = Watchdog::new(admin, Duration::from_secs(3));
    let four = async {
        for _ in 0..4 {
            seen.recv().await.unwrap();
        }
    };
    tokio::select! {
        silent = watchdog.watch() => panic!("silent for {silent:?}"),
        () = four => {}
    }
}
