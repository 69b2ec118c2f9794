//! Envoy messages in the subset that gRPC reads.
//!
//! In: names. Out: listeners, routes, clusters, TLS contexts.

use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, EdsClusterConfig,
};
use ironsail_proto::envoy::config::core::v3::{
    AggregatedConfigSource, ConfigSource, config_source::ConfigSourceSpecifier,
};
use ironsail_proto::envoy::config::listener::v3::{
    ApiListener, Filter, FilterChain, Listener, filter,
};
use ironsail_proto::envoy::config::route::v3::{
    NonForwardingAction, Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, route,
    route_action::ClusterSpecifier, route_match::PathSpecifier,
};
use ironsail_proto::envoy::extensions::filters::http::fault::v3::HttpFault;
use ironsail_proto::envoy::extensions::filters::http::router::v3::Router;
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_connection_manager::RouteSpecifier, http_filter,
};
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateProviderPluginInstance, CertificateValidationContext, CommonTlsContext,
    DownstreamTlsContext, UpstreamTlsContext,
    common_tls_context::{CombinedCertificateValidationContext, ValidationContextType},
};
use ironsail_proto::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use ironsail_proto::google::protobuf::BoolValue;
use ironsail_proto::{Name, pack};

use crate::{address, tls};

/// The certificate provider that a proxyless bootstrap declares.
const PROVIDER: &str = "default";

pub(crate) const FAULT: &str = "envoy.filters.http.fault";
pub(crate) const ROUTER: &str = "envoy.filters.http.router";

fn ads() -> ConfigSource {
    let ads = ConfigSourceSpecifier::Ads(AggregatedConfigSource {});
    ConfigSource { config_source_specifier: Some(ads), ..Default::default() }
}

pub(crate) fn http_filter<M: Name>(name: &str, config: &M) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(pack(config))),
        ..Default::default()
    }
}

/// A client's listener: the name it dials, and where its routes are.
pub(crate) fn client_listener(name: String, host: &str, port: u16, route: String) -> Listener {
    let manager = HttpConnectionManager {
        http_filters: vec![
            http_filter(FAULT, &HttpFault::default()),
            http_filter(ROUTER, &Router::default()),
        ],
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            config_source: Some(ads()),
            route_config_name: route,
        })),
        ..Default::default()
    };
    Listener {
        name,
        address: Some(address::tcp(host, port)),
        api_listener: Some(ApiListener { api_listener: Some(pack(&manager)) }),
        ..Default::default()
    }
}

/// Everything for `domains` to one cluster.
pub(crate) fn plain_routes(
    name: String,
    domains: Vec<String>,
    cluster: String,
) -> RouteConfiguration {
    let action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster)),
        ..Default::default()
    };
    let host = VirtualHost {
        name: name.clone(),
        domains,
        routes: vec![Route {
            r#match: Some(everything()),
            action: Some(route::Action::Route(action)),
            ..Default::default()
        }],
        ..Default::default()
    };
    RouteConfiguration { name, virtual_hosts: vec![host], ..Default::default() }
}

fn everything() -> RouteMatch {
    RouteMatch { path_specifier: Some(PathSpecifier::Prefix("/".into())), ..Default::default() }
}

pub(crate) fn eds_cluster(name: String) -> Cluster {
    Cluster {
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(ads()),
            service_name: name.clone(),
        }),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        name,
        ..Default::default()
    }
}

/// A server's listener with one filter chain; `filters` end with the router.
pub(crate) fn server_listener(
    name: String,
    host: &str,
    port: u16,
    mtls: bool,
    mut filters: Vec<HttpFilter>,
) -> Listener {
    let suffix = if mtls { "mtls" } else { "plaintext" };
    filters.push(http_filter(ROUTER, &Router::default()));
    let routes = RouteConfiguration {
        name: "inbound".into(),
        virtual_hosts: vec![VirtualHost {
            name: "inbound".into(),
            domains: vec!["*".into()],
            routes: vec![Route {
                r#match: Some(everything()),
                action: Some(route::Action::NonForwardingAction(NonForwardingAction {})),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let manager = HttpConnectionManager {
        http_filters: filters,
        route_specifier: Some(RouteSpecifier::RouteConfig(routes)),
        ..Default::default()
    };
    let chain = FilterChain {
        name: format!("inbound-{suffix}"),
        filters: vec![Filter {
            name: format!("inbound-hcm{suffix}"),
            config_type: Some(filter::ConfigType::TypedConfig(pack(&manager))),
        }],
        transport_socket: mtls.then(|| tls::socket(&server_tls())),
        ..Default::default()
    };
    Listener {
        name,
        address: Some(address::tcp(host, port)),
        filter_chains: vec![chain],
        ..Default::default()
    }
}

/// The client half of mTLS; `identities` are what the server may be called.
pub(crate) fn client_tls<'a>(identities: impl IntoIterator<Item = &'a str>) -> UpstreamTlsContext {
    let exact = |name: &str| StringMatcher {
        match_pattern: Some(MatchPattern::Exact(name.to_owned())),
        ..Default::default()
    };
    let names = identities.into_iter().map(exact).collect();
    UpstreamTlsContext { common_tls_context: Some(mutual(names)), ..Default::default() }
}

fn server_tls() -> DownstreamTlsContext {
    // gRPC servers refuse a context that restricts the names of clients.
    DownstreamTlsContext {
        common_tls_context: Some(mutual(Vec::new())),
        require_client_certificate: Some(BoolValue { value: true }),
        ..Default::default()
    }
}

#[expect(deprecated, reason = "the only list of names that gRPC reads")]
fn mutual(names: Vec<StringMatcher>) -> CommonTlsContext {
    let provider = |certificate: &str| CertificateProviderPluginInstance {
        instance_name: PROVIDER.into(),
        certificate_name: certificate.into(),
    };
    let rules = CertificateValidationContext {
        ca_certificate_provider_instance: Some(provider(tls::SDS_ROOT)),
        match_subject_alt_names: names,
        ..Default::default()
    };
    CommonTlsContext {
        tls_certificate_provider_instance: Some(provider(tls::SDS_DEFAULT)),
        validation_context_type: Some(ValidationContextType::CombinedValidationContext(
            CombinedCertificateValidationContext {
                default_validation_context: Some(rules),
                ..Default::default()
            },
        )),
        ..Default::default()
    }
}
