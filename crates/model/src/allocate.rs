//! Addresses for services that have none: one slot of 240.240.0.0/16 and 2001:2::/48 for each.
//!
//! The slot follows from the service's name, so that all replicas and all restarts agree. Where two
//! names want the same slot the older service has it and the other takes the next free one; the
//! outcome depends only on which services there are, not on the order in which they came.
//!
//! A service that was given addresses before (its status says so) keeps them, whoever gave them, unless
//! an older one has the same; nobody else is given them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;

use crate::ServiceKey;
use crate::hashed::digest;

/// What a claim is ranked by; the smaller one keeps its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    created: Option<Timestamp>,
    key: ServiceKey,
}

/// Addresses that a service had before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pin {
    claim: Claim,
    addresses: Vec<IpAddr>,
}

/// Who has which slot.
#[derive(Clone, Debug)]
pub(crate) struct Allocator {
    slots: BTreeMap<u32, Claim>,
    places: BTreeMap<ServiceKey, u32>,
    pins: BTreeMap<ServiceKey, Pin>,
    /// Who had which address before; the first has it still.
    pinned: BTreeMap<IpAddr, BTreeSet<Claim>>,
    size: u32,
}

/// 256 blocks of 254 addresses: those that end in .0 and .255 are left out.
const SLOTS: u32 = 256 * 254;

impl Allocator {
    pub(crate) fn new() -> Self {
        Self::with_size(SLOTS)
    }

    fn with_size(size: u32) -> Self {
        let (slots, places) = (BTreeMap::new(), BTreeMap::new());
        Self { slots, places, pins: BTreeMap::new(), pinned: BTreeMap::new(), size }
    }

    /// The addresses of a service that has a claim.
    pub(crate) fn addresses(&self, key: &ServiceKey) -> Vec<IpAddr> {
        match (self.kept(key), self.places.get(key)) {
            (Some(pin), _) => pin.addresses.clone(),
            (None, Some(slot)) => addresses_of(*slot).to_vec(),
            (None, None) => Vec::new(),
        }
    }

    pub(crate) fn contains(&self, key: &ServiceKey) -> bool {
        self.places.contains_key(key) || self.pins.contains_key(key)
    }

    /// Makes or renews a claim; `before` are the addresses that the service had already. Services whose
    /// address changed go to `moved`. Claims beyond the last free slot get no address.
    pub(crate) fn claim(
        &mut self,
        key: &ServiceKey,
        created: Option<Timestamp>,
        before: Vec<IpAddr>,
        moved: &mut BTreeSet<ServiceKey>,
    ) {
        let claim = Claim { created, key: key.clone() };
        let pin = (!before.is_empty()).then(|| Pin { claim: claim.clone(), addresses: before });
        if self.pins.get(key) != pin.as_ref() {
            self.set_pin(key, pin, moved);
        }
        if self.kept(key).is_some() {
            return;
        }
        if let Some(slot) = self.places.get(key) {
            if self.slots.get(slot).is_some_and(|claim| claim.created == created) {
                return;
            }
            self.leave(key, moved);
        }
        self.place(claim, moved);
    }

    pub(crate) fn release(&mut self, key: &ServiceKey, moved: &mut BTreeSet<ServiceKey>) {
        if self.pins.contains_key(key) {
            self.set_pin(key, None, moved);
        }
        self.leave(key, moved);
    }

    /// The addresses that the service had before, if they are still its own.
    fn kept(&self, key: &ServiceKey) -> Option<&Pin> {
        let first = |ip: &IpAddr| self.pinned.get(ip).and_then(BTreeSet::first);
        self.pins
            .get(key)
            .filter(|pin| pin.addresses.iter().all(|ip| first(ip) == Some(&pin.claim)))
    }

