//! The environment variables that this program reads, and how they meet the flags.
//!
//! A flag is stronger than a variable, and a variable that names the same setting in another way is
//! stronger than the one named like the flag. A variable that is empty counts as unset.

use ironsail_sys::env::Env;

use crate::args::parse_switch;

/// The variables of one setting, the strongest first.
pub(crate) struct Names(pub(crate) &'static [&'static str]);

/// `--envoy-port` has no variable: for a Service named `envoy`, Kubernetes sets `ENVOY_PORT` to
/// something else.
pub(crate) const NONE: Names = Names(&[]);
pub(crate) const INBOUND_CAPTURE_PORT: Names = Names(&["INBOUND_CAPTURE_PORT"]);
pub(crate) const INBOUND_TUNNEL_PORT: Names = Names(&["INBOUND_TUNNEL_PORT"]);
pub(crate) const PROXY_UID: Names = Names(&["PROXY_UID"]);
pub(crate) const PROXY_GID: Names = Names(&["PROXY_GID"]);
pub(crate) const INTERCEPTION_MODE: Names = Names(&["ISTIO_INBOUND_INTERCEPTION_MODE"]);
pub(crate) const INBOUND_PORTS: Names = Names(&["ISTIO_INBOUND_PORTS"]);
pub(crate) const EXCLUDE_PORTS: Names = Names(&["ISTIO_LOCAL_EXCLUDE_PORTS"]);
pub(crate) const EXCLUDE_INTERFACES: Names = Names(&["ISTIO_EXCLUDE_INTERFACES"]);
pub(crate) const SERVICE_CIDR: Names = Names(&["ISTIO_SERVICE_CIDR"]);
pub(crate) const SERVICE_EXCLUDE_CIDR: Names = Names(&["ISTIO_SERVICE_EXCLUDE_CIDR"]);
pub(crate) const OUTBOUND_PORTS: Names = Names(&["ISTIO_OUTBOUND_PORTS"]);
pub(crate) const OUTBOUND_PORTS_EXCLUDE: Names = Names(&["ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE"]);
pub(crate) const VIRTUAL_INTERFACES: Names = Names(&["KUBE_VIRT_INTERFACES"]);
pub(crate) const TPROXY_MARK: Names = Names(&["ISTIO_INBOUND_TPROXY_MARK"]);
pub(crate) const TPROXY_ROUTE_TABLE: Names = Names(&["ISTIO_INBOUND_TPROXY_ROUTE_TABLE"]);
pub(crate) const PROBE_PORT: Names = Names(&["IPTABLES_PROBE_PORT"]);
pub(crate) const PROBE_TIMEOUT: Names = Names(&["PROBE_TIMEOUT"]);
pub(crate) const NETWORK_NAMESPACE: Names = Names(&["NETWORK_NAMESPACE"]);
pub(crate) const FORCE_BINARY: Names = Names(&["FORCE_IPTABLES_BINARY"]);
pub(crate) const DRY_RUN: Names = Names(&["DRY_RUN"]);
pub(crate) const SKIP_RULE_APPLY: Names = Names(&["SKIP_RULE_APPLY"]);
pub(crate) const RUN_VALIDATION: Names = Names(&["RUN_VALIDATION"]);
pub(crate) const REDIRECT_DNS: Names = Names(&["ISTIO_META_DNS_CAPTURE", "REDIRECT_DNS"]);
pub(crate) const CAPTURE_ALL_DNS: Names = Names(&["CAPTURE_ALL_DNS"]);
pub(crate) const DROP_INVALID: Names = Names(&["INVALID_DROP", "DROP_INVALID"]);
pub(crate) const DUAL_STACK: Names = Names(&["ISTIO_DUAL_STACK", "DUAL_STACK"]);
pub(crate) const CNI_MODE: Names = Names(&["CNI_MODE"]);
pub(crate) const RECONCILE: Names = Names(&["RECONCILE"]);
pub(crate) const CLEANUP_ONLY: Names = Names(&["CLEANUP_ONLY"]);
pub(crate) const FORCE_APPLY: Names = Names(&["FORCE_APPLY"]);
pub(crate) const NATIVE_NFTABLES: Names = Names(&["NATIVE_NFTABLES"]);
/// These three have no flag.
pub(crate) const LOOPBACK_CIDR: Names = Names(&["ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR"]);
pub(crate) const OWNER_GROUPS: Names = Names(&["ISTIO_OUTBOUND_OWNER_GROUPS"]);
pub(crate) const OWNER_GROUPS_EXCLUDE: Names = Names(&["ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE"]);
/// The user that the proxy runs as, by name.
pub(crate) const ENVOY_USER: Names = Names(&["ENVOY_USER"]);

/// Flags and variables, and what is wrong with either.
pub(crate) struct Layers<'a> {
    pub(crate) env: &'a Env,
    pub(crate) faults: Vec<String>,
}

impl Layers<'_> {
    pub(crate) fn text(&self, flag: Option<&String>, names: &Names, default: &str) -> String {
        let variable = || names.0.iter().find_map(|name| self.env.var(name));
        flag.map(String::as_str).or_else(variable).unwrap_or(default).to_owned()
    }

    pub(crate) fn switch(&mut self, flag: Option<bool>, names: &Names) -> bool {
        if let Some(set) = flag {
            return set;
        }
        let found = names.0.iter().find_map(|name| Some((name, self.env.var(name)?)));
        let Some((name, value)) = found else { return false };
        parse_switch(value).unwrap_or_else(|problem| {
            self.faults.push(format!("{name}: {value:?} {problem}"));
            false
        })
    }

    /// A text that is read further; `setting` is what a fault is called by.
    pub(crate) fn parsed<T>(
        &mut self,
        setting: &str,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match parse(text) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.faults.push(format!("{setting}: {text:?} {problem}"));
                None
            }
        }
    }
}
