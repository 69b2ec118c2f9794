//! Listener filters: what is learned of a connection before its filter chain is chosen.

use std::collections::BTreeMap;

use ironsail_proto::envoy::config::listener::v3::{
    FilterChain, ListenerFilter, ListenerFilterChainMatchPredicate,
    listener_filter::ConfigType,
    listener_filter_chain_match_predicate::{MatchSet, Rule},
};
use ironsail_proto::envoy::extensions::filters::listener::{
    http_inspector::v3::HttpInspector, original_dst::v3::OriginalDst,
    original_src::v3::OriginalSrc, proxy_protocol::v3::ProxyProtocol,
    tls_inspector::v3::TlsInspector,
};
use ironsail_proto::envoy::r#type::v3::Int32Range;
use ironsail_proto::{Name, pack};

use super::wire;

/// The transport protocols that the TLS inspector tells apart.
pub const TLS: &str = "tls";
pub const RAW: &str = "raw_buffer";
/// The protocols that the HTTP inspector finds in plain text. HTTP/1.0 only if it is taken at all:
/// otherwise it better passes as TCP than is refused.
pub fn plain_http(http10: bool) -> &'static [&'static str] {
    if http10 { &["http/1.0", "http/1.1", "h2c"] } else { &["http/1.1", "h2c"] }
}

fn filter<M: Name>(name: &str, config: &M) -> ListenerFilter {
    ListenerFilter {
        name: name.into(),
        filter_disabled: None,
        config_type: Some(ConfigType::TypedConfig(pack(config))),
    }
}

pub fn tls_inspector() -> ListenerFilter {
    // A small first read: most clients' greetings fit, and every waiting connection holds one.
    let config = TlsInspector { initial_read_buffer_size: wire::number(512), ..Default::default() };
    filter("envoy.filters.listener.tls_inspector", &config)
}

pub fn http_inspector() -> ListenerFilter {
    filter("envoy.filters.listener.http_inspector", &HttpInspector::default())
}

/// The address that a client meant before iptables redirected it.
pub fn original_dst() -> ListenerFilter {
    filter("envoy.filters.listener.original_dst", &OriginalDst {})
}

/// Keeps the client's address towards the application; the mark lets the kernel find the way back.
pub fn original_src() -> ListenerFilter {
    let config = OriginalSrc { mark: 1337, ..Default::default() };
    filter("envoy.filters.listener.original_src", &config)
}

pub fn proxy_protocol() -> ListenerFilter {
    filter("envoy.filters.listener.proxy_protocol", &ProxyProtocol::default())
}

#[derive(Clone, Copy, Default)]
struct Needs {
    tls: bool,
    http: bool,
}

/// The inspectors that the chains of an inbound listener need, each switched off on ports where no
/// chain needs it: a server that speaks first would wait there for nothing.
pub fn for_chains(chains: &[FilterChain]) -> Vec<ListenerFilter> {
    // Port 0 stands for all ports that no chain names.
    let mut ports: BTreeMap<u32, Needs> = BTreeMap::new();
    for chain in chains {
        let Some(rule) = &chain.filter_chain_match else { continue };
        let needs = ports.entry(rule.destination_port.map_or(0, |p| p.value)).or_default();
        needs.tls |= rule.transport_protocol == TLS;
        needs.http |= rule.application_protocols.iter().any(|p| p == "http/1.1" || p == "h2c");
    }
    let mut filters = Vec::new();
    if ports.values().any(|n| n.tls) {
        let others = ports.get(&0).is_some_and(|n| n.tls);
        let own = |tls: bool| {
            let ports = ports.iter().filter(move |(port, n)| **port != 0 && n.tls == tls);
            ports.map(|(port, _)| *port).collect::<Vec<_>>()
        };
        let filter_disabled =
            if others { any_of(&own(false)) } else { any_of(&own(true)).map(none_of) };
        filters.push(ListenerFilter { filter_disabled, ..tls_inspector() });
    }
    if ports.values().any(|n| n.http) {
        let off: Vec<u32> = ports.iter().filter(|(_, n)| !n.http).map(|(port, _)| *port).collect();
        filters.push(ListenerFilter { filter_disabled: any_of(&off), ..http_inspector() });
    }
    filters
}

fn any_of(ports: &[u32]) -> Option<ListenerFilterChainMatchPredicate> {
    let one = |port: &u32| {
        let start = i32::try_from(*port).unwrap_or_default();
        let range = Int32Range { start, end: start + 1 };
        ListenerFilterChainMatchPredicate { rule: Some(Rule::DestinationPortRange(range)) }
    };
    match ports {
        [] => None,
        [port] => Some(one(port)),
        many => {
            let rules = many.iter().map(one).collect();
            Some(ListenerFilterChainMatchPredicate {
                rule: Some(Rule::OrMatch(MatchSet { rules })),
            })
        }
    }
}

fn none_of(of: ListenerFilterChainMatchPredicate) -> ListenerFilterChainMatchPredicate {
    ListenerFilterChainMatchPredicate { rule: Some(Rule::NotMatch(Box::new(of))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironsail_proto::envoy::config::listener::v3::FilterChainMatch;

    fn chain(port: u32, transport: &str, protocols: &[&str]) -> FilterChain {
        let rule = FilterChainMatch {
            destination_port: if port == 0 { None } else { wire::number(port) },
            transport_protocol: transport.into(),
            application_protocols: protocols.iter().map(|&p| p.into()).collect(),
            ..Default::default()
        };
        FilterChain { filter_chain_match: Some(rule), ..Default::default() }
    }

    #[test]
    fn ports_that_need_no_inspection_have_none() {
        let chains = [chain(0, TLS, &[]), chain(0, RAW, &["http/1.1"]), chain(3306, RAW, &[])];
        let filters = for_chains(&chains);
        let off = any_of(&[3306]);
        assert_eq!(filters.len(), 2);
        assert_eq!(filters[0].filter_disabled, off, "TLS everywhere but on 3306");
        assert_eq!(filters[1].filter_disabled, off);
    }

    #[test]
    fn where_others_need_none_the_ports_that_do_are_named() {
        let chains = [chain(0, RAW, &[]), chain(80, TLS, &[])];
        let filters = for_chains(&chains);
        assert_eq!(filters.len(), 1);
        assert_eq!(filters[0].filter_disabled, any_of(&[80]).map(none_of));
        assert!(for_chains(&[chain(0, RAW, &[])]).is_empty());
    }
}
