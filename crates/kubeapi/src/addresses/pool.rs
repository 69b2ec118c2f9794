//! The addresses of one service CIDR.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use rand::Rng;

use super::service::family;

/// Addresses at the start of the range that are given only to those who name them.
const STATIC_BAND: u128 = 256;

pub(super) struct Pool {
    range: IpNet,
    used: BTreeSet<IpAddr>,
}

impl Pool {
    pub(super) fn new(range: IpNet) -> Self {
        Self { range: range.trunc(), used: BTreeSet::new() }
    }

    pub(super) fn family(&self) -> &'static str {
        family(&self.range.network())
    }

    /// Usable addresses: neither the first nor, in IPv4, the last.
    fn size(&self) -> u128 {
        let bits = u32::from(self.range.max_prefix_len() - self.range.prefix_len());
        let all = 1u128.checked_shl(bits).unwrap_or(u128::MAX);
        all.saturating_sub(if self.range.addr().is_ipv4() { 2 } else { 1 })
    }

    /// The usable address number `index`, from 0.
    fn at(&self, index: u128) -> IpAddr {
        match self.range.network() {
            IpAddr::V4(base) => {
                let index = u32::try_from(index).unwrap_or_default();
                IpAddr::V4(u32::from(base).wrapping_add(index).wrapping_add(1).into())
            }
            IpAddr::V6(base) => IpAddr::V6((u128::from(base).wrapping_add(index) + 1).into()),
        }
    }

    pub(super) fn learn(&mut self, address: IpAddr) {
        if self.range.contains(&address) {
            self.used.insert(address);
        }
    }

    pub(super) fn free(&mut self, address: IpAddr) {
        self.used.remove(&address);
    }

    /// Takes a certain address; the error says why not.
    pub(super) fn take(&mut self, address: IpAddr) -> Result<(), String> {
        let inside = self.range.contains(&address)
            && address != self.range.network()
            && (address.is_ipv6() || address != self.range.broadcast());
        if !inside {
            return Err("the provided network does not match the current range".to_owned());
        }
        if !self.used.insert(address) {
            return Err("provided IP is already allocated".to_owned());
        }
        Ok(())
    }

    /// Takes some free address, outside the static band as long as there is one.
    pub(super) fn any(&mut self) -> Option<IpAddr> {
        let size = self.size();
        // Large enough for every machine; keeps the arithmetic and the search bounded.
        let size = size.min(1 << 20);
        if size == 0 {
            return None;
        }
        let band = STATIC_BAND.min(size / 16);
        let start = rand::rng().random_range(band..size);
        let order = (start..size).chain(band..start).chain(0..band);
        let address = order.map(|index| self.at(index)).find(|a| !self.used.contains(a))?;
        self.used.insert(address);
        Some(address)
    }
}
