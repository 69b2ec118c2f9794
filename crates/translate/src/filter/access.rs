//! Access logs: Istio's line or JSON fields, or what the mesh configuration says instead.
//!
//! The format is the users' interface: dashboards and scripts read it. Operators that need a formatter
//! extension get it.

mod otel;

use ironsail_proto::envoy::config::accesslog::v3::{
    AccessLog, AccessLogFilter, AndFilter, ExtensionFilter, LogTypeFilter, ResponseFlagFilter,
    access_log::ConfigType, access_log_filter::FilterSpecifier, extension_filter,
};
use ironsail_proto::envoy::config::core::v3::{
    ApiVersion, DataSource, SubstitutionFormatString, TypedExtensionConfig, data_source::Specifier,
    substitution_format_string::Format,
};
use ironsail_proto::envoy::data::accesslog::v3::AccessLogType;
use ironsail_proto::envoy::extensions::access_loggers::file::v3::{
    FileAccessLog, file_access_log::AccessLogFormat,
};
use ironsail_proto::envoy::extensions::access_loggers::filters::cel::v3::ExpressionFilter;
use ironsail_proto::envoy::extensions::access_loggers::grpc::v3::{
    CommonGrpcAccessLogConfig, HttpGrpcAccessLogConfig, TcpGrpcAccessLogConfig,
};
use ironsail_proto::envoy::extensions::formatter::req_without_query::v3::ReqWithoutQuery;
use ironsail_proto::google::protobuf::Struct;
use ironsail_proto::{Name, pack};

use super::settings::{Access, AccessFormat, Settings, Side, Sink};
use super::{stats, wire};
use ironsail_telemetry::Service;

/// The line that Istio writes for each request.
pub const TEXT: &str = concat!(
    "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" ",
    "%RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% ",
    "\"%UPSTREAM_TRANSPORT_FAILURE_REASON%\" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% ",
    "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" ",
    "\"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \"%UPSTREAM_HOST%\" %UPSTREAM_CLUSTER_RAW% ",
    "%UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% ",
    "%REQUESTED_SERVER_NAME% %ROUTE_NAME%\n",
);

/// The same as fields.
const JSON: &[(&str, &str)] = &[
    ("start_time", "%START_TIME%"),
    ("route_name", "%ROUTE_NAME%"),
    ("method", "%REQ(:METHOD)%"),
    ("path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"),
    ("protocol", "%PROTOCOL%"),
    ("response_code", "%RESPONSE_CODE%"),
    ("response_flags", "%RESPONSE_FLAGS%"),
    ("response_code_details", "%RESPONSE_CODE_DETAILS%"),
    ("connection_termination_details", "%CONNECTION_TERMINATION_DETAILS%"),
    ("bytes_received", "%BYTES_RECEIVED%"),
    ("bytes_sent", "%BYTES_SENT%"),
    ("duration", "%DURATION%"),
    ("upstream_service_time", "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%"),
    ("x_forwarded_for", "%REQ(X-FORWARDED-FOR)%"),
    ("user_agent", "%REQ(USER-AGENT)%"),
    ("request_id", "%REQ(X-REQUEST-ID)%"),
    ("authority", "%REQ(:AUTHORITY)%"),
    ("upstream_host", "%UPSTREAM_HOST%"),
    ("upstream_cluster", "%UPSTREAM_CLUSTER_RAW%"),
    ("upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%"),
    ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"),
    ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("requested_server_name", "%REQUESTED_SERVER_NAME%"),
    ("upstream_transport_failure_reason", "%UPSTREAM_TRANSPORT_FAILURE_REASON%"),
];

/// The cluster of the bootstrap behind which an access log service listens.
const SERVICE_CLUSTER: &str = "envoy_accesslog_service";

/// The logs of an HTTP connection manager.
pub fn http(settings: &Settings, side: Side) -> Vec<AccessLog> {
    let own = settings.access.iter().filter(|one| *one.on.of(side));
    own.filter_map(|one| {
        let log = match &one.to {
            Sink::File { .. } => file(one)?,
            Sink::Otel { .. } => otel::log(&one.to)?,
            Sink::Service => {
                let common_config = Some(service("http_envoy_accesslog"));
                let config = HttpGrpcAccessLogConfig { common_config, ..Default::default() };
                log("envoy.access_loggers.http_grpc", &config)
            }
            Sink::Grpc { tcp: false, .. } => grpc(&one.to)?,
            Sink::Grpc { tcp: true, .. } => return None,
        };
        Some(AccessLog { filter: all(one.filter.as_deref().map(expression)), ..log })
    })
    .chain(stats::http_logger(settings, side))
    .collect()
}