    /// Changes what a service had before; whoever had the same may win or lose by it.
    fn set_pin(&mut self, key: &ServiceKey, pin: Option<Pin>, moved: &mut BTreeSet<ServiceKey>) {
        let old = self.pins.remove(key);
        let addresses: BTreeSet<IpAddr> =
            [&old, &pin].into_iter().flatten().flat_map(|pin| pin.addresses.clone()).collect();
        if let Some(old) = &old {
            self.pins.insert(key.clone(), old.clone());
        }
        let rivals: BTreeSet<ServiceKey> = addresses
            .iter()
            .flat_map(|ip| self.pinned.get(ip).into_iter().flatten())
            .map(|claim| claim.key.clone())
            .filter(|rival| rival != key)
            .collect();
        let kept: Vec<bool> = rivals.iter().map(|rival| self.kept(rival).is_some()).collect();
        let closed_before = self.closed(&addresses);
        for ip in old.iter().flat_map(|old| &old.addresses) {
            if let Some(claims) = self.pinned.get_mut(ip) {
                claims.retain(|claim| claim.key != *key);
                if claims.is_empty() {
                    self.pinned.remove(ip);
                }
            }
        }
        self.pins.remove(key);
        if let Some(pin) = pin {
            for ip in &pin.addresses {
                self.pinned.entry(*ip).or_default().insert(pin.claim.clone());
            }
            self.pins.insert(key.clone(), pin);
        }
        moved.insert(key.clone());
        if self.kept(key).is_some() {
            self.leave(key, moved);
        }
        if closed_before != self.closed(&addresses) {
            self.place_again(moved);
        }
        for (rival, kept) in rivals.iter().zip(kept) {
            match (kept, self.kept(rival).map(|pin| pin.claim.clone())) {
                (false, Some(_)) => self.leave(rival, moved),
                (true, None) => {
                    let claim = self.pins.get(rival).map(|pin| pin.claim.clone());
                    claim.into_iter().for_each(|claim| self.place(claim, moved));
                }
                _ => continue,
            }
            moved.insert(rival.clone());
        }
    }

    /// The slots among these addresses that nobody may be placed in.
    fn closed(&self, addresses: &BTreeSet<IpAddr>) -> BTreeSet<u32> {
        let slots = addresses.iter().filter_map(|ip| self.slot_of(*ip));
        slots.filter(|slot| self.is_closed(*slot)).collect()
    }

    fn is_closed(&self, slot: u32) -> bool {
        !self.pinned.is_empty() && addresses_of(slot).iter().any(|ip| self.pinned.contains_key(ip))
    }

    fn slot_of(&self, ip: IpAddr) -> Option<u32> {
        let (high, low) = match ip {
            IpAddr::V4(ip) => match ip.octets() {
                [240, 240, high, low] => (high, low),
                _ => return None,
            },
            IpAddr::V6(ip) => match ip.segments() {
                [0x2001, 2, 0, 0, 0, 0, 0, last] => {
                    let [high, low] = last.to_be_bytes();
                    (high, low)
                }
                _ => return None,
            },
        };
        let slot = u32::from(high) * 254 + u32::from(low).checked_sub(1)?;
        Some(slot).filter(|slot| low != 255 && *slot < self.size)
    }

    /// Everybody anew: other slots are open than before.
    fn place_again(&mut self, moved: &mut BTreeSet<ServiceKey>) {
        let before = std::mem::take(&mut self.places);
        for claim in std::mem::take(&mut self.slots).into_values() {
            self.place(claim, &mut BTreeSet::new());
        }
        moved.extend(
            before
                .into_iter()
                .filter_map(|(key, slot)| (self.places.get(&key) != Some(&slot)).then_some(key)),
        );
    }

    fn leave(&mut self, key: &ServiceKey, moved: &mut BTreeSet<ServiceKey>) {
        let Some(slot) = self.places.remove(key) else { return };
        self.slots.remove(&slot);
        moved.insert(key.clone());
        // Whoever stands behind it without a gap may have been pushed there.
        let mut behind = Vec::new();
        let mut next = self.after(slot);
        while next != slot {
            match self.slots.remove(&next) {
                Some(claim) => {
                    self.places.remove(&claim.key);
                    behind.push((next, claim));
                }
                None if self.is_closed(next) => {}
                None => break,
            }
            next = self.after(next);
        }
        for (was, claim) in behind {
            let key = claim.key.clone();
            let mut pushed = BTreeSet::new();
            self.place(claim, &mut pushed);
            pushed.remove(&key);
            moved.extend(pushed);
            if self.places.get(&key) != Some(&was) {
                moved.insert(key);
            }
        }
    }

    fn place(&mut self, mut claim: Claim, moved: &mut BTreeSet<ServiceKey>) {
        let mut slot = self.home(&claim.key);
        for _ in 0..self.size {
            moved.insert(claim.key.clone());
            if !self.is_closed(slot) {
                match self.slots.get_mut(&slot) {
                    None => {
                        self.places.insert(claim.key.clone(), slot);
                        self.slots.insert(slot, claim);
                        return;
                    }
                    Some(holder) if claim < *holder => {
                        self.places.insert(claim.key.clone(), slot);
                        std::mem::swap(holder, &mut claim);
                        self.places.remove(&claim.key);
                    }
                    Some(_) => {}
                }
            }
            slot = self.after(slot);
        }
    }

    fn home(&self, key: &ServiceKey) -> u32 {
        let hash = digest(&(key.namespace.as_str(), key.hostname.as_str()));
        u32::try_from(hash % u64::from(self.size)).expect("smaller than a u32")
    }

    fn after(&self, slot: u32) -> u32 {
        (slot + 1) % self.size
    }
}

