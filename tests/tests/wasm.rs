//! WasmPlugin: a module fetched by the agent runs in Envoy; one that cannot be had follows its strategy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "extend/mesh.rs"]
mod mesh;
#[path = "extend/module.rs"]
mod module;

use base64::Engine;
use ironsail_testkit::Case;
use mesh::{Got, ask_until, in_the_mesh};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const HTTPBIN: &str = "http://httpbin:8000";

async fn apps(case: &Case) {
    case.sample("httpbin/httpbin.yaml").await;
    case.sample("curl/curl.yaml").await;
    case.ready("deployment/httpbin").await;
    case.ready("deployment/curl").await;
}

/// Where the module is served: httpbin gives back what its path holds.
fn url(case: &Case, module: &[u8]) -> String {
    let text = base64::engine::general_purpose::URL_SAFE.encode(module);
    format!("http://httpbin.{}.svc.cluster.local:8000/base64/{text}", case.namespace)
}

/// A good answer that has passed the module.
fn passed(got: &Got) -> bool {
    got.code == 200 && got.header("x-wasm").is_some()
}

fn plugin(name: &str, app: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["selector"] = json!({"matchLabels": {"app": app}});
    json!({"apiVersion": "extensions.istio.io/v1alpha1", "kind": "WasmPlugin",
        "metadata": {"name": name}, "spec": spec})
}

#[test]
fn a_module_is_fetched_checked_and_run() {
    in_the_mesh("module", async |case| {
        apps(case).await;
        let module = module::adds_header("x-wasm");
        let sum = format!("{:x}", Sha256::digest(&module));
        let spec = json!({"url": url(case, &module), "sha256": sum, "phase": "AUTHN",
            "pluginConfig": {"say": "hello"}, "match": [{"mode": "CLIENT"}]});
        case.try_apply(plugin("mine", "curl", &spec)).await.unwrap();
        let got = ask_until(case, &format!("{HTTPBIN}/get"), &[], passed).await;
        assert_eq!(got.header("x-wasm"), Some(r#"{"say":"hello"}"#), "{got:?}");
        // Another configuration of the same module.
        let mut other = spec.clone();
        other["pluginConfig"] = json!({"say": "again"});
        case.try_apply(plugin("mine", "curl", &other)).await.unwrap();
        ask_until(case, &format!("{HTTPBIN}/get"), &[], |got| {
            got.header("x-wasm") == Some(r#"{"say":"again"}"#)
        })
        .await;
        // Traffic of the other side does not pass it.
        let mut server = spec.clone();
        server["match"] = json!([{"mode": "SERVER"}]);
        case.try_apply(plugin("mine", "curl", &server)).await.unwrap();
        ask_until(case, &format!("{HTTPBIN}/get"), &[], |got| {
            got.code == 200 && got.header("x-wasm").is_none()
        })
        .await;
    });
}

#[test]
fn a_module_that_cannot_be_had_follows_its_strategy() {
    in_the_mesh("missing", async |case| {
        apps(case).await;
        let module = module::adds_header("x-wasm");
        // The checksum is that of something else.
        let spec = json!({"url": url(case, &module), "sha256": "0".repeat(64),
            "failStrategy": "FAIL_CLOSE", "match": [{"mode": "CLIENT"}]});
        case.try_apply(plugin("closed", "curl", &spec)).await.unwrap();
        ask_until(case, &format!("{HTTPBIN}/get"), &[], |got| got.code == 403).await;
        case.kubectl_says(&["delete", "wasmplugin", "closed"]);
        ask_until(case, &format!("{HTTPBIN}/get"), &[], |got| got.code == 200).await;
        let mut open = spec.clone();
        open["failStrategy"] = json!("FAIL_OPEN");
        case.try_apply(plugin("open", "curl", &open)).await.unwrap();
        // A second one, behind it in the chain, shows when the listener has changed.
        let sum = format!("{:x}", Sha256::digest(&module));
        let good = json!({"url": url(case, &module), "sha256": sum, "priority": -1,
            "pluginConfig": {}, "match": [{"mode": "CLIENT"}]});
        case.try_apply(plugin("good", "curl", &good)).await.unwrap();
        ask_until(case, &format!("{HTTPBIN}/get"), &[], passed).await;
    });
}

#[test]
fn a_script_runs_where_it_is_put() {
    in_the_mesh("script", async |case| {
        apps(case).await;
        let code = "function envoy_on_response(h) h:headers():add('x-script', 'yes') end";
        let object = json!({"apiVersion": "extensions.istio.io/v1alpha1", "kind": "TrafficExtension",
            "metadata": {"name": "script"}, "spec": {"selector": {"matchLabels": {"app": "httpbin"}},
                "lua": {"inlineCode": code}}});
        case.try_apply(object).await.unwrap();
        ask_until(case, &format!("{HTTPBIN}/get"), &[], |got| {
            got.header("x-script") == Some("yes")
        })
        .await;
    });
}
