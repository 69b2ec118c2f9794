//! When changes go out: a single one at once, a storm merged.
//!
//! In: that something changed, and the time; out: when to publish. After a publication changes wait for
//! a short silence, and the longer a storm lasts the longer the silence it takes, up to a limit. Reads
//! no clock.

use std::time::Duration;

use tokio::time::Instant;

/// The silence after the first publication of what may become a storm.
const SHORTEST: Duration = Duration::from_millis(5);

/// Limits of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest silence to wait for (`PILOT_DEBOUNCE_AFTER`).
    pub after: Duration,
    /// No change waits longer than this (`PILOT_DEBOUNCE_MAX`).
    pub max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { after: Duration::from_millis(100), max: Duration::from_secs(10) }
    }
}

/// Decides when to publish.
#[derive(Debug)]
pub(crate) struct Debounce {
    limits: Limits,
    silence: Duration,
    published: Option<Instant>,
    waiting: Option<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    first: Instant,
    due: Instant,
}

impl Debounce {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, silence: SHORTEST, published: None, waiting: None }
    }

    /// Something changed.
    pub(crate) fn changed(&mut self, now: Instant) {
        let calm = self.published.is_none_or(|at| now.duration_since(at) >= self.limits.after);
        self.waiting = Some(match self.waiting {
            None if calm => {
                self.silence = SHORTEST;
                Waiting { first: now, due: now }
            }
            // Due already, and so it stays: the caller is about to publish.
            Some(waiting) if waiting.due <= now => waiting,
            waiting => {
                let first = waiting.map_or(now, |w| w.first);
                let silence = self.silence.min(self.limits.after);
                Waiting { first, due: (now + silence).min(first + self.limits.max) }
            }
        });
    }

    /// When to publish; None if nothing changed.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting.map(|w| w.due)
    }

    /// It was published. Gives how long the first change waited.
    pub(crate) fn published(&mut self, now: Instant) -> Duration {
        let waited = self.waiting.take().map_or(Duration::ZERO, |w| now.duration_since(w.first));
        let in_a_storm =
            self.published.is_some_and(|at| now.duration_since(at) < self.limits.after * 2);
        if in_a_storm {
            self.silence = (self.silence * 2).min(self.limits.after);
        }
        self.published = Some(now);
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_single_change_goes_out_at_once() {
        let start = Instant::now();
        let mut debounce = Debounce::new(Limits::default());
        assert_eq!(debounce.due(), None);
        debounce.changed(start);
        assert_eq!(debounce.due(), Some(start));
        debounce.published(start);
        debounce.changed(start + 150 * MS);
        assert_eq!(debounce.due(), Some(start + 150 * MS), "the next one, later, too");
    }

    #[test]
    fn a_second_change_waits_for_a_short_silence() {
        let start = Instant::now();
        let mut debounce = Debounce::new(Limits::default());
        debounce.changed(start);
        debounce.published(start);
        debounce.changed(start + MS);
        debounce.changed(start + 2 * MS);
        assert_eq!(debounce.due(), Some(start + 2 * MS + SHORTEST));
        assert_eq!(debounce.published(start + 7 * MS), 6 * MS);
    }

    /// A change every `step` for `seconds`: how often it is published, and the longest wait.
    fn storm(step: Duration, seconds: u64) -> (usize, Duration) {
        let start = Instant::now();
        let mut debounce = Debounce::new(Limits::default());
        let (mut now, mut count, mut longest) = (start, 0, Duration::ZERO);
        while now < start + Duration::from_secs(seconds) {
            debounce.changed(now);
            let next = now + step;
            if let Some(due) = debounce.due().filter(|due| *due < next) {
                longest = longest.max(debounce.published(due));
                count += 1;
            }
            now = next;
        }
        (count, longest)
    }

    #[test]
    fn a_storm_is_merged_and_never_waits_too_long() {
        let (count, longest) = storm(MS, 30);
        assert!(count <= 5, "{count}");
        assert!(longest <= Duration::from_secs(10), "{longest:?}");
    }

    #[test]
    fn slow_changes_are_not_merged() {
        assert_eq!(storm(150 * MS, 30).0, 200);
    }

    #[test]
    fn a_change_that_is_due_stays_due() {
        let start = Instant::now();
        let mut debounce = Debounce::new(Limits::default());
        debounce.changed(start);
        debounce.changed(start + MS);
        assert_eq!(debounce.due(), Some(start));
    }
}
