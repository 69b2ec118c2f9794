//! Where among a listener's filters one of a phase stands.

use ironsail_proto::envoy::config::core::v3::{address::Address, socket_address::PortSpecifier};
use ironsail_proto::envoy::config::listener::v3::{Filter, Listener, filter};
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpFilter, http_filter::ConfigType,
};

use crate::filter::http;

/// A place in the chain, as Istio has it: before that group of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    Authentication,
    Authorization,
    /// Behind authorization, before whatever only looks or rewrites.
    Limits,
    Statistics,
    /// Right before the router.
    End,
}

pub(super) fn port_of(listener: &Listener) -> Option<u32> {
    let Some(Address::SocketAddress(address)) = &listener.address.as_ref()?.address else {
        return None;
    };
    match address.port_specifier {
        Some(PortSpecifier::PortValue(port)) => Some(port),
        _ => None,
    }
}

/// The index in front of which a filter of the phase goes.
pub(super) fn in_http(filters: &[HttpFilter], phase: Phase) -> usize {
    let of = |one: &HttpFilter| match &one.config_type {
        Some(ConfigType::TypedConfig(any)) => any.type_url.clone(),
        _ => String::new(),
    };
    let is_authn = |one: &HttpFilter| of(one).ends_with(".jwt_authn.v3.JwtAuthentication");
    let is_authz = |one: &HttpFilter| {
        let name = of(one);
        name.ends_with(".rbac.v3.RBAC") || name.ends_with(".ext_authz.v3.ExtAuthz")
    };
    // What comes behind everything that decides who may do what.
    let is_rest = |one: &HttpFilter| {
        [http::GRPC_WEB, http::GRPC_STATS, http::ALPN, http::FAULT, http::CORS, http::ROUTER]
            .contains(&one.name.as_str())
    };
    let rest = filters.iter().position(is_rest).unwrap_or(filters.len());
    let authz = filters[..rest].iter().position(is_authz).unwrap_or(rest);
    let router = filters.iter().position(|one| one.name == http::ROUTER).unwrap_or(filters.len());
    match phase {
        Phase::Authentication => filters[..rest].iter().position(is_authn).unwrap_or(authz),
        Phase::Authorization => {
            // Behind authentication, also where what decides stands before it.
            let behind = filters[..rest].iter().rposition(is_authn).map_or(0, |at| at + 1);
            filters[behind..rest].iter().position(is_authz).map_or(rest, |at| behind + at)
        }
        Phase::Limits => rest,
        Phase::Statistics => {
            let stats = filters.iter().position(|one| one.name == "istio.stats");
            stats.unwrap_or(router)
        }
        Phase::End => router,
    }
}

/// The same among network filters: all stand before the one that ends the chain.
pub(super) fn in_network(filters: &[Filter], phase: Phase) -> usize {
    let is_authz = |one: &Filter| match &one.config_type {
        Some(filter::ConfigType::TypedConfig(any)) => any.type_url.ends_with(".rbac.v3.RBAC"),
        _ => false,
    };
    let end = filters.len().saturating_sub(1);
    match phase {
        Phase::Authentication => 0,
        Phase::Authorization => filters.iter().position(is_authz).unwrap_or(end),
        Phase::Limits | Phase::Statistics | Phase::End => end,
    }
}
