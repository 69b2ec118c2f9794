//! Patches of network filters, and of the HTTP filters inside connection managers.

use std::collections::BTreeSet;

use ironsail_api::Diagnostic;
use ironsail_api::istio::networking::{ApplyTo, FilterClass, FilterMatch};
use ironsail_proto::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_connection_manager::RouteSpecifier, http_filter,
};
use ironsail_proto::google::protobuf::Any;
use ironsail_proto::{pack, unpack};

use super::listener::{attempt, fits, fits_chain};
use super::merge::{Lists, merged_any};
use super::{Context, Patch, Patches, list, value};
use crate::filter::{hcm, http};

/// Network filters that end a chain: they must be last, and one must be.
const TERMINAL: [&str; 9] = [
    "HttpConnectionManager",
    "TcpProxy",
    "RedisProxy",
    "ThriftProxy",
    "DubboProxy",
    "GenericProxy",
    "Echo",
    "DynamicModuleNetworkFilter",
    "ReverseTunnel",
];
const DIRECT_RESPONSE: &str = "envoy.extensions.filters.network.direct_response.v3.Config";

/// All patches of network and HTTP filters of a listener.
pub(super) fn filters(
    patches: &Patches<'_>,
    context: Context,
    listener: &mut Listener,
    found: &mut Vec<Diagnostic>,
) {
    for target in [ApplyTo::NetworkFilter, ApplyTo::HttpFilter] {
        for merges in [false, true] {
            let all = patches.to(target, context);
            for patch in all.filter(|patch| patch.merges() == merges) {
                if fits(listener, &patch) {
                    attempt(listener, &patch, found, |listener, patch| {
                        let frame = Listener { filter_chains: Vec::new(), ..listener.clone() };
                        let chains = listener.filter_chains.iter_mut();
                        for chain in chains.chain(&mut listener.default_filter_chain) {
                            if fits_chain(&frame, chain, patch) {
                                in_chain(chain, patch)?;
                            }
                        }
                        Ok(())
                    });
                }
            }
        }
    }
}

fn in_chain(chain: &mut FilterChain, patch: &Patch<'_>) -> Result<(), String> {
    match patch.apply_to() {
        ApplyTo::NetworkFilter => network_filter(&mut chain.filters, patch),
        _ => {
            let named = filter_match(patch).map(|rule| rule.name.as_str());
            for filter in &mut chain.filters {
                if filter.name == hcm::NAME && named.is_none_or(|name| name == hcm::NAME) {
                    in_manager(filter, |manager| http_filter(&mut manager.http_filters, patch))?;
                }
            }
            Ok(())
        }
    }
}

fn filter_match<'a>(patch: &'a Patch<'_>) -> Option<&'a FilterMatch> {
    patch.listener_match()?.filter_chain.as_ref()?.filter.as_ref()
}

fn network_filter(filters: &mut Vec<Filter>, patch: &Patch<'_>) -> Result<(), String> {
    let named = filter_match(patch).map(|rule| rule.name.as_str());
    if patch.merges() {
        let said = patch.element::<Filter>()?.ok_or("it has no value")?;
        for one in filters.iter_mut().filter(|one| named.is_none_or(|name| name == one.name)) {
            if let Some(filter::ConfigType::TypedConfig(from)) = &said.config_type {
                let into = match &one.config_type {
                    Some(filter::ConfigType::TypedConfig(into)) => into,
                    _ => return Err(not_here(&one.name)),
                };
                let merged = merged_any(into, from, patch.lists())?;
                one.config_type = Some(filter::ConfigType::TypedConfig(merged));
            }
            if !said.name.is_empty() {
                one.name.clone_from(&said.name);
            }
        }
        return Ok(());
    }
    let value = patch.element::<Filter>()?;
    let is_it = |one: &Filter| named.is_some_and(|name| name == one.name);
    let is_it = named.map(|_| &is_it as &dyn Fn(&Filter) -> bool);
    if list::place(filters, patch.operation(), is_it, value.as_ref()) {
        ordered(filters)?;
    }
    Ok(())
}

fn http_filter(filters: &mut Vec<HttpFilter>, patch: &Patch<'_>) -> Result<(), String> {
    let named = filter_match(patch).and_then(|rule| rule.sub_filter.as_ref());
    let named = named.map(|rule| rule.name.as_str());
    if patch.merges() {
        let said = patch.element::<HttpFilter>()?.ok_or("it has no value")?;
        for one in filters.iter_mut().filter(|one| named.is_none_or(|name| name == one.name)) {
            merge_http(one, &said, patch.lists())?;
        }
        return Ok(());
    }
    let value = patch.element::<HttpFilter>()?;
    let class = patch.spec().patch.as_ref().map(|patch| patch.filter_class).unwrap_or_default();
    if let (FilterClass::Authn | FilterClass::Authz | FilterClass::Stats, Some(value)) =
        (class, &value)
    {
        filters.insert(place_of(class, filters), value.clone());
        return http_ordered(filters);
    }
    let is_it = |one: &HttpFilter| named.is_some_and(|name| name == one.name);
    let is_it = named.map(|_| &is_it as &dyn Fn(&HttpFilter) -> bool);
    if list::place(filters, patch.operation(), is_it, value.as_ref()) {
        http_ordered(filters)?;
    }
    Ok(())
}

