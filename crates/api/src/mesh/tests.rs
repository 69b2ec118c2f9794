//! Defaults, and what is put over them.

use std::time::Duration;

use serde_json::json;

use super::*;

#[test]
fn an_empty_text_gives_istios_defaults() {
    let Read { value: mesh, problems } = MeshConfig::parse(&Value::Null);
    assert_eq!(problems, []);
    assert_eq!(mesh.root_namespace, "istio-system");
    assert_eq!(mesh.trust_domain, "cluster.local");
    assert_eq!(mesh.enable_auto_mtls, Some(true));
    assert_eq!(mesh.default_config.discovery_address, "istiod.istio-system.svc:15012");
    assert_eq!(mesh.default_config.drain_duration, Some(Duration::from_secs(45)));
    assert_eq!(mesh.default_config.status_port, 15020);
    assert_eq!(mesh.default_config.concurrency, None);
    assert_eq!(mesh.extension_providers.len(), 3);
}

#[test]
fn fields_replace_defaults_and_the_proxies_config_is_merged() {
    let text = json!({
        "accessLogFile": "/dev/stdout",
        "enableTracing": false,
        "meshMTLS": {"minProtocolVersion": "TLSV1_3"},
        "defaultConfig": {"proxyMetadata": {"A": "1"}, "discoveryAddress": "x:1", "terminationDrainDuration": "9s"},
        "extensionProviders": [{"name": "authz", "envoyExtAuthzGrpc": {"service": "a.b", "port": "9000"}}],
    });
    let Read { value: mesh, problems } = MeshConfig::parse(&text);
    assert_eq!(problems, []);
    assert_eq!(mesh.access_log_file, "/dev/stdout");
    assert!(!mesh.enable_tracing);
    assert_eq!(mesh.default_config.status_port, 15020);
    assert_eq!(mesh.default_config.termination_drain_duration, Some(Duration::from_secs(9)));
    let Provider::EnvoyExtAuthzGrpc(authz) = &mesh.extension_providers[3].provider else {
        panic!("another provider")
    };
    assert_eq!(authz.port, 9000);
    let pod = json!({"proxyMetadata": {"B": "2"}, "concurrency": 0});
    let proxy = mesh.default_config.overlaid(&pod).value;
    assert_eq!(proxy.proxy_metadata.len(), 2);
    assert_eq!(proxy.concurrency, Some(0));
    assert_eq!(proxy.discovery_address, "x:1");
}

#[test]
fn mistakes_are_named_with_their_place() {
    let text = json!({"defaultConfig": {"drainDuration": "x", "nope": 1}, "rootNamespaec": "a"});
    let fields: Vec<_> =
        MeshConfig::parse(&text).problems.into_iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["defaultConfig.drainDuration", "defaultConfig.nope", "rootNamespaec"]);
}

#[test]
fn what_is_written_reads_the_same() {
    let text = json!({"enableTracing": false, "defaultConfig": {"statusPort": 1}});
    let mesh = MeshConfig::parse(&text).value;
    assert_eq!(MeshConfig::parse(&mesh.write()).value, mesh);
}

#[test]
fn providers_are_merged_by_name() {
    let text = json!({
        "extensionProviders": [{"name": "envoy", "envoyFileAccessLog": {"path": "/x"}}, {"name": "z", "zipkin": {}}],
        "defaultProviders": {"metrics": ["prometheus"]},
        "trustDomainAliases": ["b", "a", "b"],
    });
    let mesh = MeshConfig::parse(&text).value;
    let names: Vec<_> = mesh.extension_providers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["prometheus", "stackdriver", "envoy", "z"]);
    assert!(
        matches!(&mesh.extension_providers[2].provider, Provider::EnvoyFileAccessLog(log) if log.path == "/x")
    );
    let again = mesh
        .overlaid(&json!({"defaultProviders": {"tracing": ["z"]}, "trustDomainAliases": ["c"]}))
        .value;
    assert_eq!(again.default_providers.unwrap().metrics, ["prometheus"]);
    assert_eq!(again.trust_domain_aliases, ["a", "b", "c"]);
}

#[test]
fn the_defaults_have_no_faults_and_bad_settings_are_named() {
    assert_eq!(MeshConfig::default().faults(), []);
    let text = json!({
        "trustDomain": "a_b", "proxyListenPort": 0, "connectTimeout": "0s",
        "extensionProviders": [{"name": "x"}, {"name": "z", "zipkin": {"service": "a/b.c", "port": 0}}],
        "defaultConfig": {"discoveryAddress": "nowhere", "drainDuration": "1.5s"},
    });
    let fields: Vec<_> =
        MeshConfig::parse(&text).value.faults().into_iter().map(|fault| fault.field).collect();
    assert_eq!(
        fields,
        [
            "proxyListenPort",
            "connectTimeout",
            "trustDomain",
            "extensionProviders[3]",
            "extensionProviders[4].port",
            "defaultConfig.drainDuration",
            "defaultConfig.discoveryAddress"
        ]
    );
    let networks = json!({"networks": {"n": {"endpoints": [{"fromCidr": "x"}], "gateways": [{"address": "1.1.1.1", "port": 15443}]}}});
    assert_eq!(MeshNetworks::parse(&networks).value.faults().len(), 1);
}
