//! A bound on how many sets of label values a proxy counts under.
//!
//! Labels hold what clients say (hosts, workloads), so without a bound a client could fill the memory of
//! its server's proxy. Beyond the bound requests still count, under one set without names.

use std::collections::HashSet;

/// As many sets as a large mesh needs at one proxy.
pub const MOST: usize = 10_000;
/// What stands for a value that was not let in.
pub const OTHER: &str = "other";

/// The sets that are let in, by their digest.
#[derive(Debug)]
pub struct Series {
    known: HashSet<u64>,
    most: usize,
}

impl Default for Series {
    fn default() -> Self {
        Self::new(MOST)
    }
}

impl Series {
    pub fn new(most: usize) -> Self {
        Self { known: HashSet::new(), most }
    }

    /// Whether this set may be counted as it is.
    pub fn admit(&mut self, digest: u64) -> bool {
        if self.known.contains(&digest) {
            return true;
        }
        if self.known.len() >= self.most {
            return false;
        }
        self.known.insert(digest);
        true
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_stays_and_what_is_too_much_is_not_let_in() {
        let mut series = Series::new(2);
        assert!(series.admit(1) && series.admit(2));
        assert!(!series.admit(3));
        assert!(series.admit(1), "known ones count on");
        assert_eq!(series.len(), 2);
    }
}
