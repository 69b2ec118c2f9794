//! Exponential back-off between starts of one container.
//!
//! Pure: times come in, the time of the next start goes out. The first restart is immediate; each
//! further one waits twice as long as the one before, up to a bound; a container that stayed up
//! for twice the bound starts over.

use std::time::Duration;

use tokio::time::Instant;

/// How long restarts wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub base: Duration,
    pub max: Duration,
}

impl Limits {
    /// Kubernetes' own: 10 s doubling to 5 min.
    pub const KUBERNETES: Self =
        Self { base: Duration::from_secs(10), max: Duration::from_secs(300) };
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// The delay before the next start, and when it was set.
    current: Option<(Duration, Instant)>,
}

impl Backoff {
    /// How long a container that ended at `ended` waits; zero for the first time.
    pub fn delay(&self, ended: Instant, limits: Limits) -> Duration {
        match self.current {
            Some((delay, set)) if ended.saturating_duration_since(set) <= limits.max * 2 => delay,
            _ => Duration::ZERO,
        }
    }

    /// Notes that a start happens at `now`, after an end at `ended`.
    pub fn restarted(&mut self, ended: Instant, now: Instant, limits: Limits) {
        let next = match self.delay(ended, limits) {
            Duration::ZERO => limits.base,
            delay => (delay * 2).min(limits.max),
        };
        self.current = Some((next, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_the_bound_and_start_over_after_a_long_run() {
        let limits = Limits::KUBERNETES;
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        let mut seen = Vec::new();
        for _ in 0..8 {
            let delay = backoff.delay(now, limits);
            seen.push(delay.as_secs());
            let ended = now;
            now += delay;
            backoff.restarted(ended, now, limits);
        }
        assert_eq!(seen, [0, 10, 20, 40, 80, 160, 300, 300]);
        now += Duration::from_secs(601);
        assert_eq!(backoff.delay(now, limits), Duration::ZERO);
        backoff.restarted(now, now, limits);
        assert_eq!(backoff.delay(now, limits), Duration::from_secs(10));
    }
}
