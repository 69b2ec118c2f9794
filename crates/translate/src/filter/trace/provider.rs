//! Tracers that a connection manager has itself, instead of the one in the bootstrap.

use ironsail_proto::envoy::config::core::v3::{
    HeaderValue, HeaderValueOption, HttpService, HttpUri, TypedExtensionConfig,
    header_value_option::HeaderAppendAction, http_uri::HttpUpstreamType,
};
use ironsail_proto::envoy::config::trace::v3::{
    ClientConfig, DatadogConfig, OpenTelemetryConfig, SkyWalkingConfig, ZipkinConfig,
    client_config::BackendTokenSpecifier,
    tracing::{Http, http::ConfigType},
    zipkin_config::{CollectorEndpointVersion, TraceContextOption},
};
use ironsail_proto::envoy::extensions::tracers::opentelemetry::resource_detectors::v3::EnvironmentResourceDetectorConfig;
use ironsail_proto::{Name, pack};

use super::super::settings::TraceProvider;
use super::wire;

pub(super) fn http(provider: &TraceProvider) -> Http {
    match provider {
        TraceProvider::Zipkin { .. } => tracer("envoy.tracers.zipkin", &zipkin(provider)),
        TraceProvider::OtelGrpc { cluster, authority, service, timeout, metadata, environment } => {
            let mut to = wire::grpc(cluster, authority);
            to.timeout = timeout.and_then(wire::span);
            to.initial_metadata = metadata.iter().map(header).collect();
            let config = OpenTelemetryConfig {
                grpc_service: Some(to),
                service_name: service.clone(),
                resource_detectors: detectors(*environment),
                ..Default::default()
            };
            tracer("envoy.tracers.opentelemetry", &config)
        }
        TraceProvider::OtelHttp { cluster, uri, service, timeout, headers, environment } => {
            let config = OpenTelemetryConfig {
                http_service: Some(HttpService {
                    http_uri: Some(HttpUri {
                        uri: uri.clone(),
                        timeout: wire::span(*timeout),
                        http_upstream_type: Some(HttpUpstreamType::Cluster(cluster.clone())),
                    }),
                    request_headers_to_add: headers.iter().map(added).collect(),
                    ..Default::default()
                }),
                service_name: service.clone(),
                resource_detectors: detectors(*environment),
                ..Default::default()
            };
            tracer("envoy.tracers.opentelemetry", &config)
        }
        TraceProvider::Datadog { cluster, host, service } => {
            let config = DatadogConfig {
                collector_cluster: cluster.clone(),
                collector_hostname: host.clone(),
                service_name: service.clone(),
                ..Default::default()
            };
            tracer("envoy.tracers.datadog", &config)
        }
        TraceProvider::SkyWalking { cluster, authority, service, token } => {
            let token = Some(token.clone()).filter(|token| !token.is_empty());
            let client = ClientConfig {
                service_name: service.clone(),
                backend_token_specifier: token.map(BackendTokenSpecifier::BackendToken),
                ..Default::default()
            };
            let config = SkyWalkingConfig {
                grpc_service: Some(wire::grpc(cluster, authority)),
                client_config: Some(client),
            };
            tracer("envoy.tracers.skywalking", &config)
        }
    }
}

fn zipkin(provider: &TraceProvider) -> ZipkinConfig {
    let TraceProvider::Zipkin { cluster, host, path, short_ids, w3c, timeout, headers } = provider
    else {
        return ZipkinConfig::default();
    };
    let context = match w3c {
        true => TraceContextOption::UseB3WithW3cPropagation,
        false => TraceContextOption::UseB3,
    };
    let mut config = ZipkinConfig {
        trace_id_128bit: !short_ids,
        shared_span_context: wire::flag(false),
        collector_endpoint_version: CollectorEndpointVersion::HttpJson.into(),
        trace_context_option: context.into(),
        ..Default::default()
    };
    if timeout.is_none() && headers.is_empty() {
        config.collector_cluster.clone_from(cluster);
        config.collector_endpoint.clone_from(path);
        config.collector_hostname.clone_from(host);
        return config;
    }
    config.collector_service = Some(HttpService {
        http_uri: Some(HttpUri {
            uri: format!("http://{host}{path}"),
            timeout: wire::span(timeout.unwrap_or(super::super::settings::REPORT_TIMEOUT)),
            http_upstream_type: Some(HttpUpstreamType::Cluster(cluster.clone())),
        }),
        request_headers_to_add: headers.iter().map(added).collect(),
        ..Default::default()
    });
    config
}

fn tracer<M: Name>(name: &str, config: &M) -> Http {
    Http { name: name.into(), config_type: Some(ConfigType::TypedConfig(pack(config))) }
}

fn detectors(environment: bool) -> Vec<TypedExtensionConfig> {
    let environment = environment.then(|| TypedExtensionConfig {
        name: "envoy.tracers.opentelemetry.resource_detectors.environment".into(),
        typed_config: Some(pack(&EnvironmentResourceDetectorConfig::default())),
    });
    environment.into_iter().collect()
}

fn header((key, value): &(String, String)) -> HeaderValue {
    HeaderValue { key: key.clone(), value: value.clone(), ..Default::default() }
}

fn added(pair: &(String, String)) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(header(pair)),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..Default::default()
    }
}
