//! Filter chains before they are Envoy's: what they match, what they do, whether two clash.

use std::collections::BTreeSet;

use ironsail_proto::envoy::config::core::v3::Metadata;
use ironsail_proto::envoy::config::listener::v3::{Filter, FilterChain, FilterChainMatch};
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;

use crate::filter::wire;
use crate::tls;

/// One filter chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    pub(crate) name: String,
    pub(crate) sni: Vec<String>,
    /// Addresses and ranges; an unspecified address matches all.
    pub(crate) ranges: Vec<String>,
    pub(crate) protocols: Vec<String>,
    /// `tls`, `raw_buffer`, or empty for both.
    pub(crate) transport: &'static str,
    pub(crate) tls: Option<DownstreamTlsContext>,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) filters: Vec<Filter>,
}

impl Chain {
    /// Whether every connection fits.
    pub(crate) fn matches_all(&self) -> bool {
        (self.sni.is_empty() || self.sni.iter().any(|h| h == "*"))
            && self.protocols.is_empty()
            && self.transport.is_empty()
            && self.ranges.is_empty()
    }

    /// Whether some connection would fit both in the same way. Envoy refuses such listeners.
    pub(crate) fn clashes_with(&self, other: &Self) -> bool {
        self.transport == other.transport
            && self.protocols == other.protocols
            && self.sni_set() == other.sni_set()
            && self.range_set() == other.range_set()
    }

    fn sni_set(&self) -> BTreeSet<&str> {
        self.sni.iter().map(String::as_str).filter(|h| *h != "*").collect()
    }

    /// Ranges as Envoy would compare them: without the bits that do not count.
    fn range_set(&self) -> BTreeSet<String> {
        self.ranges.iter().filter_map(|r| masked(r)).collect()
    }

    fn rule(&self) -> Option<FilterChainMatch> {
        if self.matches_all() {
            return None;
        }
        let mut server_names = match self.sni.iter().any(|h| h == "*") {
            true => Vec::new(),
            false => self.sni.clone(),
        };
        server_names.sort();
        server_names.dedup();
        let mut ranges = self.ranges.clone();
        ranges.sort();
        ranges.dedup();
        Some(FilterChainMatch {
            server_names,
            prefix_ranges: ranges
                .iter()
                .filter(|r| masked(r).is_some())
                .filter_map(|r| wire::cidr(r))
                .collect(),
            application_protocols: self.protocols.clone(),
            transport_protocol: self.transport.to_owned(),
            ..Default::default()
        })
    }

    pub(crate) fn build(self) -> FilterChain {
        FilterChain {
            filter_chain_match: self.rule(),
            transport_socket: self.tls.as_ref().map(tls::socket),
            metadata: self.metadata,
            name: self.name,
            filters: self.filters,
            ..Default::default()
        }
    }
}

/// The range with its host bits cleared; None for all addresses and for what is no range.
fn masked(range: &str) -> Option<String> {
    let cidr = wire::cidr(range)?;
    let address: std::net::IpAddr = cidr.address_prefix.parse().ok()?;
    if address.is_unspecified() {
        return None;
    }
    let length = cidr.prefix_len?.value;
    Some(match address {
        std::net::IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            format!("{}/{length}", std::net::Ipv4Addr::from(u32::from(ip) & mask))
        }
        std::net::IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            format!("{}/{length}", std::net::Ipv6Addr::from(u128::from(ip) & mask))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(sni: &[&str], ranges: &[&str]) -> Chain {
        let owned = |all: &[&str]| all.iter().map(|&s| s.to_owned()).collect();
        Chain { sni: owned(sni), ranges: owned(ranges), ..Default::default() }
    }

    #[test]
    fn chains_clash_when_their_matches_mean_the_same() {
        assert!(chain(&["a", "b"], &[]).clashes_with(&chain(&["b", "a"], &[])));
        assert!(chain(&["*"], &[]).clashes_with(&chain(&[], &[])));
        assert!(chain(&[], &["10.1.0.0/8"]).clashes_with(&chain(&[], &["10.2.3.4/8"])));
        assert!(chain(&[], &["0.0.0.0"]).clashes_with(&chain(&[], &[])));
        assert!(!chain(&["a"], &[]).clashes_with(&chain(&["b"], &[])));
        assert!(!chain(&[], &["10.0.0.0/8"]).clashes_with(&chain(&[], &["10.0.0.0/16"])));
        let tls = Chain { transport: "tls", ..Default::default() };
        assert!(!tls.clashes_with(&Chain::default()));
    }

    #[test]
    fn a_star_matches_all_and_so_has_no_match() {
        assert!(chain(&["*", "a"], &[]).build().filter_chain_match.is_none());
        let built = chain(&["b", "a", "b"], &[]).build();
        assert_eq!(built.filter_chain_match.unwrap().server_names, ["a", "b"]);
    }
}
