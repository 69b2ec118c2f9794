//! The real Envoy takes every file we write.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;

use ironsail_bootstrap::{
    Family, Histogram, Keepalive, Node, Remote, RemoteTls, Settings, Stats, Tracer, envoy,
};

fn settings() -> Settings {
    let node = Node {
        id: "sidecar~10.0.0.1~a.b~b.svc.cluster.local".into(),
        cluster: "a.b".into(),
        ..Node::default()
    };
    Settings {
        node,
        family: Family::V4,
        admin_port: 15000,
        prometheus_port: 15090,
        prometheus_local_only: false,
        ready_port: 15021,
        agent_port: 15020,
        xds_socket: "./etc/istio/proxy/XDS".into(),
        sds_socket: "./var/run/secrets/workload-spiffe-uds/socket".into(),
        stats: Stats { compression: true, ..Stats::default() },
        runtime: BTreeMap::new(),
        max_connections: None,
        outlier_log: None,
        log_as_json: false,
        load_stats: None,
        tracer: None,
        statsd: None,
        metrics_service: None,
        access_log_service: None,
    }
}

#[track_caller]
fn taken(settings: &Settings) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy-rev.json");
    std::fs::write(&file, envoy(settings).to_string()).unwrap();
    let mut command = ironsail_sys::exec::command("envoy");
    command.args(["--mode", "validate", "--log-level", "error", "-c"]).arg(&file);
    let output = command.output().expect("envoy is installed: scripts/setup test");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{:#}", envoy(settings));
}

#[test]
fn a_plain_proxy() {
    taken(&settings());
}

#[test]
fn a_proxy_with_everything_set() {
    let remote = |text: &str| Remote::parse("test", text).unwrap();
    let files = RemoteTls {
        ca: Some("/ca.pem".into()),
        client: Some(("/cert.pem".into(), "/key.pem".into())),
        sni: Some("collector".into()),
        subject_alt_names: vec!["collector".into()],
        ..RemoteTls::default()
    };
    let mesh = RemoteTls { mesh: true, ..RemoteTls::default() };
    let keepalive = Keepalive { probes: Some(3), time: Some(10), interval: Some(10) };
    let all = Settings {
        family: Family::V6,
        stats: Stats {
            flush_interval: Some(10),
            eviction_interval: Some(20),
            compression: true,
            prefixes: vec!["upstream".into()],
            suffixes: vec!["_rq".into()],
            regexes: vec!["http.*".into()],
            extra_tags: vec!["mine".into()],
            histograms: vec![Histogram { prefix: "istio".into(), buckets: vec![1.0, 5.0, 10.0] }],
            count_connections: true,
        },
        runtime: BTreeMap::from([("envoy.reloadable_features.x".into(), "true".into())]),
        max_connections: Some(5000),
        outlier_log: Some("/dev/stdout".into()),
        log_as_json: true,
        tracer: Some(Tracer::Zipkin(remote("zipkin:9411"))),
        statsd: Some(remote("[::1]:9125")),
        metrics_service: Some(Remote { tls: Some(files), ..remote("metrics:15000") }),
        access_log_service: Some(Remote {
            tls: Some(mesh),
            keepalive: Some(keepalive),
            ..remote("logs:15000")
        }),
        ..settings()
    };
    taken(&all);
    let datadog = Tracer::Datadog(remote("datadog:8126"));
    taken(&Settings { tracer: Some(datadog), family: Family::V4AndV6, ..settings() });
}
