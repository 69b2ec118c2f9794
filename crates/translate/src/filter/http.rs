//! HTTP filters, and their order in a connection manager.
//!
//! Metadata exchange, authentication, authorization and statistics are stages of their own: they fill
//! the slots of `Slots`, this file only says where the slots are.

use ironsail_proto::envoy::config::core::v3::{
    DataSource, SubstitutionFormatString, data_source::Specifier,
    substitution_format_string::Format,
};
use ironsail_proto::envoy::extensions::filters::common::set_filter_state::v3::{
    FilterStateValue,
    filter_state_value::{Key, Value},
};
use ironsail_proto::envoy::extensions::filters::http::{
    cors::v3::Cors,
    fault::v3::HttpFault,
    grpc_stats::v3::{FilterConfig, filter_config},
    grpc_web::v3::GrpcWeb,
    router::v3::Router,
    set_filter_state::v3::Config as SetFilterState,
};
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpFilter, http_filter::ConfigType,
};
use ironsail_proto::google::protobuf::BoolValue;
use ironsail_proto::{Name, pack};

use super::dynamic;
use super::settings::Family;

pub const CORS: &str = "envoy.filters.http.cors";
pub const FAULT: &str = "envoy.filters.http.fault";
pub const GRPC_STATS: &str = "envoy.filters.http.grpc_stats";
pub const GRPC_WEB: &str = "envoy.filters.http.grpc_web";
pub const ROUTER: &str = "envoy.filters.http.router";
/// Istio's name for what we do with a stock filter.
pub const ALPN: &str = "istio.alpn";

/// The key in a cluster's `istio` metadata which says that its connections speak what the request
/// came in with, so that the protocol to offer in TLS is known only here.
pub const ALPN_KEY: &str = "alpn";
/// Its value.
pub const ALPN_DOWNSTREAM: &str = "downstream";

/// Filters of stages, by the place where they stand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slots {
    /// Before everything, so that what is refused is reported with its peer too.
    pub exchange: Vec<HttpFilter>,
    pub custom_authorization: Vec<HttpFilter>,
    pub authentication: Vec<HttpFilter>,
    pub authorization: Vec<HttpFilter>,
    /// Behind everything but the router.
    pub statistics: Vec<HttpFilter>,
}

/// What differs between the stacks of managers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack {
    pub grpc_web: bool,
    /// Towards other workloads: the protocol inside mTLS is said to them.
    pub alpn: bool,
    pub suppress_debug_headers: bool,
    /// Hosts are looked up when a request comes.
    pub dynamic: Option<Family>,
}

/// The filters of one connection manager.
pub fn stack(stack: Stack, slots: &Slots) -> Vec<HttpFilter> {
    let mut filters = slots.exchange.clone();
    filters.extend(slots.custom_authorization.iter().cloned());
    filters.extend(slots.authentication.iter().cloned());
    filters.extend(slots.authorization.iter().cloned());
    if stack.grpc_web {
        filters.push(filter(GRPC_WEB, &GrpcWeb {}));
    }
    filters.push(grpc_stats());
    if stack.alpn {
        filters.push(alpn());
    }
    filters.push(filter(FAULT, &HttpFault::default()));
    filters.push(filter(CORS, &Cors {}));
    filters.extend(slots.statistics.iter().cloned());
    filters.extend(stack.dynamic.map(dynamic::http));
    filters.push(router(stack.suppress_debug_headers));
    filters
}

pub fn filter<M: Name>(name: &str, config: &M) -> HttpFilter {
    HttpFilter {
        name: name.into(),
        config_type: Some(ConfigType::TypedConfig(pack(config))),
        ..Default::default()
    }
}

fn grpc_stats() -> HttpFilter {
    let all = filter_config::PerMethodStatSpecifier::StatsForAllMethods(BoolValue { value: false });
    let config = FilterConfig {
        emit_filter_state: true,
        per_method_stat_specifier: Some(all),
        ..Default::default()
    };
    filter(GRPC_STATS, &config)
}

pub fn router(suppress_envoy_headers: bool) -> HttpFilter {
    filter(ROUTER, &Router { suppress_envoy_headers, ..Default::default() })
}

/// Tells the peer's inbound listener which protocol comes inside mTLS, which it cannot see.
///
/// Istio has a filter of its own for this; here the stock filter sets the list of protocols that the
/// upstream connection offers. It does so only for clusters that follow the downstream protocol and
/// say so in their metadata: clusters of a fixed protocol have the right list in their TLS context.
fn alpn() -> HttpFilter {
    let format = format!(
        "%CEL(xds.cluster_metadata.filter_metadata['istio']['{ALPN_KEY}'] == '{ALPN_DOWNSTREAM}' ? \
         (request.protocol == 'HTTP/2' ? 'istio-h2,istio,h2' : \
         request.protocol == 'HTTP/1.0' ? 'istio-http/1.0,istio,http/1.0' : \
         'istio-http/1.1,istio,http/1.1') : '')%"
    );
    let value = FilterStateValue {
        key: Some(Key::ObjectKey("envoy.network.application_protocols".into())),
        value: Some(Value::FormatString(SubstitutionFormatString {
            format: Some(Format::TextFormatSource(DataSource {
                specifier: Some(Specifier::InlineString(format)),
                ..Default::default()
            })),
            // A cluster without the key has no value, and an unset value would read "-".
            omit_empty_values: true,
            ..Default::default()
        })),
        skip_if_empty: true,
        ..Default::default()
    };
    filter(ALPN, &SetFilterState { on_request_headers: vec![value], ..Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filters: &[HttpFilter]) -> Vec<&str> {
        filters.iter().map(|f| f.name.as_str()).collect()
    }

    #[test]
    fn filters_stand_in_istio_order_and_the_router_is_last() {
        let slots = Slots {
            exchange: vec![filter("exchange", &Cors {})],
            authorization: vec![filter("rbac", &Cors {})],
            statistics: vec![filter("stats", &Cors {})],
            ..Default::default()
        };
        let with = stack(Stack { alpn: true, grpc_web: true, ..Default::default() }, &slots);
        assert_eq!(
            names(&with),
            ["exchange", "rbac", GRPC_WEB, GRPC_STATS, ALPN, FAULT, CORS, "stats", ROUTER]
        );
        let plain = stack(Stack::default(), &Slots::default());
        assert_eq!(names(&plain), [GRPC_STATS, FAULT, CORS, ROUTER]);
    }
}