fn merge_http(one: &mut HttpFilter, said: &HttpFilter, lists: Lists) -> Result<(), String> {
    if let Some(http_filter::ConfigType::TypedConfig(from)) = &said.config_type {
        let Some(http_filter::ConfigType::TypedConfig(into)) = &one.config_type else {
            return Err(not_here(&one.name));
        };
        let merged = merged_any(into, from, lists)?;
        one.config_type = Some(http_filter::ConfigType::TypedConfig(merged));
    }
    if !said.name.is_empty() {
        one.name.clone_from(&said.name);
    }
    one.is_optional |= said.is_optional;
    one.disabled |= said.disabled;
    Ok(())
}

fn not_here(name: &str) -> String {
    format!("the configuration of {name} is not in the listener, so nothing can be merged into it")
}

/// Behind authentication, behind authorization, or before statistics.
fn place_of(class: FilterClass, filters: &[HttpFilter]) -> usize {
    let kinds: &[&str] = match class {
        FilterClass::Authn => &["jwt_authn.v3.JwtAuthentication"],
        FilterClass::Authz => {
            &["jwt_authn.v3.JwtAuthentication", "rbac.v3.RBAC", "ext_authz.v3.ExtAuthz"]
        }
        _ => &[],
    };
    let is_one = |one: &HttpFilter| {
        typed_http(one).is_some_and(|any| kinds.iter().any(|kind| any.type_url.ends_with(kind)))
    };
    let first_other = |one: &HttpFilter| {
        [http::GRPC_STATS, http::GRPC_WEB, http::ALPN, http::FAULT, http::CORS, http::ROUTER]
            .contains(&one.name.as_str())
    };
    let behind = filters.iter().rposition(is_one).map(|at| at + 1);
    let end = || filters.iter().position(first_other).unwrap_or(0);
    match class {
        FilterClass::Stats => {
            let router = filters.iter().position(|one| one.name == http::ROUTER);
            router.unwrap_or(filters.len())
        }
        _ => behind.unwrap_or_else(end),
    }
}

fn typed_http(one: &HttpFilter) -> Option<&Any> {
    match &one.config_type {
        Some(http_filter::ConfigType::TypedConfig(any)) => Some(any),
        _ => None,
    }
}

fn http_ordered(filters: &[HttpFilter]) -> Result<(), String> {
    let is_last = |one: &HttpFilter| {
        typed_http(one).is_some_and(|any| any.type_url.ends_with(".router.v3.Router"))
    };
    match filters.iter().position(is_last) {
        Some(at) if at + 1 == filters.len() => Ok(()),
        Some(at) => Err(format!("{} would stand behind the router", filters[at + 1].name)),
        None => Err("no router would be left".to_owned()),
    }
}

fn is_terminal(one: &Filter) -> bool {
    let Some(filter::ConfigType::TypedConfig(any)) = &one.config_type else { return false };
    let name = value::bare(&any.type_url);
    let last = name.rsplit('.').next().unwrap_or_default();
    name == DIRECT_RESPONSE || TERMINAL.contains(&last)
}

fn ordered(filters: &[Filter]) -> Result<(), String> {
    match filters.iter().position(is_terminal) {
        Some(at) if at + 1 == filters.len() => Ok(()),
        Some(at) => {
            let (end, behind) = (&filters[at].name, &filters[at + 1].name);
            Err(format!("{behind} would stand behind {end}, which ends the chain"))
        }
        None => Err("no filter that ends the chain would be left".to_owned()),
    }
}

/// Whether Envoy takes a listener with these chains together.
pub(super) fn sound(listener: &Listener) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for chain in &listener.filter_chains {
        ordered(&chain.filters).map_err(|why| format!("filter chain {:?}: {why}", chain.name))?;
        let rule = chain.filter_chain_match.as_ref().map(ironsail_proto::to_json);
        let rule = rule.transpose().map_err(|error| error.to_string())?;
        let text = rule.map(|rule| rule.to_string()).filter(|text| text != "{}");
        if !seen.insert(text) {
            return Err(format!("filter chain {:?} would match what another does", chain.name));
        }
    }
    Ok(())
}

/// Opens a connection manager, changes it and closes it again.
pub(crate) fn in_manager(
    filter: &mut Filter,
    change: impl FnOnce(&mut HttpConnectionManager) -> Result<(), String>,
) -> Result<(), String> {
    if filter.name != hcm::NAME {
        return Ok(());
    }
    let Some(filter::ConfigType::TypedConfig(any)) = &filter.config_type else { return Ok(()) };
    let mut manager: HttpConnectionManager = unpack(any).map_err(|error| error.to_string())?;
    change(&mut manager)?;
    filter.config_type = Some(filter::ConfigType::TypedConfig(pack(&manager)));
    Ok(())
}

/// Patches of the routes that are inside a listener.
pub(super) fn inline_routes(
    patches: &Patches<'_>,
    listener: &mut Listener,
    found: &mut Vec<Diagnostic>,
) {
    for filter in listener.filter_chains.iter_mut().flat_map(|chain| &mut chain.filters) {
        let done = in_manager(filter, |manager| {
            if let Some(RouteSpecifier::RouteConfig(routes)) = &mut manager.route_specifier {
                patches.routes(Context::Inbound, routes, found);
            }
            Ok(())
        });
        debug_assert_eq!(done, Ok(()), "a manager of our own can be read");
    }
}
