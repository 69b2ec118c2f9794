//! How long to wait before the next try: doubles from a first pause to a longest one, each with
//! jitter so that many who failed together do not come back together.

use std::time::Duration;

use rand::Rng;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Backoff {
    failures: u32,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::up_to(LONGEST)
    }
}

impl Backoff {
    /// Never waits longer than `longest`.
    pub fn up_to(longest: Duration) -> Self {
        Self { failures: 0, longest }
    }

    /// After a success: the next failure waits the first pause again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// How often in a row it failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The pause after one more failure: between half of the doubled pause and all of it.
    pub fn pause(&mut self) -> Duration {
        let full = FIRST.saturating_mul(1 << self.failures.min(16)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(rand::rng().random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_the_longest_and_starts_over_after_a_success() {
        let mut backoff = Backoff::up_to(Duration::from_secs(1));
        let pauses: Vec<_> = (0..40).map(|_| backoff.pause()).collect();
        assert!(pauses[0] <= FIRST && pauses[0] >= FIRST / 2);
        assert!(pauses[2] >= FIRST * 2, "{:?}", pauses[2]);
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(1)));
        assert!(pauses[39] >= Duration::from_millis(500));
        backoff.reset();
        assert!(backoff.pause() <= FIRST);
    }
}
