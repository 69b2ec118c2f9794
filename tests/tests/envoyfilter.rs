//! EnvoyFilter: what each patch does to traffic, and that a bad one harms nobody.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "extend/mesh.rs"]
mod mesh;

use ironsail_testkit::{Case, eventually};
use mesh::{Got, ask_until, in_the_mesh};
use serde_json::{Value, json};

const HTTPBIN: &str = "http://httpbin:8000";
const MANAGER: &str = "envoy.filters.network.http_connection_manager";
const ROUTER: &str = "envoy.filters.http.router";

async fn apps(case: &Case) {
    case.sample("httpbin/httpbin.yaml").await;
    case.sample("curl/curl.yaml").await;
    case.ready("deployment/httpbin").await;
    case.ready("deployment/curl").await;
}

fn filter(name: &str, app: &str, patches: &Value) -> Value {
    json!({"apiVersion": "networking.istio.io/v1alpha3", "kind": "EnvoyFilter",
        "metadata": {"name": name}, "spec": {"workloadSelector": {"labels": {"app": app}},
            "configPatches": patches}})
}

/// A Lua filter that adds a header to answers.
fn lua(context: &str, header: &str) -> Value {
    let code = format!(
        "function envoy_on_response(handle) handle:headers():add(\"{header}\", \"yes\") end"
    );
    json!({"applyTo": "HTTP_FILTER",
        "match": {"context": context, "listener": {"filterChain": {"filter": {
            "name": MANAGER, "subFilter": {"name": ROUTER}}}}},
        "patch": {"operation": "INSERT_BEFORE", "value": {"name": header, "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
            "default_source_code": {"inline_string": code}}}}})
}

#[test]
fn filters_routes_and_clusters_are_patched() {
    in_the_mesh("patched", async |case| {
        apps(case).await;
        let server = json!([
            lua("SIDECAR_INBOUND", "x-inbound"),
            {"applyTo": "NETWORK_FILTER", "match": {"context": "SIDECAR_INBOUND",
                "listener": {"filterChain": {"filter": {"name": MANAGER}}}},
                "patch": {"operation": "MERGE", "value": {"typed_config": {
                    "@type": format!("type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
                    "server_name": "patched-server"}}}},
            {"applyTo": "HTTP_ROUTE", "match": {"context": "SIDECAR_INBOUND"},
                "patch": {"operation": "INSERT_FIRST", "value": {"name": "tea",
                    "match": {"path": "/tea"},
                    "direct_response": {"status": 418, "body": {"inline_string": "short and stout"}}}}},
        ]);
        case.try_apply(filter("server", "httpbin", &server)).await.unwrap();
        let client = json!([
            lua("SIDECAR_OUTBOUND", "x-outbound"),
            // A route to a cluster that another patch adds.
            {"applyTo": "CLUSTER", "match": {"context": "SIDECAR_OUTBOUND"},
                "patch": {"operation": "ADD", "value": {"name": "by-hand", "type": "STRICT_DNS",
                    "connect_timeout": "5s", "load_assignment": {"cluster_name": "by-hand",
                        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address":
                            {"address": format!("httpbin.{}.svc.cluster.local", case.namespace),
                             "port_value": 8000}}}}]}]}}}},
            {"applyTo": "VIRTUAL_HOST", "match": {"context": "SIDECAR_OUTBOUND",
                "routeConfiguration": {"name": "8000"}},
                "patch": {"operation": "ADD", "value": {"name": "mine", "domains": ["mine.example"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "by-hand"}}]}}},
            {"applyTo": "VIRTUAL_HOST", "match": {"context": "SIDECAR_OUTBOUND",
                "routeConfiguration": {"name": "8000", "vhost": {"name":
                    format!("httpbin.{}.svc.cluster.local:8000", case.namespace)}}},
                "patch": {"operation": "MERGE", "value": {"response_headers_to_add":
                    [{"header": {"key": "x-host", "value": "merged"}}]}}},
            {"applyTo": "CLUSTER", "match": {"context": "SIDECAR_OUTBOUND", "cluster":
                {"service": format!("httpbin.{}.svc.cluster.local", case.namespace)}},
                "patch": {"operation": "MERGE", "value": {"connect_timeout": "4s"}}},
        ]);
        case.try_apply(filter("client", "curl", &client)).await.unwrap();
        let got = ask_until(case, &format!("{HTTPBIN}/get"), &[], |got| {
            // Listeners and routes come one after the other.
            ["x-inbound", "x-outbound", "x-host"].iter().all(|name| got.header(name).is_some())
        })
        .await;
        assert_eq!((got.code, got.header("x-host")), (200, Some("merged")), "{got:?}");
        let tea = ask_until(case, &format!("{HTTPBIN}/tea"), &[], |got| got.code == 418).await;
        assert_eq!(tea.body, "short and stout");
        let mine = ask_until(case, &format!("{HTTPBIN}/get"), &["Host: mine.example"], |got| {
            got.code == 200
        })
        .await;
        assert_eq!(mine.header("x-host"), None, "{mine:?}");
        let dump = case
            .exec_in(
                &pod(case, "curl").await,
                "istio-proxy",
                &["curl", "-s", "localhost:15000/config_dump"],
            )
            .await
            .stdout;
        assert!(dump.contains("\"connect_timeout\": \"4s\""), "{}", dump.len());
        // What is taken away is gone from the wire.
        case.kubectl_says(&["delete", "envoyfilter", "server"]);
        ask_until(case, &format!("{HTTPBIN}/tea"), &[], |got| {
            got.code == 404 && got.header("x-inbound").is_none()
        })
        .await;
    });
}

