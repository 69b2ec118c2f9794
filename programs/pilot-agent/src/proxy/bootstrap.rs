//! The files that Envoy and gRPC clients beside it are started with.
//!
//! In: settings; out: `grpc-bootstrap.json`, and Envoy's first configuration: ours, what a template of
//! the user makes, or a file of the user as it is; and YAML that is laid over it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ironsail_api::wire::Wire;
use ironsail_bootstrap::{Input, Node, Settings, Template};
use ironsail_names::port;
use ironsail_telemetry::config as telemetry;
use tracing::warn;

use super::config::Config;
use super::node::Facts;

/// Longest template or YAML of a user.
const MAX_FILE: u64 = 4 << 20;

/// What Envoy is told to read.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) file: PathBuf,
    /// YAML over it.
    pub(crate) over: Option<String>,
}

pub(crate) fn write(config: &Config, log_as_json: bool) -> anyhow::Result<Written> {
    let folder = &config.config_folder;
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let node = node(config);
    let certificates = config.proof.output_certs.as_ref().map(|path| absolute(path));
    let socket = absolute(&folder.join("XDS"));
    let grpc = ironsail_bootstrap::grpc(&node, &socket, certificates.as_deref());
    put(&folder.join("grpc-bootstrap.json"), &format!("{grpc:#}\n"))?;
    let over = config.bootstrap.over.as_deref().and_then(over);
    if let Some(file) = &config.bootstrap.file {
        // Read here only to say clearly what is wrong with it.
        read(file)?;
        return Ok(Written { file: file.clone(), over });
    }
    let settings = settings(config, node, log_as_json);
    let (file, text) = match &config.bootstrap.template {
        None => {
            let file = format!("{:#}\n", ironsail_bootstrap::envoy(&settings));
            (folder.join("envoy-rev.json"), file)
        }
        Some(path) => (folder.join(output(path)), from_template(config, &settings, path)?),
    };
    put(&file, &text)?;
    Ok(Written { file: clean(&file), over })
}

/// Envoy tells the format by the name.
fn output(template: &Path) -> &'static str {
    let name = template.file_name().unwrap_or_default().to_string_lossy();
    match name.ends_with(".yaml") || name.ends_with(".yaml.tmpl") {
        true => "envoy-rev.yaml",
        false => "envoy-rev.json",
    }
}

fn from_template(config: &Config, settings: &Settings, path: &Path) -> anyhow::Result<String> {
    let root = config.proof.xds_root.as_deref().map(|path| path.display().to_string());
    let template = Template {
        settings,
        config: &config.proxy.write(),
        discovery_address: &config.discovery,
        pilot_names: &[discovery_host(config).to_owned()],
        xds_root: root.as_deref().unwrap_or_default(),
    };
    template.render(&read(path)?).with_context(|| path.display().to_string())
}

/// One that cannot be read is left out, as people are used to.
fn over(path: &Path) -> Option<String> {
    read(path).map_err(|error| warn!(target: "agent", "ISTIO_BOOTSTRAP_OVERRIDE: {error:#}")).ok()
}

fn read(path: &Path) -> anyhow::Result<String> {
    let what = || format!("reading the bootstrap {}", path.display());
    let size = std::fs::metadata(path).with_context(what)?.len();
    anyhow::ensure!(size <= MAX_FILE, "{} is larger than {MAX_FILE} bytes", path.display());
    std::fs::read_to_string(path).with_context(what)
}

fn settings(config: &Config, node: Node, log_as_json: bool) -> Settings {
    let variable = |name: &str| config.environment.get(name).map(String::as_str);
    let (settings, faults) = Settings::new(Input {
        config: &config.proxy,
        node,
        annotations: &config.annotations,
        family: config.family(),
        xds_socket: &config.config_folder.join("XDS").display().to_string(),
        sds_socket: &config.sds_socket.display().to_string(),
        outlier_log: &config.outlier_log,
        log_as_json,
        prometheus_port: port::PROXY_METRICS,
        ready_port: port::HEALTH,
        max_connections: variable("ISTIO_META_GLOBAL_DOWNSTREAM_MAX_CONNECTIONS"),
        load_stats: variable("ISTIO_META_LOAD_STATS_CONFIG_JSON"),
        ips: &config.ips,
        until_idle: config.drain.until_idle.is_some(),
    });
    faults.iter().for_each(|fault| warn!(target: "agent", "{fault}"));
    settings
}

fn discovery_host(config: &Config) -> &str {
    config.discovery.rsplit_once(':').map_or(config.discovery.as_str(), |(host, _)| host)
}

pub(crate) fn node(config: &Config) -> Node {
    let mut node = Facts {
        role: config.role,
        ips: &config.ips,
        name: &config.name,
        namespace: &config.namespace,
        service_account: &config.service_account,
        domain: &config.domain,
        labels: &config.labels,
        annotations: &config.annotations,
        config: &config.proxy,
        config_json: config.proxy.write(),
        environment: &config.environment,
        prometheus_port: port::PROXY_METRICS,
        ready_port: port::HEALTH,
        outlier_log: &config.outlier_log,
        pilot_names: &[discovery_host(config).to_owned()],
    }
    .node();
    if module_folder().is_some() {
        node.metadata.insert(telemetry::NODE_KEY.to_owned(), telemetry::NODE_VALUE.into());
    }
    node
}

/// Where the module lies that Envoy counts the mesh's metrics with: beside this program.
pub(crate) fn module_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    folder.join(format!("lib{}.so", telemetry::MODULE)).exists().then(|| folder.to_owned())
}

/// `./etc/x` as process lists show it.
fn clean(path: &Path) -> PathBuf {
    path.strip_prefix(".").unwrap_or(path).to_owned()
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
