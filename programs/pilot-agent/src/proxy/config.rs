//! Everything `pilot-agent proxy` depends on: flags over variables over files over defaults.
//!
//! In: the command line, the environment and the pod's files; out: settings, or all that is wrong with
//! them at once. Paths are relative to the folder the agent is started in, as the images have it.

mod proof;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ironsail_api::mesh::{MeshConfig, ProxyClusterName, ProxyConfig};
use ironsail_bootstrap::Family;
use ironsail_sys::env::Env;

pub(crate) use proof::Proof;

use super::{drain::Drain, pod};
use crate::args::Proxy;
use ironsail_daemon::duration;

const POD: &str = "./etc/istio/pod";
const MESH: &str = "./etc/istio/config/mesh";
const SDS_FOLDER: &str = "./var/run/secrets/workload-spiffe-uds";

const STS: &str = "--stsPort: an exchange of tokens works with Google's services only and is not \
                   supported; leave it 0";

/// Probes go to localhost, as they did long ago.
const LEGACY_PROBES: &str = "REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION";

pub(crate) struct Config {
    pub(crate) role: &'static str,
    pub(crate) domain: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) service_account: String,
    pub(crate) ips: Vec<IpAddr>,
    pub(crate) proof: Proof,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) proxy: ProxyConfig,
    pub(crate) concurrency: Option<u32>,
    pub(crate) log_level: String,
    pub(crate) component_log_level: String,
    pub(crate) outlier_log: String,
    pub(crate) bootstrap: Bootstrap,
    pub(crate) config_folder: PathBuf,
    pub(crate) sds_socket: PathBuf,
    pub(crate) discovery: String,
    pub(crate) drain: Drain,
    pub(crate) probes: Option<String>,
    pub(crate) application_metrics: Option<String>,
    pub(crate) dns: Option<String>,
    pub(crate) run_proxy: bool,
    /// Silence after which the proxy counts as hanging; zero: never.
    pub(crate) hang_after: Duration,
    dual_stack: bool,
}

/// Where the proxy's first configuration comes from, if not from us.
#[derive(Debug, Default)]
pub(crate) struct Bootstrap {
    /// A file that the proxy gets as it is.
    pub(crate) file: Option<PathBuf>,
    /// A template of the file.
    pub(crate) template: Option<PathBuf>,
    /// A file that is laid over whatever the proxy gets.
    pub(crate) over: Option<PathBuf>,
    /// The control plane makes it (`BOOTSTRAP_XDS_AGENT`).
    pub(crate) ask: bool,
}

impl Bootstrap {
    /// Neither a file nor a template of the user.
    pub(crate) fn is_own(&self) -> bool {
        self.file.is_none() && self.template.is_none()
    }
}

/// Collects what is wrong instead of stopping at the first.
struct Gather<'a> {
    environment: &'a BTreeMap<String, String>,
    faults: Vec<String>,
}

impl Gather<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    fn flag(&mut self, name: &str) -> bool {
        match self.text(name) {
            None | Some("false" | "0" | "f") => false,
            Some("true" | "1" | "t") => true,
            Some(other) => {
                self.faults.push(format!("{name}: {other:?} is neither true nor false"));
                false
            }
        }
    }

    fn duration(&mut self, name: &str, otherwise: Duration) -> Duration {
        match self.text(name).map(duration::parse) {
            None => otherwise,
            Some(Ok(duration)) => duration,
            Some(Err(error)) => {
                self.faults.push(format!("{name}: {error}"));
                otherwise
            }
        }
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str, otherwise: T) -> T {
        match self.text(name).map(str::parse) {
            None => otherwise,
            Some(Ok(number)) => number,
            Some(Err(_)) => {
                let text = self.text(name).unwrap_or_default().to_owned();
                self.faults.push(format!("{name}: {text:?} is not a number that fits"));
                otherwise
            }
        }
    }

    fn parsed<T, E: std::fmt::Display>(&mut self, what: &str, read: Result<T, E>) -> Option<T> {
        read.map_err(|error| self.faults.push(format!("{what}: {error}"))).ok()
    }
}