#[test]
fn what_only_envoy_can_refuse_is_left_out_when_it_has() {
    mesh::in_the_mesh_with_refusals("refused", async |case| {
        apps(case).await;
        let mut broken = lua("SIDECAR_INBOUND", "x-broken");
        broken["patch"]["value"]["typed_config"]["default_source_code"]["inline_string"] =
            json!("this is no script");
        let good = json!([lua("SIDECAR_INBOUND", "x-good")]);
        case.try_apply(filter("good", "httpbin", &good)).await.unwrap();
        case.try_apply(filter("broken", "httpbin", &json!([broken]))).await.unwrap();
        eventually("the status tells", async || {
            let said = case.kubectl_says(&["get", "envoyfilter/broken", "-o", "json"]);
            if said.contains("Envoy refused") { Ok(()) } else { Err(said) }
        })
        .await;
        let url = format!("{HTTPBIN}/get");
        let good = |got: &Got| got.code == 200 && got.header("x-good").is_some();
        ask_until(case, &url, &[], good).await;
        eventually("every proxy has taken what it was sent", async || {
            let rows = case.page(8080, "/debug/syncz").await.body;
            let wrong = rows.contains("\"ERROR\"") || rows.contains("\"STALE\"");
            if wrong { Err(rows) } else { Ok(()) }
        })
        .await;
    });
}

async fn pod(case: &Case, app: &str) -> String {
    let label = format!("app={app}");
    let path = "jsonpath={.items[0].metadata.name}";
    case.kubectl_says(&["get", "pods", "-l", &label, "-o", path]).trim().to_owned()
}

