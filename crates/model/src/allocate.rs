//! Addresses for services that have none: one slot of 240.240.0.0/16 and 2001:2::/48 for each.
//!
//! The slot follows from the service's name, so that all replicas and all restarts agree. Where two
//! names want the same slot the older service has it and the other takes the next free one; the
//! outcome depends only on which services there are, not on the order in which they came.

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

/// Who has which slot.
#[derive(Clone, Debug)]
pub(crate) struct Allocator {
    slots: BTreeMap<u32, Claim>,
    places: BTreeMap<ServiceKey, u32>,
    size: u32,
}

/// 256 blocks of 254 addresses: those that end in .0 and .255 are left out.
const SLOTS: u32 = 256 * 254;

impl Allocator {
    pub(crate) fn new() -> Self {
        Self::with_size(SLOTS)
    }

    fn with_size(size: u32) -> Self {
        Self { slots: BTreeMap::new(), places: BTreeMap::new(), size }
    }

    /// The addresses of a service that has a claim.
    pub(crate) fn addresses(&self, key: &ServiceKey) -> Vec<IpAddr> {
        let Some(slot) = self.places.get(key) else { return Vec::new() };
        let [_, _, high, low] = (slot / 254 * 256 + slot % 254 + 1).to_be_bytes();
        let v6 = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, u16::from_be_bytes([high, low]));
        vec![Ipv4Addr::new(240, 240, high, low).into(), v6.into()]
    }

    pub(crate) fn contains(&self, key: &ServiceKey) -> bool {
        self.places.contains_key(key)
    }

    /// Makes or renews a claim. Services whose address changed go to `moved`. Claims beyond the last
    /// free slot get no address.
    pub(crate) fn claim(
        &mut self,
        key: &ServiceKey,
        created: Option<Timestamp>,
        moved: &mut BTreeSet<ServiceKey>,
    ) {
        if let Some(slot) = self.places.get(key) {
            if self.slots.get(slot).is_some_and(|claim| claim.created == created) {
                return;
            }
            self.release(key, moved);
        }
        self.place(Claim { created, key: key.clone() }, moved);
    }

    pub(crate) fn release(&mut self, key: &ServiceKey, moved: &mut BTreeSet<ServiceKey>) {
        let Some(slot) = self.places.remove(key) else { return };
        self.slots.remove(&slot);
        moved.insert(key.clone());
        // Whoever stands behind it without a gap may have been pushed there.
        let mut behind = Vec::new();
        let mut next = self.after(slot);
        while let Some(claim) = self.slots.remove(&next) {
            self.places.remove(&claim.key);
            behind.push((next, claim));
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
            allocator.claim(&key(n), None, &mut BTreeSet::new());
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

    proptest! {
        /// With few slots, so that claims collide all the time.
        #[test]
        fn who_has_which_address_does_not_depend_on_history(
            steps in prop::collection::vec((any::<bool>(), 0u8..12, 0i64..3), 0..60),
        ) {
            let mut allocator = Allocator::with_size(13);
            let mut there = BTreeMap::new();
            let mut known = BTreeMap::new();
            for (add, n, created) in steps {
                let created = jiff::Timestamp::from_second(created).ok();
                let mut moved = BTreeSet::new();
                match add {
                    true => {
                        allocator.claim(&key(n), created, &mut moved);
                        there.insert(n, created);
                    }
                    false => {
                        allocator.release(&key(n), &mut moved);
                        there.remove(&n);
                    }
                }
                for n in 0..12 {
                    let now = allocator.addresses(&key(n));
                    let before = known.insert(n, now.clone()).unwrap_or_default();
                    prop_assert!(before == now || moved.contains(&key(n)), "{n} moved unsaid");
                }
            }
            let mut fresh = Allocator::with_size(13);
            for (n, created) in &there {
                fresh.claim(&key(*n), *created, &mut BTreeSet::new());
            }
            for n in 0..12 {
                prop_assert_eq!(allocator.addresses(&key(n)), fresh.addresses(&key(n)));
            }
        }
    }
}
