//! The Envoy module by itself in a real Envoy: what it needs is there, it counts exactly under load while
//! its listener is replaced every second, and it does not grow.
//!
//! Half a minute by default; `IRONSAIL_SOAK` is a number of seconds, of which ten minutes at most are
//! taken (`make soak`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ironsail_sys::env::Env;
use ironsail_testkit::{binary, eventually, tool};
use serde_json::{Value, json};
use tokio::time::Instant;

const CALLBACK: &str = "envoy_dynamic_module_callback_";

fn module() -> PathBuf {
    binary("libironsail_envoy.so")
}

fn symbols(file: &Path, how: &str) -> BTreeSet<String> {
    let run = ironsail_sys::exec::command("nm").args(["-D", how]).arg(file).output().unwrap();
    assert!(run.status.success(), "nm {}: {run:?}", file.display());
    let text = String::from_utf8_lossy(&run.stdout);
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    names.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect()
}

#[test]
fn envoy_has_every_function_that_the_module_calls() {
    let envoy = symbols(&tool("envoy").expect("scripts/setup test brings envoy"), "--defined-only");
    let wanted = symbols(&module(), "--undefined-only");
    let wanted: Vec<&String> = wanted.iter().filter(|name| name.starts_with(CALLBACK)).collect();
    assert!(wanted.len() > 20, "the module calls Envoy: {wanted:?}");
    let missing: Vec<_> = wanted.iter().filter(|name| !envoy.contains(**name)).collect();
    assert!(missing.is_empty(), "Envoy lacks {missing:?}");
    // And the other way round: hooks that Envoy looks for are there.
    let hooks = symbols(&module(), "--defined-only");
    for hook in ["program_init", "http_filter_new", "access_logger_log", "bootstrap_extension_new"]
    {
        assert!(hooks.contains(&format!("envoy_dynamic_module_on_{hook}")), "{hook}");
    }
}

fn typed(name: &str) -> String {
    format!("type.googleapis.com/{name}")
}

fn dynamic_module() -> Value {
    json!({"name": "ironsail_envoy", "do_not_close": true, "metrics_namespace": "dynamicmodulescustom"})
}

fn text(value: &Value) -> Value {
    json!({"@type": typed("google.protobuf.StringValue"), "value": value.to_string()})
}

/// The listener; `number` makes it another one.
fn listener(port: u16, number: u64) -> Value {
    let exchange = json!({"name": "istio.metadata_exchange", "typed_config": {
        "@type": typed("envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter"),
        "dynamic_module_config": dynamic_module(), "filter_name": "peer",
        "filter_config": text(&json!({"direction": "inbound"}))}});
    let router = json!({"name": "envoy.filters.http.router", "typed_config": {
        "@type": typed("envoy.extensions.filters.http.router.v3.Router")}});
    let stats = json!({"name": "istio.stats", "typed_config": {
        "@type": typed("envoy.extensions.access_loggers.dynamic_modules.v3.DynamicModuleAccessLog"),
        "dynamic_module_config": dynamic_module(), "logger_name": "stats",
        "logger_config": text(&json!({"reporter": "destination", "traffic": "http"}))}});
    let route = json!({"match": {"prefix": "/"}, "direct_response": {"status": 200,
        "body": {"inline_string": format!("{number}")}}});
    let manager = json!({
        "@type": typed("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "it", "access_log": [stats], "http_filters": [exchange, router],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]}});
    json!({"@type": typed("envoy.config.listener.v3.Listener"), "name": "it",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}]})
}

fn bootstrap(folder: &Path, admin: &Path) -> Value {
    let local =
        json!({"id": "it", "name": "it", "namespace": "here", "workload": "it", "version": "1"});
    json!({
        "node": {"id": "it", "cluster": "it"},
        "admin": {"address": {"pipe": {"path": admin}}},
        "layered_runtime": {"layers": [{"name": "static", "static_layer": {
            "envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix": true}}]},
        "dynamic_resources": {"lds_config": {"resource_api_version": "V3",
            "path_config_source": {"path": folder.join("lds.json"),
                "watched_directory": {"path": folder}}}},
        "static_resources": {"clusters": [{"name": "ironsail_telemetry", "connect_timeout": "1s",
            "lb_policy": "CLUSTER_PROVIDED", "cluster_type": {"name": "envoy.clusters.dynamic_modules",
                "typed_config": {
                    "@type": typed("envoy.extensions.clusters.dynamic_modules.v3.ClusterConfig"),
                    "dynamic_module_config": dynamic_module(), "cluster_name": "telemetry"}}}]},
        "bootstrap_extensions": [{"name": "ironsail.telemetry", "typed_config": {
            "@type": typed("envoy.extensions.bootstrap.dynamic_modules.v3.DynamicModuleBootstrapExtension"),
            "dynamic_module_config": dynamic_module(), "extension_name": "telemetry",
            "extension_config": text(&local)}}],
    })
}

struct Envoy {
    child: tokio::process::Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Envoy {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Free a moment ago; Envoy takes it with SO_REUSEPORT.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = bootstrap(folder.path(), &folder.path().join("admin"));
        std::fs::write(folder.path().join("envoy.json"), config.to_string()).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = ironsail_sys::exec::async_command(tool("envoy").unwrap());
        command.arg("-c").arg(folder.path().join("envoy.json"));
        command.args(["--use-dynamic-base-id", "--concurrency", "2", "--log-level", "warning"]);
        command.args(["--drain-time-s", "2", "--drain-strategy", "immediate"]);
        command.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", module().parent().unwrap()).stderr(log);
        let envoy = Self { child: command.spawn().unwrap(), folder, port };
        envoy.replace(0);
        eventually("Envoy listens", async || {
            let log = std::fs::read_to_string(envoy.folder.path().join("log")).unwrap_or_default();
            let found = tokio::net::TcpStream::connect(("127.0.0.1", envoy.port)).await;
            found.map(|_| ()).map_err(|error| format!("{error}\n{log}"))
        })
        .await;
        envoy
    }

    /// Another listener in place of the one before, by rename.
    fn replace(&self, number: u64) {
        let text =
            json!({"version_info": number.to_string(), "resources": [listener(self.port, number)]});
        let (new, old) = (self.folder.path().join("new"), self.folder.path().join("lds.json"));
        std::fs::write(&new, text.to_string()).unwrap();
        std::fs::rename(new, old).unwrap();
    }

    async fn admin(&self, path: &str) -> String {
        let mut curl = ironsail_sys::exec::async_command("curl");
        curl.args(["-sf", "--unix-socket"]).arg(self.folder.path().join("admin"));
        let run = curl.arg(format!("http://localhost{path}")).output().await.unwrap();
        assert!(run.status.success(), "{path}: {run:?}");
        String::from_utf8(run.stdout).unwrap()
    }

    /// The sum of all series of a metric.
    async fn sum(&self, name: &str) -> f64 {
        let text = self.admin("/stats/prometheus").await;
        let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    async fn listeners(&self) -> f64 {
        let text = self.admin("/stats?filter=listener_manager.listener_modified").await;
        text.lines().filter_map(|line| line.rsplit(": ").next()?.parse::<f64>().ok()).sum()
    }

    fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id().expect("Envoy runs"));
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }
}

