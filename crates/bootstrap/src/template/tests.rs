//! Small templates, each for one thing that such templates use.

use ironsail_api::mesh::ProxyConfig;
use ironsail_api::wire::Wire;
use serde_json::json;

use super::*;
use crate::{Family, Input, Node};

fn render(config: &Value, family: Family, text: &str) -> Result<String, TemplateError> {
    let config = ProxyConfig::default().overlaid(config).value;
    let metadata = json!({"NAMESPACE": "shop", "INSTANCE_IPS": "10.0.0.1,fd00::1"});
    let (settings, _) = Settings::new(Input {
        config: &config,
        node: Node {
            id: "sidecar~10.0.0.1~a.shop~shop.svc.cluster.local".into(),
            cluster: "a.shop".into(),
            locality: ironsail_names::Locality::from_label("r.z").unwrap_or_default(),
            metadata: metadata.as_object().cloned().unwrap_or_default(),
        },
        annotations: &std::collections::BTreeMap::new(),
        family,
        xds_socket: "./etc/istio/proxy/XDS",
        sds_socket: "./var/run/secrets/workload-spiffe-uds/socket",
        outlier_log: "",
        log_as_json: false,
        prometheus_port: 15090,
        ready_port: 15021,
        max_connections: None,
        load_stats: None,
        ips: &[],
        until_idle: false,
    });
    let template = Template {
        settings: &settings,
        config: &config.write(),
        discovery_address: "istiod.istio-system.svc:15012",
        pilot_names: &["istiod.istio-system.svc".to_owned()],
        xds_root: "/root.pem",
    };
    template.render(text)
}

fn plain(text: &str) -> String {
    render(&json!({}), Family::V4, text).unwrap()
}

#[test]
fn a_template_finds_the_proxy_under_the_names_it_knows() {
    assert_eq!(
        plain("{{ .nodeID }} {{ .nodeType }}"),
        "sidecar~10.0.0.1~a.shop~shop.svc.cluster.local sidecar"
    );
    assert_eq!(
        plain("{{ .cluster }}/{{ .region }}/{{ .zone }}/{{ if .sub_zone }}x{{ end }}"),
        "a.shop/r/z/"
    );
    assert_eq!(
        plain("{{ .metadata.Namespace }} {{ index .metadata.InstanceIPs 1 }}"),
        "shop fd00::1"
    );
    assert_eq!(
        plain("{{ .meta_json_str }}"),
        r#"{"INSTANCE_IPS":"10.0.0.1,fd00::1","NAMESPACE":"shop"}"#
    );
    assert_eq!(
        plain("{{ .discovery_address }} {{ .discovery_host }}"),
        "istiod.istio-system.svc:15012 istiod.istio-system.svc"
    );
    assert_eq!(plain("{{ .pilot_SAN }}"), r#"[{"exact":"istiod.istio-system.svc"}]"#);
}

#[test]
fn a_template_finds_the_proxys_configuration_in_gos_names() {
    assert_eq!(plain("{{ .config.ProxyAdminPort }} {{ .config.StatusPort }}"), "15000 15020");
    assert_eq!(
        plain("{{ .config.ConfigPath }}/XDS [{{ .config.StatsdUdpAddress }}]"),
        "./etc/istio/proxy/XDS []"
    );
    let config = json!({
        "proxyMetadata": {"myKey": "v"},
        "tracing": {"zipkin": {"address": "zipkin:9411"}},
        "runtimeValues": {"re2.max_program_size.error_level": "", "mine": "true"},
    });
    let text = "{{ .config.ProxyMetadata.myKey }} {{ .zipkin }}";
    let rendered = render(&config, Family::V4, text).unwrap();
    assert_eq!(rendered, r#"v {"address":"zipkin","port_value":9411}"#);
    let flags = render(&config, Family::V4, "{{ .runtime_flags }}").unwrap();
    assert!(flags.contains(r#""mine":true"#) && !flags.contains("re2"), "{flags}");
}

#[test]
fn a_template_knows_the_families_of_addresses() {
    let text = "{{ .localhost }} {{ .wildcard }} {{ .dns_lookup_family }}{{ if .dual_stack }} {{ .additional_wildcard }}{{ end }}";
    let of = |family| render(&json!({}), family, text).unwrap();
    assert_eq!(of(Family::V4), "127.0.0.1 0.0.0.0 V4_ONLY");
    assert_eq!(of(Family::V6), "::1 :: V6_ONLY");
    assert_eq!(of(Family::V4AndV6), "127.0.0.1 0.0.0.0 ALL ::");
    assert_eq!(of(Family::V6AndV4), "::1 :: ALL 0.0.0.0");
}

#[test]
fn lists_are_ranged_over_and_functions_work() {
    assert_eq!(
        plain("{{ range $i, $s := .inclusionSuffix }}{{ if $i }},{{ end }}{{ $s }}{{ end }}"),
        "rbac.allowed,rbac.denied,shadow_allowed,shadow_denied"
    );
    assert_eq!(plain(r#"{{ index .inclusionRegexps 0 | js }}"#), r"vhost\\..*\\.route\\..*");
    assert_eq!(plain("{{ toJSON .histogram_buckets }}{{ toJSON .nothing }}"), "[]{}");
    assert_eq!(plain("{{ .cluster | upper }}"), "A.SHOP");
}

#[test]
fn a_template_that_is_wrong_says_where() {
    let why = |text| render(&json!({}), Family::V4, text).unwrap_err().to_string();
    assert!(why("\n{{ if }}").starts_with("the bootstrap template: "), "{}", why("\n{{ if }}"));
    assert!(why("\n{{ if }}").contains("bootstrap:2"), "{}", why("\n{{ if }}"));
    assert!(why("{{ .config.ProxyAdminPort.x }}").contains("ProxyAdminPort"));
}
