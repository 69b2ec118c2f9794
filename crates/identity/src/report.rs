//! What an agent tells its control plane: which roots its proxy took, and which leaf.
//!
//! It is said only of what the proxy has acknowledged, so that nobody switches to a root too early.

use serde::{Deserialize, Serialize};

/// More roots than any mesh has.
const MAX_ROOTS: usize = 1_000;
/// Longest report.
const MAX_TEXT: usize = 256 << 10;

/// What is in use beside one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrustReport {
    /// Fingerprints of the roots that members of the own mesh are held against.
    pub roots: Vec<String>,
    /// None until there is a certificate.
    pub leaf: Option<HeldLeaf>,
    /// A proxy has taken them. Else they only lie ready.
    pub in_use: bool,
}

/// A workload's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldLeaf {
    /// The fingerprint of the root that it leads to; empty if it leads to none that is known.
    pub root: String,
    pub fingerprint: String,
    /// Seconds since 1970.
    pub not_after: u64,
}

impl TrustReport {
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers")
    }

    /// None if it is none.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let report: Self = serde_json::from_str(text).ok()?;
        (report.roots.len() <= MAX_ROOTS).then_some(report)
    }

    pub fn trusts(&self, root: &str) -> bool {
        self.roots.iter().any(|own| own == root)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_report_comes_over_whole() {
        let leaf = HeldLeaf { root: "aa".into(), fingerprint: "bb".into(), not_after: 7 };
        let report = TrustReport { roots: vec!["aa".into()], leaf: Some(leaf), in_use: true };
        assert_eq!(TrustReport::read(&report.to_text()), Some(report.clone()));
        assert!(report.trusts("aa") && !report.trusts("bb"));
        assert_eq!(TrustReport::read("{}"), Some(TrustReport::default()));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(text in ".{0,200}") {
            let _ = TrustReport::read(&text);
        }
    }
}
