//! The HTTP connection manager: the same for all listeners but for what `Manager` says.

use std::time::Duration;

use ironsail_proto::envoy::config::core::v3::{
    Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions, TypedExtensionConfig,
    http1_protocol_options::{HeaderKeyFormat, header_key_format::HeaderFormat},
};
use ironsail_proto::envoy::config::listener::v3::Filter;
use ironsail_proto::envoy::config::route::v3::RouteConfiguration;
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, Rds, RequestIdExtension,
    http_connection_manager::{
        CodecType, ForwardClientCertDetails, PathWithEscapedSlashesAction, RouteSpecifier,
        ServerHeaderTransformation, SetCurrentClientCertDetails, UpgradeConfig,
    },
};

use ironsail_proto::envoy::extensions::http::header_formatters::preserve_case::v3::PreserveCaseFormatterConfig;
use ironsail_proto::envoy::extensions::request_id::uuid::v3::UuidRequestIdConfig;
use ironsail_proto::pack;

use super::settings::{CertDetails, ForwardedCert, PathNormalization, Server, Settings, Side};
use super::{access, http, network, stats, trace, wire};
use crate::tls;

pub const NAME: &str = "envoy.filters.network.http_connection_manager";
/// What a server of the mesh calls itself.
pub const SERVER_NAME: &str = "istio-envoy";

/// How long a client of a gateway may take to send the head of a request.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);

/// Which side of the mesh a listener is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    SidecarOutbound,
    SidecarInbound,
    Gateway,
}

impl Class {
    /// Which side telemetry takes it for.
    pub fn side(self) -> Side {
        match self {
            Self::SidecarInbound => Side::Server,
            Self::SidecarOutbound | Self::Gateway => Side::Client,
        }
    }
}

/// Where the routes are.
#[derive(Clone, Debug, PartialEq)]
pub enum Routes {
    Rds(String),
    Inline(Box<RouteConfiguration>),
}

/// What is special about one connection manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Manager<'a> {
    pub class: Class,
    /// Without the delimiter.
    pub stat_prefix: String,
    pub routes: Routes,
    pub grpc_web: bool,
    /// HTTP/2 without asking.
    pub http2: bool,
    /// Requests may name their host in the first line, as clients of a proxy do.
    pub absolute_url: bool,
    pub slots: &'a http::Slots,
}