/// The logs of a TCP proxy.
pub fn tcp(settings: &Settings, side: Side, service: Option<&Service>) -> Vec<AccessLog> {
    // Open connections are counted at times; people want to read only of their end.
    let ends = || settings.metrics.as_ref().map(|_| not_in_between());
    let own = settings.access.iter().filter(|one| *one.on.of(side));
    own.filter_map(|one| {
        let filters = one.filter.as_deref().map(expression).into_iter().chain(ends());
        Some(AccessLog { filter: all(filters), ..of_connection(one, "tcp_envoy_accesslog")? })
    })
    .chain(stats::tcp_logger(settings, side, service))
    .collect()
}

/// The logs of a listener: only connections that no filter chain takes, which nobody else logs.
pub fn listener(settings: &Settings, side: Side) -> Vec<AccessLog> {
    let nobodys =
        FilterSpecifier::ResponseFlagFilter(ResponseFlagFilter { flags: vec!["NR".into()] });
    let own = settings.access.iter().filter(|one| one.listeners && *one.on.of(side));
    own.filter_map(|one| {
        let filters = [Some(nobodys.clone()), one.filter.as_deref().map(expression)];
        let log = of_connection(one, "listener_envoy_accesslog")?;
        Some(AccessLog { filter: all(filters.into_iter().flatten()), ..log })
    })
    .collect()
}

fn of_connection(one: &Access, name: &str) -> Option<AccessLog> {
    match &one.to {
        Sink::File { .. } => file(one),
        Sink::Otel { .. } => otel::log(&one.to),
        Sink::Service => {
            let config = TcpGrpcAccessLogConfig { common_config: Some(service(name)) };
            Some(log("envoy.access_loggers.tcp_grpc", &config))
        }
        Sink::Grpc { tcp: true, .. } => grpc(&one.to),
        Sink::Grpc { tcp: false, .. } => None,
    }
}

fn all(filters: impl IntoIterator<Item = FilterSpecifier>) -> Option<AccessLogFilter> {
    let mut filters: Vec<AccessLogFilter> =
        filters.into_iter().map(|one| AccessLogFilter { filter_specifier: Some(one) }).collect();
    match filters.len() {
        0 | 1 => filters.pop(),
        _ => Some(AccessLogFilter {
            filter_specifier: Some(FilterSpecifier::AndFilter(AndFilter { filters })),
        }),
    }
}

fn expression(text: &str) -> FilterSpecifier {
    let config = ExpressionFilter { expression: text.to_owned(), ..Default::default() };
    FilterSpecifier::ExtensionFilter(ExtensionFilter {
        name: "envoy.access_loggers.extension_filters.cel".into(),
        config_type: Some(extension_filter::ConfigType::TypedConfig(pack(&config))),
    })
}

fn not_in_between() -> FilterSpecifier {
    let types = vec![AccessLogType::TcpPeriodic.into()];
    FilterSpecifier::LogTypeFilter(LogTypeFilter { types, exclude: true })
}

/// A gRPC service of the user's own.
fn grpc(sink: &Sink) -> Option<AccessLog> {
    let Sink::Grpc {
        tcp,
        cluster,
        authority,
        log_name,
        filter_state,
        request_headers,
        response_headers,
        response_trailers,
    } = sink
    else {
        return None;
    };
    let mut objects = filter_state.clone();
    if objects.is_empty() {
        objects = vec!["upstream_peer".into(), "downstream_peer".into()];
    }
    let common_config = Some(CommonGrpcAccessLogConfig {
        grpc_service: Some(wire::grpc(cluster, authority)),
        filter_state_objects_to_log: objects,
        ..service(log_name)
    });
    Some(match tcp {
        true => log("envoy.access_loggers.tcp_grpc", &TcpGrpcAccessLogConfig { common_config }),
        false => {
            let config = HttpGrpcAccessLogConfig {
                common_config,
                additional_request_headers_to_log: request_headers.clone(),
                additional_response_headers_to_log: response_headers.clone(),
                additional_response_trailers_to_log: response_trailers.clone(),
            };
            log("envoy.access_loggers.http_grpc", &config)
        }
    })
}

fn service(name: &str) -> CommonGrpcAccessLogConfig {
    CommonGrpcAccessLogConfig {
        log_name: name.into(),
        grpc_service: Some(wire::grpc(SERVICE_CLUSTER, "")),
        transport_api_version: ApiVersion::V3.into(),
        filter_state_objects_to_log: vec!["upstream_peer".into(), "downstream_peer".into()],
        ..Default::default()
    }
}

fn file(access: &Access) -> Option<AccessLog> {
    let Sink::File { path, format: own, omit_empty } = &access.to else { return None };
    let format = SubstitutionFormatString { omit_empty_values: *omit_empty, ..format(own) };
    let config = FileAccessLog {
        path: path.clone(),
        access_log_format: Some(AccessLogFormat::LogFormat(format)),
    };
    Some(log("envoy.access_loggers.file", &config))
}

