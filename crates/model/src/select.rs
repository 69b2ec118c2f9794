//! Labels against selectors.

use std::collections::BTreeMap;

/// Whether `labels` have everything that `wanted` asks for; an empty selector takes all.
pub fn matches(wanted: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}
