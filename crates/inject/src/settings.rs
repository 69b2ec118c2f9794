//! What the process around the injector knows: its revision, the cluster's version, switches.

use std::collections::BTreeMap;
use std::str::FromStr;

#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Empty means `default`.
    pub revision: String,
    pub native_sidecars: NativeSidecars,
    /// The oldest version among the nodes; unknown when nobody asked.
    pub kubernetes: Option<KubeVersion>,
    /// `COMPLIANCE_POLICY`, passed on to proxies.
    pub compliance_policy: String,
    /// `PILOT_INJECTION_INIT_CONTAINERS_BEFORE_PROXY`-like setting: names, in order.
    pub init_before_proxy: Vec<String>,
    /// What templates may read with `env`. Nothing else of the environment is seen.
    pub env: BTreeMap<String, String>,
}

/// `ENABLE_NATIVE_SIDECARS`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NativeSidecars {
    /// Where the cluster can.
    #[default]
    Auto,
    Always,
    Never,
}

impl FromStr for NativeSidecars {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "auto" => Ok(Self::Auto),
            "true" | "1" => Ok(Self::Always),
            "false" | "0" => Ok(Self::Never),
            other => Err(format!("{other:?} is none of auto, true, false")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeVersion {
    pub major: u32,
    pub minor: u32,
}

/// The first version in which init containers that restart are on by default.
const FIRST_NATIVE: KubeVersion = KubeVersion { major: 1, minor: 29 };

impl FromStr for KubeVersion {
    type Err = String;

    /// `v1.34.2`, `1.29`, `v1.30+`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no version of Kubernetes");
        let mut parts = text.trim().trim_start_matches('v').split('.');
        let mut number = || {
            let part = parts.next()?;
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse().ok()
        };
        let major = number().ok_or_else(wrong)?;
        Ok(Self { major, minor: number().ok_or_else(wrong)? })
    }
}

impl Settings {
    /// Whether the proxy is an init container that restarts, if the pod does not say.
    pub(crate) fn native(&self) -> bool {
        match self.native_sidecars {
            NativeSidecars::Always => true,
            NativeSidecars::Never => false,
            // A cluster nobody asked is taken for one of today.
            NativeSidecars::Auto => self.kubernetes.is_none_or(|version| version >= FIRST_NATIVE),
        }
    }

    pub(crate) fn revision_or_default(&self) -> &str {
        if self.revision.is_empty() { "default" } else { &self.revision }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_sidecars_start_with_kubernetes_1_29() {
        let settings = |version: &str, mode: &str| Settings {
            kubernetes: Some(version.parse().unwrap()),
            native_sidecars: mode.parse().unwrap(),
            ..Settings::default()
        };
        assert!(settings("v1.29.0", "auto").native());
        assert!(settings("1.34+", "").native());
        assert!(!settings("v1.28.9-eks", "auto").native());
        assert!(settings("v1.28.9", "true").native());
        assert!(!settings("v1.34.0", "false").native());
        assert!(Settings::default().native());
    }

    #[test]
    fn nonsense_is_no_version() {
        for text in ["", "v", "one.two", "1", "-1.2"] {
            assert!(text.parse::<KubeVersion>().is_err(), "{text}");
        }
        assert!("maybe".parse::<NativeSidecars>().is_err());
    }
}
