//! Which filter chain of a listener takes a connection.
//!
//! As Envoy does it: port, address, server name, transport, application protocol, in that order, each
//! time the most specific that fits, and never back: a chain that lost at one stage is out, even if the
//! winner fails at a later one.

use std::net::IpAddr;

use ipnet::IpNet;
use ironsail_proto::envoy::config::core::v3::CidrRange;
use ironsail_proto::envoy::config::listener::v3::{
    FilterChain, FilterChainMatch, Listener, ListenerFilter, ListenerFilterChainMatchPredicate,
    listener_filter_chain_match_predicate::Rule,
};

use super::request::{Connection, Transport};

/// The chain, or none: then the connection is closed.
pub(crate) fn choose<'a>(
    listener: &'a Listener,
    connection: &Connection,
) -> Option<&'a FilterChain> {
    let seen = Seen::new(listener, connection);
    let chains: Vec<(&FilterChain, FilterChainMatch)> = listener
        .filter_chains
        .iter()
        .map(|chain| (chain, chain.filter_chain_match.clone().unwrap_or_default()))
        .collect();
    let found = by_port(chains, connection.port)
        .and_then(|chains| by_address(chains, connection.destination))
        .and_then(|chains| by_server_name(chains, seen.sni))
        .and_then(|chains| by_transport(chains, seen.transport))
        .and_then(|chains| by_protocol(chains, &seen.protocols))
        .and_then(|chains| by_source(chains, connection.source));
    found.or(listener.default_filter_chain.as_ref())
}

type Chains<'a> = Vec<(&'a FilterChain, FilterChainMatch)>;

/// What the listener's inspectors find out.
struct Seen<'a> {
    sni: &'a str,
    transport: &'static str,
    protocols: Vec<&'a str>,
}

impl<'a> Seen<'a> {
    fn new(listener: &Listener, connection: &'a Connection) -> Self {
        let on = |name: &str| {
            let filter = listener.listener_filters.iter().find(|f| f.name.ends_with(name));
            filter.is_some_and(|filter| !is_off(filter, connection.port))
        };
        let mut seen = Seen { sni: "", transport: "raw_buffer", protocols: Vec::new() };
        match &connection.transport {
            Transport::Tls { sni, alpn } if on("tls_inspector") => {
                seen.sni = sni;
                seen.transport = "tls";
                seen.protocols = alpn.iter().map(String::as_str).collect();
            }
            Transport::Raw if on("http_inspector") => seen.protocols.extend(connection.plain),
            _ => {}
        }
        seen
    }
}

fn is_off(filter: &ListenerFilter, port: u16) -> bool {
    filter.filter_disabled.as_ref().is_some_and(|predicate| holds(predicate, port))
}

fn holds(predicate: &ListenerFilterChainMatchPredicate, port: u16) -> bool {
    match &predicate.rule {
        Some(Rule::OrMatch(set)) => set.rules.iter().any(|rule| holds(rule, port)),
        Some(Rule::AndMatch(set)) => set.rules.iter().all(|rule| holds(rule, port)),
        Some(Rule::NotMatch(rule)) => !holds(rule, port),
        Some(Rule::AnyMatch(any)) => *any,
        Some(Rule::DestinationPortRange(range)) => {
            (range.start..range.end).contains(&i32::from(port))
        }
        None => false,
    }
}

