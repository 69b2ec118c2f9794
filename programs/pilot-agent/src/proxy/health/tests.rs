//! Looks of every kind at an application that is well and then is not.

use ironsail_api::mesh::ProxyConfig;
use serde_json::json;

use super::*;

fn bad(why: &str) -> Option<Health> {
    Some(Health::Bad(why.to_owned()))
}

#[test]
fn only_changes_are_said_and_only_after_enough_results_in_a_row() {
    let mut results = Results::default();
    let mut take = |result: Result<(), &str>| results.take(result.map_err(str::to_owned), 2, 3);
    assert_eq!(take(Err("early")), None, "nothing was said yet that could be taken back");
    assert_eq!(take(Ok(())), None);
    assert_eq!(take(Err("x")), None);
    assert_eq!((take(Ok(())), take(Ok(()))), (None, Some(Health::Good)));
    assert_eq!((take(Ok(())), take(Err("a")), take(Err("b"))), (None, None, None));
    assert_eq!((take(Ok(())), take(Err("a")), take(Err("b"))), (None, None, None));
    assert_eq!(take(Err("c")), bad("c"));
    assert_eq!((take(Err("d")), take(Ok(())), take(Ok(()))), (None, None, Some(Health::Good)));
}

fn checker(probe: &serde_json::Value) -> anyhow::Result<Option<Checker>> {
    let config = ProxyConfig::default().overlaid(&json!({"readinessProbe": probe})).value;
    let probe = config.readiness_probe.unwrap();
    Checker::new(&probe, None, &[])
}

async fn once(probe: serde_json::Value) -> Result<(), String> {
    checker(&probe).unwrap().unwrap().once().await
}

async fn serve(status: u16) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let code = axum::http::StatusCode::from_u16(status).unwrap();
    let answer = move |headers: axum::http::HeaderMap| async move {
        match headers.get("x-probe").is_some() && headers["user-agent"] == "istio-probe/1.0" {
            true => code,
            false => axum::http::StatusCode::BAD_REQUEST,
        }
    };
    let router = axum::Router::new().route("/well", axum::routing::get(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    port
}

#[tokio::test]
async fn a_request_must_be_answered_well() {
    let get = |port: u16, path: &str| {
        let headers = json!([{"name": "x-probe", "value": "1"}]);
        json!({"timeoutSeconds": 20, "httpGet": {"path": path, "port": port, "httpHeaders": headers}})
    };
    let port = serve(204).await;
    once(get(port, "/well")).await.unwrap();
    let why = once(get(port, "/ill")).await.unwrap_err();
    assert!(why.contains("404"), "{why}");
    let why = once(get(serve(500).await, "well")).await.unwrap_err();
    assert!(why.contains("500"), "{why}");
}

#[tokio::test]
async fn a_connection_must_be_taken() {
    let port = serve(200).await;
    once(json!({"timeoutSeconds": 20, "tcpSocket": {"port": port}})).await.unwrap();
    once(json!({"timeoutSeconds": 20, "tcpSocket": {"host": "127.0.0.1", "port": port}}))
        .await
        .unwrap();
    let free = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    assert!(once(json!({"timeoutSeconds": 20, "tcpSocket": {"port": free}})).await.is_err());
}

#[tokio::test]
async fn a_program_must_succeed_in_time() {
    once(json!({"timeoutSeconds": 20, "exec": {"command": ["true"]}})).await.unwrap();
    let why =
        once(json!({"timeoutSeconds": 20, "exec": {"command": ["sh", "-c", "exit 3"]}})).await;
    assert!(why.unwrap_err().contains('3'));
    let why = once(json!({"exec": {"command": ["sleep", "100"]}})).await.unwrap_err();
    assert_eq!(why, "no answer in 1s");
    assert!(once(json!({"exec": {"command": ["/no/such/program"]}})).await.is_err());
}

#[test]
fn a_probe_that_cannot_be_is_refused_and_none_is_none() {
    assert!(checker(&json!({"periodSeconds": 3})).unwrap().is_none());
    assert!(checker(&json!({"tcpSocket": {"port": 0}})).is_err());
    assert!(checker(&json!({"exec": {"command": []}})).is_err());
}

#[tokio::test]
async fn the_channel_holds_the_newest_health() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("well");
    let command = ["test", "-e", flag.to_str().unwrap()];
    let probe = json!({"periodSeconds": 1, "timeoutSeconds": 20, "exec": {"command": command}});
    let (health, mut seen) = watch::channel(None);
    let stop = CancellationToken::new();
    let task = tokio::spawn(checker(&probe).unwrap().unwrap().run(health, stop.clone()));
    std::fs::write(&flag, "").unwrap();
    seen.changed().await.unwrap();
    assert_eq!(*seen.borrow_and_update(), Some(Health::Good));
    std::fs::remove_file(&flag).unwrap();
    seen.changed().await.unwrap();
    assert!(matches!(*seen.borrow_and_update(), Some(Health::Bad(_))));
    stop.cancel();
    task.await.unwrap().unwrap();
}
