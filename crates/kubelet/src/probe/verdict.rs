//! When a run of probe results counts: thresholds, as a pure state.

use k8s_openapi::api::core::v1::Probe;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// Counts equal results in a row.
#[derive(Clone, Debug)]
pub struct Verdict {
    successes_needed: u32,
    failures_needed: u32,
    last: Option<bool>,
    run: u32,
    told: Option<bool>,
}

impl Verdict {
    pub fn new(probe: &Probe) -> Self {
        let at_least_one = |n: Option<i32>, default: u32| {
            n.and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0).unwrap_or(default)
        };
        Self {
            successes_needed: at_least_one(probe.success_threshold, 1),
            failures_needed: at_least_one(probe.failure_threshold, 3),
            last: None,
            run: 0,
            told: None,
        }
    }

    /// Takes a result; returns the new verdict if it changed.
    pub fn add(&mut self, success: bool) -> Option<bool> {
        if self.last == Some(success) {
            self.run = self.run.saturating_add(1);
        } else {
            self.last = Some(success);
            self.run = 1;
        }
        let needed = if success { self.successes_needed } else { self.failures_needed };
        if self.run < needed || self.told == Some(success) {
            return None;
        }
        self.told = Some(success);
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_count_results_in_a_row() {
        let probe =
            Probe { success_threshold: Some(2), failure_threshold: Some(3), ..Probe::default() };
        let mut verdict = Verdict::new(&probe);
        let results =
            [true, false, true, true, true, false, false, true, false, false, false, false];
        let want =
            [None, None, None, Some(true), None, None, None, None, None, None, Some(false), None];
        let got: Vec<_> = results.iter().map(|r| verdict.add(*r)).collect();
        assert_eq!(got, want);
    }
}
