//! Objects that are about a proxy and have no effect on it yet: their owners are told, with the
//! listener that they would have changed.

use ironsail_api::Diagnostic;
use ironsail_model::{ProxyClass, Scope, Snapshot};

use crate::patch::Patches;

/// One diagnostic for each object, in the order of kinds and objects.
pub(super) fn told(snapshot: &Snapshot, scope: &Scope, class: &ProxyClass) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    bootstraps(snapshot, class, &mut out);
    crate::telemetry::told(snapshot, scope, class, &mut out);
    out
}

/// Patches of what Envoy starts with: whoever has no say in it is told.
fn bootstraps(snapshot: &Snapshot, class: &ProxyClass, out: &mut Vec<Diagnostic>) {
    let config = class.proxy_config.as_ref().map(|config| &***config);
    let asks = config.and_then(|config| config.pointer("/proxyMetadata/BOOTSTRAP_XDS_AGENT"));
    let asks = asks.is_some_and(|asks| *asks == "true");
    Patches::of(snapshot, class).told_of_bootstrap(class.kind, asks, out);
}