fn addresses_of(slot: u32) -> [IpAddr; 2] {
    let [_, _, high, low] = (slot / 254 * 256 + slot % 254 + 1).to_be_bytes();
    let v6 = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, u16::from_be_bytes([high, low]));
    [Ipv4Addr::new(240, 240, high, low).into(), v6.into()]
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::{Allocator, SLOTS};
    use crate::ServiceKey;

    fn key(n: u8) -> ServiceKey {
        ServiceKey::new(format!("h{n}.example.com").parse().unwrap(), "a".parse().unwrap())
    }

    #[test]
    fn addresses_are_in_the_reserved_ranges_and_distinct() {
        let mut allocator = Allocator::new();
        let mut seen = BTreeSet::new();
        for n in 0..=255 {
            allocator.claim(&key(n), None, Vec::new(), &mut BTreeSet::new());
        }
        for n in 0..=255 {
            let addresses = allocator.addresses(&key(n));
            let text = addresses[0].to_string();
            assert!(
                text.starts_with("240.240.") && !text.ends_with(".0") && !text.ends_with(".255"),
                "{text}"
            );
            assert!(addresses[1].to_string().starts_with("2001:2::"));
            assert!(seen.insert(addresses));
        }
        const { assert!(SLOTS < 1 << 16) };
    }

    #[test]
    fn who_had_an_address_keeps_it_and_the_older_of_two_does() {
        let mut allocator = Allocator::new();
        let at = |second| jiff::Timestamp::from_second(second).ok();
        let ip = |text: &str| vec![text.parse().unwrap()];
        let mut claim = |n, second, before| {
            let mut moved = BTreeSet::new();
            allocator.claim(&key(n), at(second), before, &mut moved);
            (allocator.addresses(&key(n)), allocator.clone())
        };
        let own = claim(1, 5, Vec::new()).0;
        assert_eq!(claim(2, 6, own.clone()).0, own, "what was shown to others counts more");
        assert_ne!(claim(1, 5, Vec::new()).0, own);
        assert_eq!(claim(3, 3, ip("192.0.2.1")).0, ip("192.0.2.1"));
        let (younger, _) = claim(4, 4, ip("192.0.2.1"));
        assert!(younger[0].to_string().starts_with("240.240."), "{younger:?}");
        let (_, mut after) = claim(3, 3, Vec::new());
        assert_eq!(after.addresses(&key(4)), ip("192.0.2.1"), "it is free now");
        let mut moved = BTreeSet::new();
        after.release(&key(4), &mut moved);
        assert!(moved.contains(&key(4)) && !after.contains(&key(4)));
    }

    /// A few addresses that services had before: of slots, and of nobody.
    fn had(n: u8) -> Vec<std::net::IpAddr> {
        let all = ["240.240.0.2", "240.240.0.5", "2001:2::5", "2001:2::9", "192.0.2.1"];
        let pair = match n {
            0..5 => vec![all[usize::from(n)]],
            5 => vec![all[1], all[3]],
            6 => vec![all[0], all[4]],
            _ => Vec::new(),
        };
        pair.into_iter().map(|ip| ip.parse().unwrap()).collect()
    }

    proptest! {
        /// With few slots, so that claims collide all the time.
        #[test]
        fn who_has_which_address_does_not_depend_on_history(
            steps in prop::collection::vec((any::<bool>(), 0u8..12, 0i64..3, 0u8..14), 0..60),
        ) {
            let mut allocator = Allocator::with_size(18);
            let mut there = BTreeMap::new();
            let mut known = BTreeMap::new();
            for (add, n, created, before) in steps {
                let created = jiff::Timestamp::from_second(created).ok();
                let mut moved = BTreeSet::new();
                match add {
                    true => {
                        allocator.claim(&key(n), created, had(before), &mut moved);
                        there.insert(n, (created, before));
                    }
                    false => {
                        allocator.release(&key(n), &mut moved);
                        there.remove(&n);
                    }
                }
                let mut seen = BTreeSet::new();
                for n in 0..12 {
                    let now = allocator.addresses(&key(n));
                    prop_assert_eq!(now.is_empty(), !there.contains_key(&n));
                    prop_assert!(now.iter().all(|ip| seen.insert(*ip)), "one address twice");
                    let before = known.insert(n, now.clone()).unwrap_or_default();
                    prop_assert!(before == now || moved.contains(&key(n)), "{n} moved unsaid");
                }
            }
            let mut fresh = Allocator::with_size(18);
            for (n, (created, before)) in &there {
                fresh.claim(&key(*n), *created, had(*before), &mut BTreeSet::new());
            }
            for n in 0..12 {
                prop_assert_eq!(allocator.addresses(&key(n)), fresh.addresses(&key(n)));
            }
        }
    }
}