fn by_port(chains: Chains<'_>, port: u16) -> Option<Chains<'_>> {
    let own = |rule: &FilterChainMatch| rule.destination_port.map(|port| port.value);
    let exact: Chains<'_> =
        chains.iter().filter(|(_, rule)| own(rule) == Some(port.into())).cloned().collect();
    if !exact.is_empty() {
        return Some(exact);
    }
    some(chains.into_iter().filter(|(_, rule)| own(rule).is_none()))
}

fn by_address(chains: Chains<'_>, address: Option<IpAddr>) -> Option<Chains<'_>> {
    let length = |ranges: &[CidrRange]| {
        let address = address?;
        let fitting = ranges.iter().filter_map(net).filter(|net| net.contains(&address));
        fitting.map(|net| net.prefix_len()).max()
    };
    let best = chains.iter().filter_map(|(_, rule)| length(&rule.prefix_ranges)).max();
    some(chains.into_iter().filter(|(_, rule)| match best {
        Some(best) => length(&rule.prefix_ranges) == Some(best),
        None => rule.prefix_ranges.is_empty(),
    }))
}

pub(crate) fn net(range: &CidrRange) -> Option<IpNet> {
    let address: IpAddr = range.address_prefix.parse().ok()?;
    let length = range.prefix_len.map_or(0, |length| length.value);
    IpNet::new(address, u8::try_from(length).ok()?).ok()
}

fn by_server_name<'a>(chains: Chains<'a>, sni: &str) -> Option<Chains<'a>> {
    let having = |name: &str| -> Chains<'a> {
        let has = |rule: &FilterChainMatch| rule.server_names.iter().any(|own| own == name);
        chains.iter().filter(|(_, rule)| has(rule)).cloned().collect()
    };
    if !sni.is_empty() {
        let exact = having(sni);
        if !exact.is_empty() {
            return Some(exact);
        }
        // a.b.c is tried as *.b.c, then as *.c.
        let mut rest = sni;
        while let Some((_, parent)) = rest.split_once('.') {
            let wild = having(&format!("*.{parent}"));
            if !wild.is_empty() {
                return Some(wild);
            }
            rest = parent;
        }
    }
    some(chains.into_iter().filter(|(_, rule)| rule.server_names.is_empty()))
}

fn by_transport<'a>(chains: Chains<'a>, transport: &str) -> Option<Chains<'a>> {
    let exact: Chains<'a> =
        chains.iter().filter(|(_, rule)| rule.transport_protocol == transport).cloned().collect();
    if !exact.is_empty() {
        return Some(exact);
    }
    some(chains.into_iter().filter(|(_, rule)| rule.transport_protocol.is_empty()))
}

fn by_protocol<'a>(chains: Chains<'a>, protocols: &[&str]) -> Option<Chains<'a>> {
    for protocol in protocols {
        let has =
            |rule: &FilterChainMatch| rule.application_protocols.iter().any(|own| own == protocol);
        let fitting: Chains<'a> = chains.iter().filter(|(_, rule)| has(rule)).cloned().collect();
        if !fitting.is_empty() {
            return Some(fitting);
        }
    }
    some(chains.into_iter().filter(|(_, rule)| rule.application_protocols.is_empty()))
}

fn by_source(chains: Chains<'_>, source: Option<IpAddr>) -> Option<&FilterChain> {
    let fits = |rule: &FilterChainMatch| {
        let ranges = &rule.source_prefix_ranges;
        let inside = |ip: IpAddr| ranges.iter().filter_map(net).any(|net| net.contains(&ip));
        ranges.is_empty() || source.is_some_and(inside)
    };
    chains.into_iter().find(|(_, rule)| fits(rule)).map(|(chain, _)| chain)
}

