//! From a proxy's configuration, its annotations and where the agent's sockets are to settings.
//!
//! What cannot be used is left out and said.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ironsail_api::istio::networking::{ClientTlsMode, ClientTlsSettings};
use ironsail_api::mesh::{self, ProxyConfig, RemoteService};

use crate::{Family, Histogram, Keepalive, Node, Remote, RemoteTls, Settings, Stats, Tracer};

/// What settings come from.
pub struct Input<'a> {
    pub config: &'a ProxyConfig,
    pub node: Node,
    pub annotations: &'a BTreeMap<String, String>,
    pub family: Family,
    pub xds_socket: &'a str,
    pub sds_socket: &'a str,
    /// Where outlier events are logged; empty: nowhere.
    pub outlier_log: &'a str,
    pub log_as_json: bool,
    pub prometheus_port: u16,
    pub ready_port: u16,
    /// `ISTIO_META_GLOBAL_DOWNSTREAM_MAX_CONNECTIONS`.
    pub max_connections: Option<&'a str>,
    /// `ISTIO_META_LOAD_STATS_CONFIG_JSON`.
    pub load_stats: Option<&'a str>,
    /// The workload's addresses, which patterns of statistics may name.
    pub ips: &'a [IpAddr],
    /// The proxy ends when its last connection does.
    pub until_idle: bool,
}

const FLUSH: &str = "sidecar.istio.io/statsFlushInterval";
const EVICTION: &str = "sidecar.istio.io/statsEvictionInterval";
const PREFIXES: &str = "sidecar.istio.io/statsInclusionPrefixes";
const SUFFIXES: &str = "sidecar.istio.io/statsInclusionSuffixes";
const REGEXPS: &str = "sidecar.istio.io/statsInclusionRegexps";
const EXTRA_TAGS: &str = "sidecar.istio.io/extraStatTags";
const COMPRESSION: &str = "sidecar.istio.io/statsCompression";
const HISTOGRAMS: &str = "sidecar.istio.io/statsHistogramBuckets";
/// In the proxy's metadata: metrics are for this machine only.
const LOCAL_METRICS: &str = "METRICS_LOCALHOST_ACCESS_ONLY";
/// Stands for each of the workload's addresses.
const POD_IP: &str = "{pod_ip}";
const LIMIT_FLAG: &str = "overload.global_downstream_max_connections";

impl Settings {
    /// The settings, and what is wrong with what they come from.
    pub fn new(input: Input<'_>) -> (Self, Vec<String>) {
        let mut faults = Vec::new();
        let config = input.config;
        let stats = stats(&input, &mut faults);
        let load_stats = load_stats(input.load_stats, &mut faults);
        let tracer = tracer(config, &mut faults);
        let mut service = |what, service: &Option<RemoteService>| {
            let service = service.as_ref()?;
            let mut remote = address(what, &service.address, &mut faults)?;
            remote.tls = service.tls_settings.as_ref().and_then(tls);
            remote.keepalive = service.tcp_keepalive.as_ref().map(|keepalive| Keepalive {
                probes: Some(keepalive.probes).filter(|probes| *probes > 0),
                time: keepalive.time.map(|time| time.as_secs()),
                interval: keepalive.interval.map(|interval| interval.as_secs()),
            });
            Some(remote)
        };
        let metrics_service = service("envoyMetricsService", &config.envoy_metrics_service);
        let access_log_service = service("envoyAccessLogService", &config.envoy_access_log_service);
        let statsd = match config.statsd_udp_address.as_str() {
            "" => None,
            text => address("statsdUdpAddress", text, &mut faults),
        };
        let mut port = |what: &str, number: i32, otherwise: u16| {
            u16::try_from(number).unwrap_or_else(|_| {
                faults.push(format!("{what}: {number} is not a port"));
                otherwise
            })
        };
        let settings = Self {
            admin_port: port("proxyAdminPort", config.proxy_admin_port, 15000),
            agent_port: port("statusPort", config.status_port, 15020),
            prometheus_port: input.prometheus_port,
            prometheus_local_only: config
                .proxy_metadata
                .get(LOCAL_METRICS)
                .is_some_and(|text| text == "true"),
            ready_port: input.ready_port,
            node: input.node,
            family: input.family,
            xds_socket: input.xds_socket.to_owned(),
            sds_socket: input.sds_socket.to_owned(),
            stats,
            runtime: config.runtime_values.clone(),
            max_connections: limit(config, input.max_connections),
            outlier_log: Some(input.outlier_log.to_owned()).filter(|path| !path.is_empty()),
            log_as_json: input.log_as_json,
            load_stats,
            tracer,
            statsd,
            metrics_service,
            access_log_service,
        };
        (settings, faults)
    }
}

/// The setting that is meant for it is stronger than metadata; the user's runtime flag, which Envoy
/// itself would obey, is the strongest.
fn limit(config: &ProxyConfig, metadata: Option<&str>) -> Option<u32> {
    let flag = config.runtime_values.get(LIMIT_FLAG).and_then(|text| text.parse().ok());
    let setting = config.connection_settings.as_ref();
    let setting = || setting.and_then(|settings| settings.global_downstream_connection_limit);
    flag.or_else(setting).or_else(|| metadata.and_then(|text| text.parse().ok()))
}