impl Config {
    pub(crate) fn gather(args: &Proxy, env: &Env) -> Result<Self, Vec<String>> {
        let mut environment: BTreeMap<String, String> =
            env.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let annotations = pod::read(&Path::new(POD).join("annotations"));
        let mut faults = Vec::new();
        let mut proxy = proxy_config(&environment, args.mesh_config.as_deref(), &mut faults);
        if let Some(name) = &args.service_cluster {
            proxy.cluster_name = ProxyClusterName::ServiceCluster(name.clone());
        }
        for (key, value) in &proxy.proxy_metadata {
            environment.entry(key.clone()).or_insert_with(|| value.clone());
        }
        let mut gather = Gather { environment: &environment, faults };
        let ips = addresses(&mut gather);
        let namespace = gather.text("POD_NAMESPACE").unwrap_or("default").to_owned();
        let service_account = gather.text("SERVICE_ACCOUNT").unwrap_or("default").to_owned();
        let domain = args.domain.clone().filter(|domain| !domain.is_empty());
        let discovery = proxy.discovery_address.clone();
        let least_drain = gather.duration("MINIMUM_DRAIN_DURATION", Duration::from_secs(5));
        let until_idle = gather.flag("EXIT_ON_ZERO_ACTIVE_CONNECTIONS").then_some(least_drain);
        if args.sts_port != 0 {
            gather.faults.push(STS.to_owned());
        }
        let proof = Proof::gather(&mut gather, &discovery, &namespace, &service_account);
        let concurrency = concurrency(args, &proxy, &mut gather);
        let config = Self {
            role: match args.role.as_deref() {
                Some("router") => "router",
                _ => "sidecar",
            },
            domain: domain.unwrap_or_else(|| format!("{namespace}.svc.cluster.local")),
            name: gather.text("POD_NAME").unwrap_or("pod").to_owned(),
            ips,
            labels: pod::read(&Path::new(POD).join("labels")),
            annotations,
            concurrency,
            log_level: args.proxy_log_level.clone(),
            component_log_level: args.proxy_component_log_level.clone(),
            outlier_log: args.outlier_log_path.clone(),
            bootstrap: bootstrap(args, &proxy, &mut gather),
            config_folder: proxy.config_path.clone().into(),
            sds_socket: Path::new(SDS_FOLDER)
                .join(gather.text("WORKLOAD_IDENTITY_SOCKET_FILE").unwrap_or("socket")),
            proof,
            drain: Drain {
                duration: proxy.termination_drain_duration.unwrap_or(Duration::from_secs(5)),
                until_idle,
            },
            probes: gather.text("ISTIO_KUBE_APP_PROBERS").map(str::to_owned),
            application_metrics: gather.text("ISTIO_PROMETHEUS_ANNOTATIONS").map(str::to_owned),
            dns: gather
                .flag("ISTIO_META_DNS_CAPTURE")
                .then(|| gather.text("DNS_PROXY_ADDR").unwrap_or("localhost:15053").to_owned()),
            run_proxy: !gather.flag("DISABLE_ENVOY"),
            hang_after: gather.duration("PROXY_HANG_TIMEOUT", Duration::from_secs(60)),
            dual_stack: gather.text("ISTIO_DUAL_STACK").is_none()
                || gather.flag("ISTIO_DUAL_STACK"),
            discovery,
            namespace,
            service_account,
            proxy,
            environment: BTreeMap::new(),
        };
        match gather.faults {
            faults if faults.is_empty() => Ok(Self { environment, ..config }),
            faults => Err(faults),
        }
    }

    /// Applications are asked under the pod's address unless the user has it otherwise.
    pub(crate) fn probes_by_address(&self) -> bool {
        self.environment.get(LEGACY_PROBES).is_none_or(|text| text != "true")
    }

    /// Both only if the workload has both and nobody turned that off; then the first one leads.
    pub(crate) fn family(&self) -> Family {
        let v6 = self.ips.iter().filter(|ip| ip.is_ipv6()).count();
        match (v6, self.ips.first()) {
            (0, _) | (_, None) => Family::V4,
            (v6, _) if v6 == self.ips.len() => Family::V6,
            _ if !self.dual_stack => Family::V4,
            (_, Some(IpAddr::V6(_))) => Family::V6AndV4,
            (_, Some(IpAddr::V4(_))) => Family::V4AndV6,
        }
    }