fn some<'a>(
    chains: impl Iterator<Item = (&'a FilterChain, FilterChainMatch)>,
) -> Option<Chains<'a>> {
    let chains: Chains<'a> = chains.collect();
    (!chains.is_empty()).then_some(chains)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironsail_proto::from_json;
    use serde_json::{Value, json};

    fn connection(port: u16, transport: Transport) -> Connection {
        Connection {
            destination: "10.1.2.3".parse().ok(),
            port,
            source: None,
            transport,
            plain: Some("http/1.1"),
            peer: None,
        }
    }

    fn tls(sni: &str, alpn: &[&str]) -> Transport {
        Transport::Tls { sni: sni.into(), alpn: alpn.iter().map(|&a| a.into()).collect() }
    }

    fn listener(chains: &Value, default: bool) -> Listener {
        let mut listener: Listener = from_json(&json!({
            "listener_filters": [{"name": "envoy.filters.listener.tls_inspector"},
                {"name": "envoy.filters.listener.http_inspector",
                 "filter_disabled": {"destination_port_range": {"start": 3306, "end": 3307}}}],
            "filter_chains": chains,
        }))
        .unwrap();
        if default {
            let chain = FilterChain { name: "default".into(), ..Default::default() };
            listener.default_filter_chain = Some(chain);
        }
        listener
    }

    fn chosen(chains: &Value, default: bool, connection: &Connection) -> String {
        let listener = listener(chains, default);
        choose(&listener, connection).map_or_else(|| "none".into(), |chain| chain.name.clone())
    }

    #[test]
    fn the_most_specific_chain_wins_stage_by_stage() {
        let chains = json!([
            {"name": "port", "filter_chain_match": {"destination_port": 80}},
            {"name": "net", "filter_chain_match": {"prefix_ranges": [{"address_prefix": "10.0.0.0", "prefix_len": 8}]}},
            {"name": "narrow", "filter_chain_match": {"prefix_ranges": [{"address_prefix": "10.1.0.0", "prefix_len": 16}]}},
        ]);
        let at = |port| chosen(&chains, true, &connection(port, Transport::Raw));
        assert_eq!((at(80).as_str(), at(81).as_str()), ("port", "narrow"));
    }

    #[test]
    fn there_is_no_way_back_to_a_chain_that_lost() {
        // The port is known, but only for TLS: plain text does not fall back to the open chain.
        let chains = json!([
            {"name": "strict", "filter_chain_match": {"destination_port": 80, "transport_protocol": "tls"}},
            {"name": "open", "filter_chain_match": {}},
        ]);
        assert_eq!(chosen(&chains, false, &connection(80, Transport::Raw)), "none");
        assert_eq!(chosen(&chains, true, &connection(80, Transport::Raw)), "default");
        assert_eq!(chosen(&chains, false, &connection(81, Transport::Raw)), "open");
        assert_eq!(chosen(&chains, false, &connection(80, tls("a", &[]))), "strict");
    }

    #[test]
    fn server_names_match_whole_then_by_suffix() {
        let chains = json!([
            {"name": "exact", "filter_chain_match": {"server_names": ["a.b.c"]}},
            {"name": "near", "filter_chain_match": {"server_names": ["*.b.c"]}},
            {"name": "far", "filter_chain_match": {"server_names": ["*.c"]}},
            {"name": "any", "filter_chain_match": {}},
        ]);
        for (sni, wanted) in [
            ("a.b.c", "exact"),
            ("x.b.c", "near"),
            ("x.y.b.c", "near"),
            ("x.c", "far"),
            ("c", "any"),
            ("", "any"),
        ] {
            assert_eq!(chosen(&chains, false, &connection(1, tls(sni, &[]))), wanted, "{sni}");
        }
    }

    #[test]
    fn the_clients_first_protocol_that_a_chain_has_wins() {
        let chains = json!([
            {"name": "http", "filter_chain_match": {"transport_protocol": "tls", "application_protocols": ["istio-http/1.1"]}},
            {"name": "tcp", "filter_chain_match": {"transport_protocol": "tls", "application_protocols": ["istio"]}},
            {"name": "foreign", "filter_chain_match": {"transport_protocol": "tls"}},
            {"name": "plain", "filter_chain_match": {"transport_protocol": "raw_buffer", "application_protocols": ["http/1.1"]}},
            {"name": "bytes", "filter_chain_match": {"transport_protocol": "raw_buffer"}},
        ]);
        let at = |port, transport| chosen(&chains, false, &connection(port, transport));
        assert_eq!(at(80, tls("", &["istio-http/1.1", "istio", "http/1.1"])), "http");
        assert_eq!(at(80, tls("", &["istio"])), "tcp");
        assert_eq!(at(80, tls("", &["h2"])), "foreign");
        assert_eq!(at(80, Transport::Raw), "plain");
        assert_eq!(at(3306, Transport::Raw), "bytes", "nothing is inspected on that port");
    }
}