fn address(what: &'static str, text: &str, faults: &mut Vec<String>) -> Option<Remote> {
    Remote::parse(what, text).map_err(|error| faults.push(error.to_string())).ok()
}

fn load_stats(text: Option<&str>, faults: &mut Vec<String>) -> Option<serde_json::Value> {
    let read = serde_json::from_str(text?);
    read.map_err(|error| faults.push(format!("ISTIO_META_LOAD_STATS_CONFIG_JSON: {error}"))).ok()
}

fn stats(input: &Input<'_>, faults: &mut Vec<String>) -> Stats {
    let (config, annotations) = (input.config, input.annotations);
    let matcher = config.proxy_stats_matcher.clone().unwrap_or_default();
    let list = |key: &str, own: Vec<String>| {
        let patterns = annotations.get(key).map_or(own, |text| words(text));
        patterns.into_iter().flat_map(|pattern| with_addresses(pattern, input.ips)).collect()
    };
    let mut seconds = |key: &str| {
        let text = annotations.get(key)?;
        match text.strip_suffix('s').and_then(|number| number.parse().ok()) {
            Some(seconds) => Some(seconds),
            None => {
                faults.push(format!("annotation {key}: {text:?} is not a number of seconds"));
                None
            }
        }
    };
    let mut stats = Stats {
        flush_interval: seconds(FLUSH),
        eviction_interval: seconds(EVICTION),
        compression: annotations
            .get(COMPRESSION)
            .map_or_else(|| config.stats_compression.unwrap_or(true), |text| text != "false"),
        prefixes: list(PREFIXES, matcher.inclusion_prefixes),
        suffixes: list(SUFFIXES, matcher.inclusion_suffixes),
        regexes: list(REGEXPS, matcher.inclusion_regexps),
        extra_tags: config.extra_stat_tags.clone(),
        histograms: Vec::new(),
        count_connections: input.until_idle,
    };
    stats
        .extra_tags
        .extend(annotations.get(EXTRA_TAGS).map(|text| words(text)).unwrap_or_default());
    stats.extra_tags.sort();
    stats.extra_tags.dedup();
    stats.extra_tags.retain(|tag| !tag.is_empty());
    if let Some(text) = annotations.get(HISTOGRAMS) {
        match serde_json::from_str::<BTreeMap<String, Vec<f64>>>(text) {
            Ok(all) => {
                let one = |(prefix, buckets)| Histogram { prefix, buckets };
                stats.histograms = all.into_iter().map(one).collect();
            }
            Err(error) => faults.push(format!("annotation {HISTOGRAMS}: {error}")),
        }
    }
    if let Err(error) = stats.check() {
        faults.push(format!("annotation {EVICTION}: {error}"));
        stats.eviction_interval = None;
    }
    stats
}

/// One pattern for each address if it names them.
fn with_addresses(pattern: String, ips: &[IpAddr]) -> Vec<String> {
    match pattern.contains(POD_IP) {
        true => ips.iter().map(|ip| pattern.replace(POD_IP, &ip.to_string())).collect(),
        false => vec![pattern],
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn tracer(config: &ProxyConfig, faults: &mut Vec<String>) -> Option<Tracer> {
    let tracing = config.tracing.as_ref()?;
    let tls = || tracing.tls_settings.as_ref().and_then(tls);
    match &tracing.tracer {
        mesh::Tracer::Zipkin(zipkin) if !zipkin.address.is_empty() => {
            let remote = address("tracing.zipkin.address", &zipkin.address, faults)?;
            Some(Tracer::Zipkin(Remote { tls: tls(), ..remote }))
        }
        mesh::Tracer::Datadog(datadog) if !datadog.address.is_empty() => {
            let remote = address("tracing.datadog.address", &datadog.address, faults)?;
            Some(Tracer::Datadog(Remote { tls: tls(), ..remote }))
        }
        mesh::Tracer::Lightstep(_) => not_here("lightstep", faults),
        mesh::Tracer::Stackdriver(_) => not_here("stackdriver", faults),
        mesh::Tracer::OpenCensusAgent(_) => not_here("openCensusAgent", faults),
        _ => None,
    }
}

fn not_here(name: &str, faults: &mut Vec<String>) -> Option<Tracer> {
    faults.push(format!("tracing.{name}: Envoy has no such tracer any more; use opentelemetry"));
    None
}

fn tls(settings: &ClientTlsSettings) -> Option<RemoteTls> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let client = some(&settings.client_certificate).zip(some(&settings.private_key));
    match settings.mode {
        ClientTlsMode::Disable => None,
        mode => Some(RemoteTls {
            ca: some(&settings.ca_certificates),
            client: client.filter(|_| mode == ClientTlsMode::Mutual),
            mesh: mode == ClientTlsMode::IstioMutual,
            sni: some(&settings.sni),
            subject_alt_names: settings.subject_alt_names.clone(),
        }),
    }
}