    pub(crate) fn is_ipv6_first(&self) -> bool {
        matches!(self.family(), Family::V6 | Family::V6AndV4)
    }
}

/// A variable is stronger than the proxy's configuration, a whole file stronger than a template.
fn bootstrap(args: &Proxy, proxy: &ProxyConfig, gather: &mut Gather<'_>) -> Bootstrap {
    let some = |text: &str| Some(PathBuf::from(text)).filter(|_| !text.is_empty());
    let template = gather.text("ISTIO_BOOTSTRAP").map(PathBuf::from);
    Bootstrap {
        file: some(&proxy.custom_config_file),
        template: template
            .or_else(|| args.template_file.clone())
            .or_else(|| some(&proxy.proxy_bootstrap_template_path)),
        over: gather.text("ISTIO_BOOTSTRAP_OVERRIDE").map(PathBuf::from),
        ask: gather.flag("BOOTSTRAP_XDS_AGENT"),
    }
}

/// The mesh's defaults, then the mesh's file, then `PROXY_CONFIG`.
fn proxy_config(
    environment: &BTreeMap<String, String>,
    mesh_file: Option<&Path>,
    faults: &mut Vec<String>,
) -> ProxyConfig {
    let mut read = |what: &str, text: &str| match ironsail_yaml::documents(text) {
        Ok(documents) => documents.into_iter().next(),
        Err(error) => {
            faults.push(format!("{what}: {error}"));
            None
        }
    };
    let path = mesh_file.unwrap_or(Path::new(MESH));
    let mesh = std::fs::read_to_string(path).ok();
    let mesh = mesh.and_then(|text| read(&path.display().to_string(), &text));
    let own = environment.get("PROXY_CONFIG").and_then(|text| read("PROXY_CONFIG", text));
    let mesh = MeshConfig::parse(&mesh.unwrap_or_default());
    let proxy = mesh.value.default_config.overlaid(&own.unwrap_or_default());
    let problems = mesh.problems.iter().map(|problem| (path.display().to_string(), problem));
    let own = proxy.problems.iter().map(|problem| ("PROXY_CONFIG".to_owned(), problem));
    for (what, problem) in problems.chain(own) {
        match &problem.what {
            // A newer control plane may know more than this agent.
            ironsail_api::wire::What::Unknown => {
                tracing::warn!(target: "agent", "{what}: {} is not known", problem.field);
            }
            ironsail_api::wire::What::Invalid(why) => {
                faults.push(format!("{what}: {}: {why}", problem.field));
            }
        }
    }
    proxy.value
}

fn addresses(gather: &mut Gather<'_>) -> Vec<IpAddr> {
    let all = gather.text("INSTANCE_IPS").or_else(|| gather.text("INSTANCE_IP"));
    let all = all.unwrap_or_default().to_owned();
    let mut ips = Vec::new();
    for word in all.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word.parse() {
            Ok(ip) => ips.push(ip),
            Err(_) => gather.faults.push(format!("INSTANCE_IP: {word:?} is not an IP address")),
        }
    }
    // A pod is told only one of its addresses.
    if ips.is_empty() || gather.flag("ISTIO_DUAL_STACK") {
        let mut own = ironsail_sys::interface::addresses().unwrap_or_default();
        own.retain(|ip| !ip.is_loopback() && !is_link_local(ip) && !is_passthrough(ip));
        own.retain(|ip| !ips.contains(ip));
        ips.append(&mut own);
    }
    ips
}

/// `::6` is on the loopback link because `istio-iptables` put it there.
fn is_passthrough(ip: &IpAddr) -> bool {
    *ip == IpAddr::from([0, 0, 0, 0, 0, 0, 0, 6_u16])
}

fn is_link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Flag, then proxy config, then the CPU limit of the container; 0 is one thread a core.
fn concurrency(args: &Proxy, proxy: &ProxyConfig, gather: &mut Gather<'_>) -> Option<u32> {
    let limit = gather.number::<u32>("ISTIO_CPU_LIMIT", 0);
    let set = args.concurrency.or_else(|| proxy.concurrency.and_then(|n| u32::try_from(n).ok()));
    match (set, limit) {
        (Some(0), _) => None,
        (Some(number), _) => Some(number),
        (None, 0) => None,
        (None, limit) => Some(limit),
    }
}
