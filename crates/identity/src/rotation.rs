//! When a certificate is renewed: a pure function of its times, the policy and one random number.

use std::time::{Duration, SystemTime};

use crate::certificate::Certificate;

/// When to renew: `SECRET_GRACE_PERIOD_RATIO` and `SECRET_GRACE_PERIOD_RATIO_JITTER`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RenewalPolicy {
    /// The part of the lifetime that should be left when the certificate is renewed.
    pub grace_ratio: f64,
    /// How far the ratio may move to either side, so that workloads that started together do not renew
    /// together.
    pub jitter: f64,
}

impl Default for RenewalPolicy {
    fn default() -> Self {
        Self { grace_ratio: 0.5, jitter: 0.01 }
    }
}

impl RenewalPolicy {
    /// When to renew what is valid in that time; `random` is between -1 and 1.
    pub fn renew_at(
        &self,
        not_before: SystemTime,
        not_after: SystemTime,
        random: f64,
    ) -> SystemTime {
        let ratio = self.grace_ratio + self.jitter * random.clamp(-1.0, 1.0);
        let ratio = if ratio.is_finite() { ratio.clamp(0.0, 1.0) } else { 0.5 };
        let lifetime = not_after.duration_since(not_before).unwrap_or(Duration::ZERO);
        not_before + lifetime.mul_f64(1.0 - ratio)
    }

    /// How long to wait from `now`; zero when it is due or over.
    pub fn wait(&self, certificate: &Certificate, now: SystemTime, random: f64) -> Duration {
        self.renew_at(certificate.not_before(), certificate.not_after(), random)
            .duration_since(now)
            .unwrap_or(Duration::ZERO)
    }

    /// A number for `random`, from the system.
    pub fn random() -> f64 {
        let mut bytes = [0; 4];
        // Without random numbers everybody renews at the same time, which still works.
        let _ = aws_lc_rs::rand::fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX) * 2.0 - 1.0
    }
}

/// How long to wait after the `failures`th failure in a row: from `first` doubling up to `most`.
pub fn backoff(failures: u32, first: Duration, most: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX).max(1)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn half_of_the_life_is_left_at_renewal() {
        let policy = RenewalPolicy { grace_ratio: 0.5, jitter: 0.0 };
        assert_eq!(policy.renew_at(at(1_000), at(2_000), 0.3), at(1_500));
        let policy = RenewalPolicy { grace_ratio: 0.25, jitter: 0.0 };
        assert_eq!(policy.renew_at(at(1_000), at(2_000), 0.3), at(1_750));
    }

    #[test]
    fn jitter_moves_the_moment_to_both_sides_and_not_past_the_ends() {
        let policy = RenewalPolicy { grace_ratio: 0.5, jitter: 0.01 };
        assert_eq!(policy.renew_at(at(0), at(1_000), 1.0), at(490));
        assert_eq!(policy.renew_at(at(0), at(1_000), -1.0), at(510));
        let policy = RenewalPolicy { grace_ratio: 0.999, jitter: 5.0 };
        assert_eq!(policy.renew_at(at(0), at(1_000), 1.0), at(0));
        assert_eq!(policy.renew_at(at(0), at(1_000), -1.0), at(1_000));
        let odd = RenewalPolicy { grace_ratio: f64::NAN, jitter: 0.0 };
        assert_eq!(odd.renew_at(at(0), at(1_000), 0.0), at(500));
        assert_eq!(odd.renew_at(at(1_000), at(0), 0.0), at(1_000));
    }

    #[test]
    fn random_numbers_are_within_bounds() {
        assert!((0..1_000).all(|_| (-1.0..=1.0).contains(&RenewalPolicy::random())));
    }

    #[test]
    fn waits_double_up_to_the_most() {
        let wait = |n| backoff(n, Duration::from_millis(100), Duration::from_secs(2));
        let all: Vec<u128> = [0, 1, 2, 4, 5, 40].map(|n| wait(n).as_millis()).into();
        assert_eq!(all, [100, 200, 400, 1_600, 2_000, 2_000]);
    }
}
