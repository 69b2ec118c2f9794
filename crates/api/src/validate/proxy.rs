//! `ProxyConfig`, the resource.

use super::check::Check;
use super::selector;
use crate::istio::networking::ProxyConfig;

pub(super) fn check(check: &mut Check<'_>, config: &ProxyConfig) {
    selector::workloads(check, "selector", config.selector.as_ref());
    check.require(
        config.concurrency.unwrap_or(0) >= 0,
        || "concurrency must be greater than or equal to 0",
    );
}
