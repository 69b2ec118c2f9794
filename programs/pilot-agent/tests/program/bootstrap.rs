//! First configurations of users' own, taken by a real Envoy.

use crate::stage::{ADMIN, Stage, read};

/// As such templates are written: the parts that every proxy needs, with a cluster of its own.
const TEMPLATE: &str = r#"{
  "node": {
    "id": "{{ .nodeID }}", "cluster": "{{ .cluster }}",
    "locality": { {{- if .region }}"region": "{{ .region }}"{{ end -}} },
    "metadata": {{ .meta_json_str }}
  },
  "layered_runtime": {"layers": [{"name": "global config", "static_layer": {{ .runtime_flags }}}]},
  "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": [
    {{- range $a, $s := .inclusionPrefix }}
    {"prefix": "{{ $s }}"},
    {{- end }}
    {{- range $a, $s := .inclusionRegexps }}
    {"safe_regex": {"regex": "{{ js $s }}"}},
    {{- end }}
    {"prefix": "istio"}
  ]}}},
  "admin": {"address": {"socket_address": {"address": "{{ .localhost }}", "port_value": {{ .config.ProxyAdminPort }}}}},
  "dynamic_resources": {
    "lds_config": {"ads": {}, "resource_api_version": "V3"},
    "cds_config": {"ads": {}, "resource_api_version": "V3"},
    "ads_config": {"api_type": "{{ .xds_type }}", "transport_api_version": "V3",
      "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}]}
  },
  "static_resources": {"clusters": [
    {"name": "from-the-template", "type": "STATIC", "connect_timeout": "1s"},
    {"name": "xds-grpc", "type": "STATIC", "connect_timeout": "1s",
      "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}}}},
      "load_assignment": {"cluster_name": "xds-grpc", "endpoints": [{"lb_endpoints": [{"endpoint":
        {"address": {"pipe": {"path": "{{ .config.ConfigPath }}/XDS"}}}}]}]}}
  ]}
  {{- if .zipkin }}, "unknown": {{ .zipkin }}{{ end }}
}
"#;

const OVER: &str =
    "static_resources: {clusters: [{name: laid-over, type: STATIC, connect_timeout: 1s}]}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_and_what_is_laid_over_it_are_taken_by_envoy() {
    let stage = Stage::new();
    stage.write("template.json", TEMPLATE);
    stage.write("over.yaml", OVER);
    let variables =
        [("ISTIO_BOOTSTRAP", "template.json"), ("ISTIO_BOOTSTRAP_OVERRIDE", "over.yaml")];
    let agent = stage.start("", &variables);
    agent.is_ready().await;
    let (_, clusters) = stage.get(ADMIN, "/clusters").unwrap();
    for name in ["from-the-template", "laid-over", "xds-grpc"] {
        assert!(clusters.contains(&format!("{name}::")), "{name} is not in {clusters}");
    }
    let written = read(&stage.path("etc/istio/proxy/envoy-rev.json"));
    assert!(
        written.contains(r#""id": "sidecar~127.0.0.1~a.shop~shop.svc.cluster.local""#),
        "{written}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flag_and_the_proxys_configuration_name_a_template_too() {
    let stage = Stage::new();
    stage.write("t.yaml.tmpl", "node: {id: \"{{ .nodeID }}\"}\nadmin: {}\n");
    let config = "proxyBootstrapTemplatePath: t.yaml.tmpl";
    let mut command = stage.command(config, &[("DISABLE_ENVOY", "true")]);
    let agent = stage.start_command(command);
    agent.is_ready().await;
    drop(agent);
    let file = stage.path("etc/istio/proxy/envoy-rev.yaml");
    assert!(read(&file).starts_with("node: {id: \"sidecar~127.0.0.1~a.shop"), "{}", read(&file));
    stage.write("flag.yaml", "from: the flag\n");
    command = stage.command(config, &[("DISABLE_ENVOY", "true")]);
    command.args(["--templateFile", "flag.yaml"]);
    let agent = stage.start_command(command);
    agent.is_ready().await;
    assert_eq!(read(&file), "from: the flag\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_users_own_is_taken_as_it_is() {
    let stage = Stage::new();
    let file = TEMPLATE_FREE.replace("PORT", &ADMIN.to_string());
    stage.write("custom.json", &file);
    let agent = stage.start("customConfigFile: custom.json", &[]);
    let answer = || stage.get(ADMIN, "/clusters").filter(|(code, _)| *code == 200);
    let (_, clusters) = crate::stage::until("Envoy answers", answer).await;
    assert!(clusters.contains("mine::"), "{clusters}");
    agent.says("\"-c\", \"custom.json\"").await;
}

/// Braces that would be a template's stay what they are.
const TEMPLATE_FREE: &str = r#"{
  "node": {"id": "{{ .nodeID }}", "cluster": "c"},
  "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": PORT}}},
  "static_resources": {"clusters": [{"name": "mine", "type": "STATIC", "connect_timeout": "1s"}]}
}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_that_is_wrong_or_away_ends_with_a_line() {
    let stage = Stage::new();
    stage.write("wrong.json", "{\n{{ .nodeID | nosuch }}\n}");
    let mut agent = stage.start("", &[("ISTIO_BOOTSTRAP", "wrong.json")]);
    assert_eq!(agent.ended().await, 1);
    let line = agent.says("pilot-agent: ").await;
    assert!(line.contains("wrong.json") && line.contains("bootstrap:2"), "{line}");
    let mut agent = stage.start("", &[("ISTIO_BOOTSTRAP", "away.json")]);
    assert_eq!(agent.ended().await, 1);
    let line = agent.says("pilot-agent: ").await;
    assert!(line.contains("reading the bootstrap away.json"), "{line}");
}
