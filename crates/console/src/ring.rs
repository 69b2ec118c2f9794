//! The last quarter of an hour: what every flow did, in slots of five seconds.
//!
//! In: the totals that a proxy shows at a moment; out: what happened within the last seconds. Time is
//! what the caller says it is.

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::flow::{Flows, MOST_FLOWS};

/// How long is remembered.
pub(crate) const KEPT: Duration = Duration::from_secs(15 * 60);
const SLOT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Ring {
    slots: VecDeque<(u64, Flows)>,
    /// By proxy, what it showed last.
    last: FxHashMap<String, Flows>,
    begin: Option<Duration>,
    /// Everybody who was there was asked once: who comes now is new.
    complete: bool,
}

fn slot_at(now: Duration) -> u64 {
    now.as_secs() / SLOT.as_secs()
}

impl Ring {
    /// Enters what a proxy shows. The first time it says only where to count from, unless the proxy
    /// is new.
    pub(crate) fn enter(&mut self, now: Duration, proxy: &str, totals: Flows) {
        self.begin.get_or_insert(now);
        self.forget(now);
        let before = match self.last.insert(proxy.to_owned(), totals) {
            Some(before) => before,
            None if self.complete => Flows::default(),
            None => return,
        };
        let totals = &self.last[proxy];
        let number = slot_at(now);
        if self.slots.back().is_none_or(|(last, _)| *last != number) {
            self.slots.push_back((number, Flows::default()));
        }
        let Some((_, slot)) = self.slots.back_mut() else { return };
        for (flow, total) in totals {
            let new = match before.get(flow) {
                Some(before) => total.since(before),
                None => total.clone(),
            };
            if new.is_nothing() || (slot.len() >= MOST_FLOWS && !slot.contains_key(flow)) {
                continue;
            }
            slot.entry(flow.clone()).or_default().add(&new);
        }
    }

    /// All proxies that were there have been entered.
    pub(crate) fn complete(&mut self, now: Duration) {
        self.begin.get_or_insert(now);
        self.complete = true;
    }

    /// Proxies that are gone are forgotten; what they did stays.
    pub(crate) fn keep_proxies(&mut self, is_there: impl Fn(&str) -> bool) {
        self.last.retain(|name, _| is_there(name));
    }

    fn forget(&mut self, now: Duration) {
        let oldest = slot_at(now.saturating_sub(KEPT));
        while self.slots.front().is_some_and(|(number, _)| *number < oldest) {
            self.slots.pop_front();
        }
    }

    /// What happened within the last `window`, and how many seconds of it are known.
    pub(crate) fn within(&self, now: Duration, window: Duration) -> (Flows, f64) {
        let window = window.min(KEPT);
        let oldest = slot_at(now.saturating_sub(window));
        let mut sum = Flows::default();
        for (_, slot) in self.slots.iter().filter(|(number, _)| *number > oldest) {
            for (flow, tally) in slot {
                sum.entry(flow.clone()).or_default().add(tally);
            }
        }
        let known = self.begin.map_or(Duration::ZERO, |begin| now.saturating_sub(begin));
        (sum, known.min(window).as_secs_f64().max(SLOT.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Flow, Tally};

    fn totals(requests: f64) -> Flows {
        [(Flow::default(), Tally { requests, ..Tally::default() })].into_iter().collect()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn requests(ring: &Ring, now: u64, window: u64) -> f64 {
        ring.within(at(now), at(window)).0.values().map(|tally| tally.requests).sum()
    }

    #[test]
    fn only_what_is_new_counts_and_only_for_a_while() {
        let mut ring = Ring::default();
        ring.enter(at(100), "p", totals(1000.0));
        assert_eq!(requests(&ring, 100, 60), 0.0, "nobody knows when these came");
        ring.enter(at(105), "p", totals(1010.0));
        ring.enter(at(110), "p", totals(1030.0));
        assert_eq!(requests(&ring, 110, 60), 30.0);
        assert_eq!(requests(&ring, 200, 60), 0.0);
        assert_eq!(requests(&ring, 200, 900), 30.0);
        ring.enter(at(1100), "p", totals(1030.0));
        assert_eq!(requests(&ring, 1100, 9999), 0.0, "older than a quarter of an hour");
    }

    #[test]
    fn what_a_new_proxy_shows_is_new() {
        let mut ring = Ring::default();
        ring.enter(at(0), "old", totals(500.0));
        ring.complete(at(1));
        ring.enter(at(5), "new", totals(7.0));
        assert_eq!(requests(&ring, 5, 60), 7.0);
    }

    #[test]
    fn a_proxy_that_starts_anew_loses_nothing() {
        let mut ring = Ring::default();
        ring.enter(at(0), "p", totals(50.0));
        ring.enter(at(5), "p", totals(4.0));
        assert_eq!(requests(&ring, 5, 60), 4.0);
        let (_, known) = ring.within(at(5), at(60));
        assert!((known - 5.0).abs() < 0.1, "a rate is over what was seen: {known}");
    }
}