#[test]
fn a_bad_patch_is_refused_or_told_and_the_rest_applies() {
    in_the_mesh("bad", async |case| {
        apps(case).await;
        // What the webhook can see, it refuses with the place.
        let mut bad = lua("SIDECAR_INBOUND", "x-bad");
        bad["patch"]["value"]["typed_config"]["inlin_code"] = json!("x");
        for (patch, words) in [
            (bad, "inlin_code"),
            (
                json!({"applyTo": "CLUSTER", "patch": {"operation": "ADD", "value":
                    {"name": "x", "connect_timeout": "0s"}}}),
                "connect_timeout",
            ),
            (
                json!({"applyTo": "HTTP_FILTER", "patch": {"operation": "INSERT_FIRST", "value":
                    {"name": "istio.alpn", "typed_config": {"@type":
                        "type.googleapis.com/istio.envoy.config.filter.http.alpn.v2alpha1.FilterConfig"}}}}),
                "FilterConfig",
            ),
        ] {
            let object = filter("bad", "httpbin", &json!([patch])).to_string();
            let output = case.kubectl_output(&["apply", "-f", "-"], &object);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{words}: {said}");
            assert!(said.contains("configPatches[0]") && said.contains(words), "{said}");
        }
        // What only the resource shows is left out alone, and the object's status tells.
        let mut behind = lua("SIDECAR_INBOUND", "x-behind");
        behind["patch"]["operation"] = json!("INSERT_AFTER");
        let twice = json!({"applyTo": "VIRTUAL_HOST", "match": {"context": "SIDECAR_INBOUND"},
            "patch": {"operation": "ADD", "value": {"name": "twice", "domains": ["*"]}}});
        let patches = json!([behind, twice, lua("SIDECAR_INBOUND", "x-good")]);
        case.try_apply(filter("half", "httpbin", &patches)).await.unwrap();
        let url = format!("{HTTPBIN}/get");
        let good = |got: &Got| got.code == 200 && got.header("x-good").is_some();
        let got = ask_until(case, &url, &[], good).await;
        assert_eq!(got.header("x-behind"), None, "{got:?}");
        eventually("the status tells", async || {
            let said = case.kubectl_says(&["get", "envoyfilter/half", "-o", "json"]);
            let told = said.contains("behind the router") && said.contains("the domain");
            if told { Ok(()) } else { Err(said) }
        })
        .await;
        ask_until(case, &url, &[], |got| got.code == 200).await;
    });
}

/// A pod whose agent asks for what Envoy starts with.
const ASKING: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: asking
  labels: {app: asking}
  annotations: {proxy.istio.io/config: '{\"proxyMetadata\": {\"BOOTSTRAP_XDS_AGENT\": \"true\"}}'}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080']}]
";

#[test]
fn the_bootstrap_is_patched_for_who_asks_for_it() {
    in_the_mesh("start", async |case| {
        let manager = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "extra",
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{
                "match": {"prefix": "/"},
                "direct_response": {"status": 200, "body": {"inline_string": "from the bootstrap"}}}]}]},
            "http_filters": [{"name": ROUTER, "typed_config": {"@type":
                "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
        });
        let listener = json!({"name": "extra",
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 19_999}},
            "filter_chains": [{"filters": [{"name": MANAGER, "typed_config": manager}]}]});
        let merge = |value: Value| json!({"applyTo": "BOOTSTRAP", "patch": {"operation": "MERGE", "value": value}});
        let patches = json!([
            merge(json!({"static_resources": {"listeners": [listener]}})),
            merge(json!({"stats_flush_interval": "3s"})),
        ]);
        case.try_apply(filter("start", "asking", &patches)).await.unwrap();
        case.try_apply(filter("deaf", "httpbin", &patches)).await.unwrap();
        apps(case).await;
        case.apply(ASKING).await;
        case.ready("pod/asking").await;
        let curl = async |url: &str| {
            let command = ["curl", "-s", "-m", "10", url];
            case.exec_in("asking", "main", &command).await.stdout
        };
        eventually("a listener of the bootstrap answers", async || {
            let said = curl("http://127.0.0.1:19999/").await;
            if said == "from the bootstrap" { Ok(()) } else { Err(said) }
        })
        .await;
        eventually("the rest works as ever", async || {
            let said = curl(&format!("{HTTPBIN}/headers")).await;
            if said.contains("spiffe://") { Ok(()) } else { Err(said) }
        })
        .await;
        let command = ["curl", "-s", "localhost:15000/config_dump"];
        let dump = case.exec_in("asking", "istio-proxy", &command).await.stdout;
        assert!(dump.contains("\"stats_flush_interval\": \"3s\""), "{dump}");
        // Who starts with a bootstrap of its own is not changed, and the object's status tells.
        eventually("the status tells", async || {
            let said = case.kubectl_says(&["get", "envoyfilter/deaf", "-o", "json"]);
            if said.contains("BOOTSTRAP_XDS_AGENT") { Ok(()) } else { Err(said) }
        })
        .await;
        let said = case.kubectl_says(&["get", "envoyfilter/start", "-o", "json"]);
        assert!(!said.contains("BOOTSTRAP_XDS_AGENT"), "{said}");
    });
}
