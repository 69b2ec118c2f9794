//! The Envoy module: processor time of a request through a bare Envoy, through one with the module, and
//! through one that counts with Envoy's own stats access logger.
//!
//! One Envoy has a listener of each kind, and they take turns, so that a busy machine slows them alike;
//! the median of the rounds counts. What answers is another Envoy, whose time is not counted.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use ironsail_sys::exec;
use ironsail_testkit::tool;
use serde_json::{Value, json};

use crate::process;

const REQUESTS: usize = 20_000;
const ROUNDS: usize = 7;
const CLIENTS: usize = 4;
const KINDS: [&str; 3] = ["bare", "module", "stock"];

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `folder` has `libironsail_envoy.so`; beside this program if there is none.
pub(crate) async fn run(folder: Option<String>) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("where this program lies")?;
    let own = own.parent().context("where this program lies")?.to_owned();
    let library = folder.map_or(own, PathBuf::from);
    ensure!(library.join("libironsail_envoy.so").exists(), "no module in {}", library.display());
    let place = std::env::temp_dir().join(format!("ironsail-bench-{}", std::process::id()));
    std::fs::create_dir_all(&place).context("a folder for sockets")?;
    let result = measure(&library, &place).await;
    let _ = std::fs::remove_dir_all(&place);
    result
}

async fn measure(library: &Path, place: &Path) -> anyhow::Result<()> {
    println!("{:<44} {:>12}", "Envoy module, processor time of a request", "");
    let _far = start(library, place, "far", &far(place))?;
    let near = start(library, place, "near", &near(place))?;
    let mut times = [const { Vec::new() }; KINDS.len()];
    for round in 0..=ROUNDS {
        for (kind, times) in KINDS.iter().zip(&mut times) {
            let socket = place.join(kind);
            ready(&socket).await?;
            let before = process::cpu_seconds(near.0.id())?;
            std::thread::scope(|scope| {
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|_| scope.spawn(|| ask(&socket, REQUESTS / CLIENTS)))
                    .collect();
                clients.into_iter().try_for_each(|client| {
                    client.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a client failed")))
                })
            })?;
            let took = process::cpu_seconds(near.0.id())? - before;
            // The first round warms up.
            if round > 0 {
                times.push(took * 1e6 / REQUESTS as f64);
            }
        }
    }
    let [bare, module, stock] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let over = |time: f64| format!("{:+.1} %", (time / bare - 1.0) * 100.0);
    let line = |what: &str, time: f64, aim: &str| {
        println!("  {what:<42} {:>9.1} us {:>9}   {aim}", time, over(time));
    };
    line("bare", bare, "");
    line("with the module", module, "aim: at most +12 %, and less than the next");
    line("with Envoy's stats access logger", stock, "");
    Ok(())
}

fn start(library: &Path, place: &Path, name: &str, config: &Value) -> anyhow::Result<Running> {
    let file = place.join(format!("{name}.json"));
    std::fs::write(&file, config.to_string()).context("writing a configuration")?;
    let log = std::fs::File::create(place.join(format!("{name}.log"))).context("a log")?;
    let mut command =
        exec::command(tool("envoy").context("no envoy: scripts/setup test brings it")?);
    command.arg("-c").arg(&file).args([
        "--use-dynamic-base-id",
        "--concurrency",
        "2",
        "-l",
        "warning",
    ]);
    command.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", library).stdout(Stdio::null()).stderr(log);
    Ok(Running(command.spawn().context("starting Envoy")?))
}

async fn ready(socket: &Path) -> anyhow::Result<()> {
    for _ in 0..200 {
        if ask(socket, 1).is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let logs = ["near", "far"].map(|name| {
        std::fs::read_to_string(socket.with_file_name(format!("{name}.log"))).unwrap_or_default()
    });
    anyhow::bail!("nobody answers on {}\n{}", socket.display(), logs.concat())
}

/// So many requests on one connection, one after the other.
fn ask(socket: &Path, count: usize) -> anyhow::Result<()> {
    let mut stream = UnixStream::connect(socket).context("connecting")?;
    let mut answer = [0; 4096];
    for _ in 0..count {
        stream.write_all(
            b"GET /some/path?of=it HTTP/1.1\r\nhost: web.shop:8000\r\nuser-agent: bench\r\n\r\n",
        )?;
        let read = stream.read(&mut answer)?;
        ensure!(answer[..read].starts_with(b"HTTP/1.1 200"), "a bad answer");
    }
    Ok(())
}

fn typed(name: &str) -> String {
    format!("type.googleapis.com/envoy.{name}")
}

fn listener(place: &Path, name: &str, route: &Value, filters: &[Value], logs: &[Value]) -> Value {
    let mut filters = filters.to_vec();
    filters.push(json!({"name": "router",
        "typed_config": {"@type": typed("extensions.filters.http.router.v3.Router")}}));
    let mut route = route.clone();
    route["match"] = json!({"prefix": "/"});
    let manager = json!({
        "@type": typed("extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": name, "http_filters": filters, "access_log": logs,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]}});
    json!({"name": name, "address": {"pipe": {"path": place.join(name)}},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}]})
}

