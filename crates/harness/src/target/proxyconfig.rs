//! `PROXY_CONFIG` and the annotations beside it: whatever they say, there is a bootstrap, and the same
//! one each time.

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use ironsail_api::mesh::MeshConfig;
use ironsail_bootstrap::{Family, Input, Node, Settings, envoy};
use serde_json::{Value, json};

use crate::json;

const ANNOTATIONS: &[&str] = &[
    "sidecar.istio.io/statsFlushInterval",
    "sidecar.istio.io/statsEvictionInterval",
    "sidecar.istio.io/statsInclusionPrefixes",
    "sidecar.istio.io/statsInclusionRegexps",
    "sidecar.istio.io/extraStatTags",
    "sidecar.istio.io/statsCompression",
    "sidecar.istio.io/statsHistogramBuckets",
];

fn made(u: &mut Unstructured<'_>) -> Result<(String, BTreeMap<String, String>)> {
    let mut config = json!({"concurrency": 2, "proxyAdminPort": 15000, "statusPort": 15020,
        "discoveryAddress": "istiod:15012", "drainDuration": "45s", "terminationDrainDuration": "5s",
        "statsdUdpAddress": "10.0.0.1:8125", "proxyMetadata": {"A": "b"},
        "runtimeValues": {"a": "true", "b": "7"},
        "tracing": {"zipkin": {"address": "zipkin:9411"}, "sampling": 10.5},
        "envoyMetricsService": {"address": "m:15000", "tcpKeepalive": {"probes": 3, "time": "10s"}},
        "envoyAccessLogService": {"address": "[::1]:1", "tlsSettings": {"mode": "MUTUAL"}},
        "proxyStatsMatcher": {"inclusionPrefixes": ["a"], "inclusionRegexps": ["("]}});
    for _ in 0..u.int_in_range(0..=4)? {
        let json::Json(with) = u.arbitrary()?;
        json::graft(u, &mut config, with)?;
    }
    let mut annotations = BTreeMap::new();
    for _ in 0..u.int_in_range(0..=3)? {
        let (name, json::Json(value)) = (*u.choose(ANNOTATIONS)?, u.arbitrary()?);
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        annotations.insert(name.to_owned(), value);
    }
    Ok((config.to_string(), annotations))
}

fn start(text: &str, annotations: &BTreeMap<String, String>) -> Option<Value> {
    let own = ironsail_yaml::documents(text).ok()?.into_iter().next()?;
    let config = MeshConfig::default().default_config.overlaid(&own).value;
    let node = Node {
        id: "sidecar~10.0.0.1~a.b~b.svc.cluster.local".to_owned(),
        cluster: "a.b".to_owned(),
        locality: ironsail_names::Locality::default(),
        metadata: serde_json::Map::new(),
    };
    let (settings, _) = Settings::new(Input {
        config: &config,
        node,
        annotations,
        family: Family::V4,
        xds_socket: "xds",
        sds_socket: "sds",
        outlier_log: "",
        log_as_json: false,
        prometheus_port: 15090,
        ready_port: 15021,
        max_connections: None,
        load_stats: None,
        ips: &[],
        until_idle: false,
    });
    Some(envoy(&settings))
}

pub(crate) fn target(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = start(text, &BTreeMap::new());
    }
    if let Ok((text, annotations)) = made(&mut Unstructured::new(bytes)) {
        let first = start(&text, &annotations);
        assert_eq!(first, start(&text, &annotations), "the same settings, the same file");
    }
}
