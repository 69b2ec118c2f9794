//! How many new streams a second are taken.
//!
//! In: that one comes, and the time; out: how long it must wait for its turn, or that too many wait
//! already. Reads no clock.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The longest wait before a proxy is sent to look for another replica.
const PATIENCE: Duration = Duration::from_secs(1);

/// Gives out turns at a steady rate, with a small reserve.
#[derive(Debug)]
pub(crate) struct Limit {
    gap: Option<Duration>,
    reserve: Duration,
    next: Mutex<Option<Instant>>,
}

impl Limit {
    /// `rate` a second; none or less is no limit.
    pub(crate) fn new(rate: f64) -> Self {
        let gap = (rate > 0.0).then(|| Duration::from_secs_f64(1.0 / rate));
        Self { gap, reserve: Duration::from_secs(1), next: Mutex::new(None) }
    }

    /// How long to wait for a turn; None if that would be too long.
    pub(crate) fn turn(&self, now: Instant) -> Option<Duration> {
        let Some(gap) = self.gap else { return Some(Duration::ZERO) };
        let mut next = self.next.lock();
        // What was not used of the last second may be used now.
        let earliest = now.checked_sub(self.reserve).unwrap_or(now);
        let turn = next.unwrap_or(earliest).max(earliest);
        let wait = turn.saturating_duration_since(now);
        if wait > PATIENCE {
            return None;
        }
        *next = Some(turn + gap);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_turns_are_steady_then_it_is_too_much() {
        let limit = Limit::new(10.0);
        let now = Instant::now();
        let waits: Vec<_> = (0..30).map(|_| limit.turn(now)).collect();
        assert_eq!(waits[..11], [Some(Duration::ZERO); 11]);
        assert_eq!(waits[11], Some(Duration::from_millis(100)));
        assert_eq!(waits[20], Some(Duration::from_secs(1)));
        assert_eq!(waits[21..], [None; 9]);
        assert_eq!(limit.turn(now + Duration::from_secs(5)), Some(Duration::ZERO));
    }

    #[test]
    fn no_rate_is_no_limit() {
        let (limit, now) = (Limit::new(0.0), Instant::now());
        assert!((0..1_000).all(|_| limit.turn(now) == Some(Duration::ZERO)));
    }
}
