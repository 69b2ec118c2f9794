//! Access logs as OpenTelemetry's log records, over gRPC.

use ironsail_proto::envoy::config::accesslog::v3::AccessLog;
use ironsail_proto::envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig;
use ironsail_proto::opentelemetry::proto::common::v1::{
    AnyValue, KeyValue, KeyValueList, any_value,
};

use super::super::settings::Sink;
use super::super::wire;

pub(super) fn log(sink: &Sink) -> Option<AccessLog> {
    let Sink::Otel { cluster, authority, log_name, text, labels } = sink else { return None };
    let body = match text.as_str() {
        "" => super::TEXT.trim_end(),
        own => own,
    };
    let values = labels
        .iter()
        .map(|(key, format)| KeyValue {
            key: key.clone(),
            value: Some(said(format)),
            ..Default::default()
        })
        .collect();
    let config = OpenTelemetryAccessLogConfig {
        grpc_service: Some(wire::grpc(cluster, authority)),
        log_name: log_name.clone(),
        body: Some(said(body)),
        attributes: Some(KeyValueList { values }),
        formatters: super::formatters(body),
        ..Default::default()
    };
    Some(super::log("envoy.access_loggers.open_telemetry", &config))
}

fn said(text: &str) -> AnyValue {
    AnyValue { value: Some(any_value::Value::StringValue(text.to_owned())) }
}