pub(super) fn log<M: Name>(name: &str, config: &M) -> AccessLog {
    let config_type = Some(ConfigType::TypedConfig(pack(config)));
    AccessLog { name: name.into(), filter: None, config_type }
}

fn format(format: &AccessFormat) -> SubstitutionFormatString {
    match format {
        AccessFormat::Text(own) => {
            let mut line = if own.is_empty() { TEXT.to_owned() } else { own.clone() };
            if !line.ends_with('\n') {
                line.push('\n');
            }
            SubstitutionFormatString {
                formatters: formatters(&line),
                format: Some(Format::TextFormatSource(DataSource {
                    specifier: Some(Specifier::InlineString(line)),
                    ..Default::default()
                })),
                ..Default::default()
            }
        }
        AccessFormat::Json(own) => SubstitutionFormatString {
            formatters: formatters(own),
            format: Some(Format::JsonFormat(fields(own))),
            ..Default::default()
        },
    }
}

/// The user's fields; Istio's if there are none, or if they are no JSON object.
fn fields(own: &str) -> Struct {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(own) {
        Ok(map) if !map.is_empty() => map.into(),
        _ => JSON
            .iter()
            .map(|&(name, format)| (name.to_owned(), serde_json::Value::from(format)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

/// Envoy knows most operators by itself; this one is an extension.
fn formatters(format: &str) -> Vec<TypedExtensionConfig> {
    if !format.contains("%REQ_WITHOUT_QUERY") {
        return Vec::new();
    }
    let typed_config = Some(pack(&ReqWithoutQuery {}));
    vec![TypedExtensionConfig { name: "envoy.formatter.req_without_query".into(), typed_config }]
}

#[cfg(test)]
mod tests {
    use super::super::settings::{Metrics, Sided};
    use super::*;

    #[test]
    fn the_default_line_is_one_line_with_istio_fields() {
        assert_eq!(TEXT.matches('\n').count(), 1);
        assert!(TEXT.ends_with("%REQUESTED_SERVER_NAME% %ROUTE_NAME%\n"));
        assert_eq!(TEXT.matches('%').count() % 2, 0);
        for (_, operator) in JSON {
            assert!(TEXT.contains(operator), "{operator} is in the line too");
        }
    }

    #[test]
    fn a_line_of_ones_own_gets_its_end() {
        let Some(Format::TextFormatSource(source)) =
            format(&AccessFormat::Text("%PROTOCOL%".into())).format
        else {
            panic!("text")
        };
        assert_eq!(source.specifier, Some(Specifier::InlineString("%PROTOCOL%\n".into())));
    }

    #[test]
    fn broken_json_fields_fall_back_to_istio_fields() {
        assert_eq!(fields("{\"a\": "), fields(""));
        assert_eq!(fields("{\"a\": \"%PROTOCOL%\"}").fields.len(), 1);
        assert_eq!(fields("").fields.len(), JSON.len());
    }

    #[test]
    fn each_place_has_its_logs_and_listeners_log_only_what_nobody_took() {
        let to = Sink::File {
            path: "/dev/stdout".into(),
            format: AccessFormat::Text(String::new()),
            omit_empty: false,
        };
        let service = Access {
            on: Sided { client: true, server: false },
            filter: Some("response.code >= 400".into()),
            ..Access::to(Sink::Service, false)
        };
        let settings =
            Settings { access: vec![Access::to(to, true), service], ..Settings::default() };
        let names = |logs: Vec<AccessLog>| logs.into_iter().map(|l| l.name).collect::<Vec<_>>();
        assert_eq!(
            names(http(&settings, Side::Client)),
            ["envoy.access_loggers.file", "envoy.access_loggers.http_grpc"]
        );
        assert_eq!(names(http(&settings, Side::Server)), ["envoy.access_loggers.file"]);
        assert_eq!(
            names(tcp(&settings, Side::Client, None)),
            ["envoy.access_loggers.file", "envoy.access_loggers.tcp_grpc"]
        );
        let client = http(&settings, Side::Client);
        assert!(client[0].filter.is_none() && client[1].filter.is_some());
        let listeners = listener(&settings, Side::Client);
        assert!(listeners[0].filter.is_some());
        assert_eq!(names(listeners), ["envoy.access_loggers.file"]);
        assert!(http(&Settings::default(), Side::Client).is_empty());
    }

    #[test]
    fn people_read_of_a_connection_once_though_it_is_counted_often() {
        let to = Sink::Service;
        let mut settings = Settings { access: vec![Access::to(to, true)], ..Settings::default() };
        assert!(tcp(&settings, Side::Server, None)[0].filter.is_none());
        settings.metrics = Some(Metrics::default());
        let logs = tcp(&settings, Side::Server, None);
        assert!(logs[0].filter.is_some());
        assert_eq!(logs[1].name, stats::LOGGER);
        assert!(logs[1].filter.is_none());
    }
}