/// Requests as fast as they are answered.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    workers: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(port: u16) -> Self {
        let client: Client<HttpConnector, Empty<Bytes>> =
            Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build_http();
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let worker = |_| {
            let (client, stop, answered) = (client.clone(), stop.clone(), answered.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let request = http::Request::get(format!("http://127.0.0.1:{port}/"));
                    // A connection that Envoy closes at this moment costs a request that never arrived.
                    let Ok(response) = client.request(request.body(Empty::new()).unwrap()).await
                    else {
                        continue;
                    };
                    assert_eq!(response.status(), 200);
                    if response.into_body().collect().await.is_ok() {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        };
        Self { workers: (0..16).map(worker).collect(), stop, answered }
    }

    async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for worker in self.workers {
            worker.await.unwrap();
        }
        self.answered.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_counts_while_listeners_change_and_nothing_grows() {
    let wanted = Env::of_process().var("IRONSAIL_SOAK").and_then(|text| text.parse().ok());
    let long = Duration::from_secs(wanted.map_or(30, |seconds: u64| seconds.min(600)));
    let envoy = Envoy::start().await;
    let load = Load::start(envoy.port);
    let (begin, mut number, mut before) = (Instant::now(), 0, None);
    while begin.elapsed() < long {
        number += 1;
        envoy.replace(number);
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The first third fills pools and caches.
        if begin.elapsed() > long / 3 && before.is_none() {
            before = Some(envoy.resident());
        }
    }
    let answered = load.end().await;
    let (before, now) = (before.unwrap(), envoy.resident());
    eprintln!("module: {answered} requests, {number} listeners, {before} MiB then {now} MiB");
    assert!(answered > 1_000, "that is no load: {answered}");
    // A machine that is busy may miss some of the changes, but not all.
    assert!(envoy.listeners().await * 2.0 >= number as f64, "{}", envoy.listeners().await);
    let exact = answered as f64;
    let count = envoy.sum("istio_requests_total").await;
    assert!((count - exact).abs() < 0.5, "{answered} were answered, {count} were counted");
    for name in
        ["istio_request_duration_milliseconds", "istio_request_bytes", "istio_response_bytes"]
    {
        // Envoy shows histograms after its next flush.
        eventually(&format!("{name} has all"), async || {
            let count = envoy.sum(&format!("{name}_count")).await;
            if (count - exact).abs() < 0.5 { Ok(()) } else { Err(format!("{count} of {answered}")) }
        })
        .await;
    }
    assert!(now <= before + before / 10 + 8, "Envoy grew from {before} to {now} MiB");
}