fn far(place: &Path) -> Value {
    let answer = json!({"direct_response": {"status": 200, "body": {"inline_string": "hello"}}});
    json!({"static_resources": {"listeners": [listener(place, "answer", &answer, &[], &[])]}})
}

fn module() -> Value {
    json!({"name": "ironsail_envoy", "do_not_close": true, "metrics_namespace": "dynamicmodulescustom"})
}

fn text(value: &Value) -> Value {
    json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": value.to_string()})
}

fn near(place: &Path) -> Value {
    let route = json!({"route": {"cluster": "far"}});
    let exchange = json!({"name": "istio.metadata_exchange", "typed_config": {
        "@type": typed("extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter"),
        "dynamic_module_config": module(), "filter_name": "peer",
        "filter_config": text(&json!({"direction": "inbound"}))}});
    let stats = json!({"name": "istio.stats", "typed_config": {
        "@type": typed("extensions.access_loggers.dynamic_modules.v3.DynamicModuleAccessLog"),
        "dynamic_module_config": module(), "logger_name": "stats",
        "logger_config": text(&json!({"reporter": "destination", "traffic": "http"}))}});
    let local =
        json!({"id": "it", "name": "it", "namespace": "here", "workload": "it", "version": "1"});
    json!({
        "node": {"id": "it", "cluster": "it", "metadata": {"WORKLOAD_NAME": "it", "NAMESPACE": "here"}},
        "layered_runtime": {"layers": [{"name": "static", "static_layer": {
            "envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix": true}}]},
        "static_resources": {
            "listeners": [
                listener(place, "bare", &route, &[], &[]),
                listener(place, "module", &route, &[exchange], &[stats]),
                listener(place, "stock", &route, &[], &[stock()]),
            ],
            "clusters": [
                {"name": "far", "type": "STATIC", "connect_timeout": "1s", "load_assignment": {
                    "cluster_name": "far", "endpoints": [{"lb_endpoints": [{"endpoint": {
                        "address": {"pipe": {"path": place.join("answer")}}}}]}]}},
                {"name": "ironsail_telemetry", "connect_timeout": "1s",
                    "lb_policy": "CLUSTER_PROVIDED", "cluster_type": {
                        "name": "envoy.clusters.dynamic_modules", "typed_config": {
                            "@type": typed("extensions.clusters.dynamic_modules.v3.ClusterConfig"),
                            "dynamic_module_config": module(), "cluster_name": "telemetry"}}},
            ],
        },
        "bootstrap_extensions": [{"name": "ironsail.telemetry", "typed_config": {
            "@type": typed("extensions.bootstrap.dynamic_modules.v3.DynamicModuleBootstrapExtension"),
            "dynamic_module_config": module(), "extension_name": "telemetry",
            "extension_config": text(&local)}}],
    })
}

/// The same metrics with the same number of labels by what Envoy itself has. Half of the labels are
/// texts that never change, which costs it least.
fn stock() -> Value {
    let fixed = (0..13).map(|at| (format!("fixed_{at}"), "unknown"));
    let asked = [
        ("response_code", "%RESPONSE_CODE%"),
        ("response_flags", "%RESPONSE_FLAGS%"),
        ("source_principal", "%DOWNSTREAM_PEER_URI_SAN%"),
        ("destination_principal", "%DOWNSTREAM_LOCAL_URI_SAN%"),
        ("request_protocol", "%PROTOCOL%"),
        ("destination_service", "%REQ(:AUTHORITY)%"),
        ("destination_service_name", "%UPSTREAM_CLUSTER%"),
        ("destination_workload", "%CEL(xds.node.metadata['WORKLOAD_NAME'])%"),
        ("destination_workload_namespace", "%CEL(xds.node.metadata['NAMESPACE'])%"),
        ("connection_security_policy", "%CEL(connection.mtls ? 'mutual_tls' : 'none')%"),
        ("source_workload", "%REQ(X-PEER)%"),
        ("grpc_response_status", "%GRPC_STATUS%"),
    ];
    let asked = asked.into_iter().map(|(name, value)| (name.to_owned(), value));
    let tags: Vec<Value> = fixed
        .chain(asked)
        .map(|(name, value)| json!({"name": name, "value_format": value}))
        .collect();
    let histogram = |name: &str, unit: &str, value: &str| json!({"stat": {"name": name, "tags": tags}, "unit": unit, "value_format": value});
    json!({"name": "stock", "typed_config": {
        "@type": typed("extensions.access_loggers.stats.v3.Config"),
        "stat_prefix": "stock",
        "counters": [{"stat": {"name": "requests", "tags": tags}, "value_fixed": 1}],
        "histograms": [
            histogram("duration", "Milliseconds", "%DURATION%"),
            histogram("request_bytes", "Bytes", "%DOWNSTREAM_WIRE_BYTES_RECEIVED%"),
            histogram("response_bytes", "Bytes", "%DOWNSTREAM_WIRE_BYTES_SENT%"),
        ],
    }})
}