impl Manager<'_> {
    pub fn filter(self, settings: &Settings) -> Filter {
        network::filter(NAME, &self.build(settings))
    }

    pub fn build(self, settings: &Settings) -> HttpConnectionManager {
        let stack = http::Stack {
            grpc_web: self.grpc_web,
            alpn: self.class != Class::SidecarInbound,
            suppress_debug_headers: !settings.headers.debug,
            dynamic: (settings.dynamic_names && self.class != Class::SidecarInbound)
                .then_some(settings.family),
        };
        let tracing = settings.tracing.of(self.class.side()).as_ref();
        let mut manager = HttpConnectionManager {
            codec_type: CodecType::Auto.into(),
            // Names of listeners have dots, as names of statistics do; the delimiter ends them.
            stat_prefix: format!("{};", self.stat_prefix),
            http_filters: stats::around(
                http::stack(stack, self.slots),
                settings,
                self.class.side(),
            ),
            tracing: tracing.map(trace::manager),
            access_log: access::http(settings, self.class.side()),
            use_remote_address: wire::flag(self.class == Class::Gateway),
            generate_request_id: (!settings.headers.request_id)
                .then(|| wire::flag(false))
                .flatten(),
            common_http_protocol_options: settings.idle_timeout.map(|idle| HttpProtocolOptions {
                idle_timeout: wire::span(idle),
                ..Default::default()
            }),
            http_protocol_options: self.http1(settings),
            http2_protocol_options: self.http2.then(Http2ProtocolOptions::default),
            append_x_forwarded_port: settings.headers.forwarded_port,
            // A client that waits for 100 waits for the server's, not for ours.
            proxy_100_continue: true,
            request_id_extension: Some(request_id(tracing.is_none_or(|t| t.by_request_id))),
            stream_idle_timeout: wire::never(),
            // Who sends a header a byte at a time would hold its connection for ever.
            request_headers_timeout: (self.class == Class::Gateway)
                .then(|| wire::span(HEADERS_WITHIN))
                .flatten(),
            upgrade_configs: vec![UpgradeConfig {
                upgrade_type: "websocket".into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        paths(&mut manager, settings.paths);
        self.server(&mut manager, settings);
        self.certificates(&mut manager, settings);
        manager.route_specifier = Some(match self.routes {
            Routes::Rds(route_config_name) => {
                RouteSpecifier::Rds(Rds { config_source: Some(tls::ads()), route_config_name })
            }
            Routes::Inline(routes) => RouteSpecifier::RouteConfig(*routes),
        });
        manager
    }

    fn http1(&self, settings: &Settings) -> Option<Http1ProtocolOptions> {
        let always = self.class == Class::Gateway || self.absolute_url;
        let preserve = settings.headers.preserve_case;
        (always || settings.http10 || preserve).then(|| Http1ProtocolOptions {
            header_key_format: preserve.then(preserve_case),
            accept_http_10: settings.http10,
            allow_absolute_url: self.absolute_url.then(|| wire::flag(true)).flatten(),
            ..Default::default()
        })
    }

    fn server(&self, manager: &mut HttpConnectionManager, settings: &Settings) {
        match &settings.headers.server {
            // Towards the mesh a client's proxy leaves Envoy's name, as Istio does.
            Server::Default if self.class == Class::SidecarOutbound => {}
            Server::Default => manager.server_name = SERVER_NAME.into(),
            Server::Name(name) => manager.server_name.clone_from(name),
            Server::PassThrough => {
                manager.server_header_transformation =
                    ServerHeaderTransformation::PassThrough.into();
            }
        }
    }

    fn certificates(&self, manager: &mut HttpConnectionManager, settings: &Settings) {
        let headers = &settings.headers;
        match self.class {
            Class::SidecarOutbound => {}
            Class::SidecarInbound => {
                manager.forward_client_cert_details = forwarded(headers.forwarded).into();
                manager.set_current_client_cert_details = Some(details(headers.details));
            }
            Class::Gateway => {
                manager.xff_num_trusted_hops = headers.trusted_proxies;
                manager.forward_client_cert_details = forwarded(headers.gateway).into();
                let writes = matches!(
                    headers.gateway,
                    ForwardedCert::AppendForward | ForwardedCert::SanitizeSet
                );
                manager.set_current_client_cert_details = writes.then(|| {
                    details(CertDetails {
                        subject: true,
                        cert: true,
                        chain: false,
                        dns: true,
                        uri: true,
                    })
                });
            }
        }
    }
}

/// Whether a request is traced follows from its id, on all hops the same, unless somebody minds.
fn request_id(decides: bool) -> RequestIdExtension {
    let config = UuidRequestIdConfig {
        use_request_id_for_trace_sampling: wire::flag(decides),
        ..Default::default()
    };
    RequestIdExtension { typed_config: Some(pack(&config)) }
}

fn preserve_case() -> HeaderKeyFormat {
    let config = TypedExtensionConfig {
        name: "envoy.http.stateful_header_formatters.preserve_case".into(),
        typed_config: Some(pack(&PreserveCaseFormatterConfig::default())),
    };
    HeaderKeyFormat { header_format: Some(HeaderFormat::StatefulFormatter(config)) }
}

fn paths(manager: &mut HttpConnectionManager, normalization: PathNormalization) {
    manager.path_with_escaped_slashes_action = PathWithEscapedSlashesAction::KeepUnchanged.into();
    manager.normalize_path = wire::flag(normalization != PathNormalization::None);
    match normalization {
        PathNormalization::None | PathNormalization::Base => {}
        PathNormalization::MergeSlashes => manager.merge_slashes = true,
        PathNormalization::DecodeAndMergeSlashes => {
            manager.merge_slashes = true;
            manager.path_with_escaped_slashes_action =
                PathWithEscapedSlashesAction::UnescapeAndForward.into();
        }
    }
}

fn forwarded(cert: ForwardedCert) -> ForwardClientCertDetails {
    match cert {
        ForwardedCert::Sanitize => ForwardClientCertDetails::Sanitize,
        ForwardedCert::ForwardOnly => ForwardClientCertDetails::ForwardOnly,
        ForwardedCert::AppendForward => ForwardClientCertDetails::AppendForward,
        ForwardedCert::SanitizeSet => ForwardClientCertDetails::SanitizeSet,
        ForwardedCert::AlwaysForwardOnly => ForwardClientCertDetails::AlwaysForwardOnly,
    }
}

fn details(details: CertDetails) -> SetCurrentClientCertDetails {
    SetCurrentClientCertDetails {
        subject: wire::flag(details.subject),
        cert: details.cert,
        chain: details.chain,
        dns: details.dns,
        uri: details.uri,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(class: Class) -> Manager<'static> {
        static SLOTS: http::Slots = http::Slots {
            exchange: Vec::new(),
            custom_authorization: Vec::new(),
            authentication: Vec::new(),
            authorization: Vec::new(),
            statistics: Vec::new(),
        };
        Manager {
            class,
            stat_prefix: "outbound_0.0.0.0_80".into(),
            routes: Routes::Rds("80".into()),
            grpc_web: false,
            http2: false,
            absolute_url: false,
            slots: &SLOTS,
        }
    }

    #[test]
    fn only_the_mesh_side_of_a_server_names_itself() {
        let settings = Settings::default();
        assert_eq!(manager(Class::SidecarOutbound).build(&settings).server_name, "");
        assert_eq!(manager(Class::SidecarInbound).build(&settings).server_name, SERVER_NAME);
        let mut settings = settings;
        settings.headers.server = Server::PassThrough;
        let built = manager(Class::SidecarInbound).build(&settings);
        assert_eq!(built.server_header_transformation(), ServerHeaderTransformation::PassThrough);
    }

    #[test]
    fn client_certificates_are_forwarded_by_servers_and_gateways_only() {
        let settings = Settings::default();
        let inbound = manager(Class::SidecarInbound).build(&settings);
        assert_eq!(inbound.forward_client_cert_details(), ForwardClientCertDetails::AppendForward);
        assert!(!inbound.set_current_client_cert_details.unwrap().cert);
        let gateway = manager(Class::Gateway).build(&settings);
        assert_eq!(gateway.forward_client_cert_details(), ForwardClientCertDetails::SanitizeSet);
        assert!(gateway.set_current_client_cert_details.unwrap().cert);
        let outbound = manager(Class::SidecarOutbound).build(&settings);
        assert_eq!(outbound.set_current_client_cert_details, None);
    }
}
