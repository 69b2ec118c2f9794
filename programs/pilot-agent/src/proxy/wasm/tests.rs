//! Modules from a server and a registry of the test's own.

use std::net::SocketAddr;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use ironsail_proto::from_json;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;

/// The smallest there is.
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

fn hex(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A registry that wants a token, which it gives for the password.
async fn registry() -> (SocketAddr, String) {
    let layer = format!("sha256:{}", hex(MODULE));
    let manifest = json!({"schemaVersion": 2, "layers": [{
        "mediaType": "application/vnd.module.wasm.content.layer.v1+wasm", "digest": layer,
    }]})
    .to_string();
    let digest = hex(manifest.as_bytes());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let guarded = move |headers: &HeaderMap| {
        let proof = headers.get("authorization").and_then(|v| v.to_str().ok());
        (proof != Some("Bearer good")).then(|| {
            let how = format!("Bearer realm=\"http://{address}/token\",service=\"test\"");
            (StatusCode::UNAUTHORIZED, [("www-authenticate", how)]).into_response()
        })
    };
    let token = async |headers: HeaderMap| match headers.get("authorization") {
        // user:secret
        Some(proof) if proof == "Basic dXNlcjpzZWNyZXQ=" => json!({"token": "good"}).to_string(),
        _ => json!({"token": "bad"}).to_string(),
    };
    let router = Router::new()
        .route("/token", get(token))
        .route(
            "/v2/my/plugin/manifests/v1",
            get(async move |headers: HeaderMap| {
                guarded(&headers).unwrap_or_else(|| manifest.clone().into_response())
            }),
        )
        .route(
            "/v2/my/plugin/blobs/{digest}",
            get(async move |headers: HeaderMap| {
                guarded(&headers).unwrap_or_else(|| MODULE.into_response())
            }),
        );
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, digest)
}

fn extension(url: &str, sha256: &str, policy: &str, variables: &Value) -> TypedExtensionConfig {
    from_json(&json!({"name": "it", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
        "config": {"failure_policy": policy, "vm_config": {
            "runtime": "envoy.wasm.runtime.v8",
            "code": {"remote": {"sha256": sha256,
                "http_uri": {"uri": url, "timeout": "30s", "cluster": "_"}}},
            "environment_variables": {"key_values": variables},
        }},
    }}))
    .unwrap()
}

fn cache(folder: &tempfile::TempDir) -> Arc<Cache> {
    Arc::new(Cache::new(folder.path(), Fetcher::new(None, "127.0.0.1")))
}

async fn rewritten(cache: &Arc<Cache>, extension: &TypedExtensionConfig) -> Value {
    let all = rewrite(cache, vec![pack(extension)]).await;
    let done: TypedExtensionConfig = open(&all[0]).unwrap();
    ironsail_proto::to_json(&done).unwrap()["typedConfig"].clone()
}

#[tokio::test]
async fn a_module_is_fetched_once_checked_and_named_by_its_file() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = asked.clone();
    let module = async move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        MODULE
    };
    let address = serve(Router::new().route("/m.wasm", get(module))).await;
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&folder);
    let url = format!("http://{address}/m.wasm");
    let mine = json!({"MINE": "1", POLICY: "IfNotPresent", VERSION: "7"});
    for sum in [hex(MODULE), hex(MODULE)] {
        let done = rewritten(&cache, &extension(&url, &sum, "FAIL_CLOSED", &mine)).await;
        let vm = &done["config"]["vmConfig"];
        let file = vm["code"]["local"]["filename"].as_str().unwrap();
        assert_eq!(std::fs::read(file).unwrap(), MODULE);
        assert_eq!(vm["environmentVariables"]["keyValues"], json!({"MINE": "1"}));
    }
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_cannot_be_had_follows_its_fail_strategy() {
    let address = serve(Router::new().route("/m.wasm", get(async || MODULE))).await;
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&folder);
    let good = format!("http://{address}/m.wasm");
    let none = json!({});
    let wrong = extension(&good, &hex(b"other"), "FAIL_CLOSED", &none);
    let done = rewritten(&cache, &wrong).await;
    assert_eq!(done["rules"]["action"], "DENY", "{done}");
    let missing = extension(&format!("http://{address}/no"), "nil", "FAIL_OPEN", &none);
    let done = rewritten(&cache, &missing).await;
    assert!(done.get("rules").is_none(), "{done}");
    assert!(done["@type"].as_str().unwrap().ends_with(".rbac.v3.RBAC"));
}

#[tokio::test]
async fn an_image_is_pulled_with_the_password_of_its_secret() {
    let (address, digest) = registry().await;
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&folder);
    let url = format!("oci://{address}/my/plugin:v1");
    let secret =
        json!({"auths": {address.to_string(): {"username": "user", "password": "secret"}}});
    let with = json!({SECRET: secret.to_string()});
    let done = rewritten(&cache, &extension(&url, &digest, "FAIL_CLOSED", &with)).await;
    let file = done["config"]["vmConfig"]["code"]["local"]["filename"].as_str();
    assert_eq!(std::fs::read(file.unwrap()).unwrap(), MODULE);
    let other = extension(&url, &hex(b"another image"), "FAIL_CLOSED", &with);
    assert_eq!(rewritten(&cache, &other).await["rules"]["action"], "DENY");
    let without = extension(&url, "nil", "FAIL_CLOSED", &json!({}));
    let fresh = Arc::new(Cache::new(folder.path(), Fetcher::new(None, "127.0.0.1")));
    assert_eq!(rewritten(&fresh, &without).await["rules"]["action"], "DENY");
}
