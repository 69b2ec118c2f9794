//! Addresses of one range, handed out in turn.
//!
//! In: ask and give back; out: addresses. An address given back is not handed out again until the
//! rest of the range had its turn, so that a late packet for a dead pod does not reach a new one.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::config::host;

/// Host number of the gateway; pods come after it.
const GATEWAY: u128 = 1;
/// No node runs more pods than this; bounds the search in an IPv6 range.
const MOST: u128 = 1 << 16;

#[derive(Debug)]
pub(crate) struct Pool {
    range: IpNet,
    taken: BTreeSet<IpAddr>,
    next: u128,
}

impl Pool {
    pub(crate) fn new(range: IpNet) -> Self {
        Self { range, taken: BTreeSet::new(), next: GATEWAY + 1 }
    }

    pub(crate) fn range(&self) -> IpNet {
        self.range
    }

    pub(crate) fn gateway(&self) -> Option<IpAddr> {
        host(self.range, GATEWAY)
    }

    /// The next free address, or none when all are taken.
    pub(crate) fn take(&mut self) -> Option<IpAddr> {
        for _ in 0..=MOST {
            match host(self.range, self.next).filter(|_| self.next < MOST) {
                Some(address) => {
                    self.next += 1;
                    if self.taken.insert(address) {
                        return Some(address);
                    }
                }
                None => self.next = GATEWAY + 1,
            }
        }
        None
    }

    pub(crate) fn give_back(&mut self, address: &IpAddr) {
        self.taken.remove(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(range: &str) -> Pool {
        Pool::new(range.parse().unwrap())
    }

    fn take(pool: &mut Pool) -> Option<String> {
        pool.take().map(|a| a.to_string())
    }

    #[test]
    fn the_first_pod_comes_after_the_gateway() {
        let mut pool = pool("10.244.0.0/24");
        assert_eq!(pool.gateway().unwrap().to_string(), "10.244.0.1");
        assert_eq!(take(&mut pool).as_deref(), Some("10.244.0.2"));
    }

    #[test]
    fn an_address_given_back_waits_for_its_turn() {
        let mut pool = pool("10.0.0.0/29");
        let first = pool.take().unwrap();
        pool.give_back(&first);
        let rest: Vec<_> = (0..4).map(|_| take(&mut pool).unwrap()).collect();
        assert_eq!(rest, ["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
        assert_eq!(pool.take(), Some(first));
    }

    #[test]
    fn a_full_range_gives_nothing() {
        let mut pool = pool("10.0.0.0/30");
        assert_eq!(take(&mut pool).as_deref(), Some("10.0.0.2"));
        assert_eq!(pool.take(), None);
    }

    #[test]
    fn ipv6_ranges_work_the_same() {
        let mut pool = pool("fd00:10:244:3::/64");
        assert_eq!(pool.gateway().unwrap().to_string(), "fd00:10:244:3::1");
        assert_eq!(take(&mut pool).as_deref(), Some("fd00:10:244:3::2"));
    }
}
