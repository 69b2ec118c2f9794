//! What a network is made from: address ranges and whether it has a way out.
//!
//! In: ranges as the user gave them; out: the share of each node. Pure.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::Error;

/// A node gets this many addresses for its pods (as Kubernetes' defaults do).
const NODE_PREFIX_V4: u8 = 24;
const NODE_PREFIX_V6: u8 = 64;
/// The first node's host number on the backbone; the ones below are podlet's own.
const FIRST_NODE: u128 = 10;

/// The ranges of a network. With one range each it is IPv4; with an IPv6 range beside it, dual stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    pub pod_cidrs: Vec<IpNet>,
    pub service_cidrs: Vec<IpNet>,
    pub backbone_cidrs: Vec<IpNet>,
    /// Whether TCP connections to addresses outside this network are carried on by podlet.
    pub egress: bool,
}

impl NetworkConfig {
    /// The usual IPv4 ranges.
    pub fn ipv4() -> Self {
        let v4 = |a, b, prefix| {
            IpNet::V4(Ipv4Net::new_assert(std::net::Ipv4Addr::new(10, a, b, 0), prefix))
        };
        Self {
            pod_cidrs: vec![v4(244, 0, 16)],
            service_cidrs: vec![v4(96, 0, 16)],
            backbone_cidrs: vec![v4(243, 0, 24)],
            egress: false,
        }
    }

    /// The usual ranges of both families.
    pub fn dual_stack() -> Self {
        let v6 = |group: u16, prefix| {
            let address = std::net::Ipv6Addr::new(0xfd00, 0x10, group, 0, 0, 0, 0, 0);
            IpNet::V6(Ipv6Net::new_assert(address, prefix))
        };
        let mut config = Self::ipv4();
        config.pod_cidrs.push(v6(0x244, 56));
        config.service_cidrs.push(v6(0x96, 112));
        config.backbone_cidrs.push(v6(0x243, 64));
        config
    }

    pub fn is_dual_stack(&self) -> bool {
        self.pod_cidrs.iter().any(|n| matches!(n, IpNet::V6(_)))
    }

    /// Refuses ranges that overlap or that cannot be divided among nodes.
    pub fn check(&self) -> Result<(), Error> {
        let lists = [&self.pod_cidrs, &self.service_cidrs, &self.backbone_cidrs];
        let families = |list: &[IpNet]| -> Vec<bool> {
            list.iter().map(|n| matches!(n, IpNet::V6(_))).collect()
        };
        for list in lists {
            if !matches!(families(list)[..], [false] | [false, true]) {
                return Err(Error::Families);
            }
            if families(list) != families(&self.pod_cidrs) {
                return Err(Error::Families);
            }
        }
        let all: Vec<IpNet> = lists.into_iter().flatten().copied().collect();
        for (i, a) in all.iter().enumerate() {
            if let Some(b) = all[i + 1..].iter().find(|b| a.contains(*b) || b.contains(a)) {
                return Err(Error::Overlap { a: *a, b: *b });
            }
        }
        self.node_ranges(0)?;
        Ok(())
    }

    /// Where podlet itself is on the backbone: the first address of each range.
    pub(crate) fn own_addresses(&self) -> Vec<IpAddr> {
        self.backbone_cidrs.iter().filter_map(|range| host(*range, 1)).collect()
    }

    /// The addresses of node `index` on the backbone.
    pub(crate) fn node_addresses(&self, index: usize) -> Result<Vec<IpAddr>, Error> {
        self.backbone_cidrs
            .iter()
            .map(|range| {
                host(*range, FIRST_NODE + index as u128)
                    .ok_or(Error::NoRoom { what: "another node", range: *range })
            })
            .collect()
    }

    /// The pod ranges of node `index`.
    pub(crate) fn node_ranges(&self, index: usize) -> Result<Vec<IpNet>, Error> {
        self.pod_cidrs
            .iter()
            .map(|range| {
                let no_room = Error::NoRoom { what: "another node", range: *range };
                // A range smaller than a node's usual share is given to one node whole.
                let usual =
                    if matches!(range, IpNet::V4(_)) { NODE_PREFIX_V4 } else { NODE_PREFIX_V6 };
                let prefix = usual.max(range.prefix_len());
                let mut subnets = range
                    .subnets(prefix)
                    .map_err(|_| Error::NoRoom { what: "another node", range: *range })?;
                subnets.nth(index).ok_or(no_room)
            })
            .collect()
    }
}

/// Host `number` of `range`; none for the broadcast address and beyond.
pub(crate) fn host(range: IpNet, number: u128) -> Option<IpAddr> {
    let address = match range.network() {
        IpAddr::V4(base) => {
            let sum = u32::from(base).checked_add(u32::try_from(number).ok()?)?;
            IpAddr::V4(sum.into())
        }
        IpAddr::V6(base) => IpAddr::V6(u128::from(base).checked_add(number)?.into()),
    };
    (range.contains(&address) && address != range.broadcast()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_its_own_share_of_each_range() {
        let config = NetworkConfig::dual_stack();
        config.check().unwrap();
        let shown = |nets: Vec<IpNet>| nets.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown(config.node_ranges(0).unwrap()), ["10.244.0.0/24", "fd00:10:244::/64"]);
        assert_eq!(shown(config.node_ranges(3).unwrap()), ["10.244.3.0/24", "fd00:10:244:3::/64"]);
        assert_eq!(
            config.node_addresses(2).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.243.0.12", "fd00:10:243::c"]
        );
    }

    #[test]
    fn a_range_that_is_used_up_says_so() {
        let mut config = NetworkConfig::ipv4();
        config.pod_cidrs = vec!["10.1.0.0/23".parse().unwrap()];
        assert!(config.node_ranges(1).is_ok());
        let error = config.node_ranges(2).unwrap_err();
        assert_eq!(error.to_string(), "no room for another node in 10.1.0.0/23");
    }

    #[test]
    fn overlapping_ranges_are_refused() {
        let mut config = NetworkConfig::ipv4();
        config.service_cidrs = vec!["10.244.7.0/24".parse().unwrap()];
        assert!(matches!(config.check(), Err(Error::Overlap { .. })));
    }

    #[test]
    fn every_kind_of_range_needs_the_same_families() {
        let mut config = NetworkConfig::dual_stack();
        config.service_cidrs.pop();
        assert!(matches!(config.check(), Err(Error::Families)));
    }
}
