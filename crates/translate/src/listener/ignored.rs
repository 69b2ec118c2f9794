//! Objects that are about a proxy and have no effect on it yet: their owners are told, with the
//! listener that they would have changed.

use ironsail_api::istio::networking::ApplyTo;
use ironsail_api::{Code, Diagnostic, Kind, Severity};
use ironsail_model::config::Target;
use ironsail_model::{ProxyClass, Scope, Snapshot};

/// One diagnostic for each object, in the order of kinds and objects.
pub(super) fn told(snapshot: &Snapshot, scope: &Scope, class: &ProxyClass) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    bootstraps(snapshot, class, &mut out);
    crate::telemetry::told(snapshot, scope, class, &mut out);
    out
}

/// Patches of what Envoy starts with: it has it before anything can be said to it.
fn bootstraps(snapshot: &Snapshot, class: &ProxyClass, out: &mut Vec<Diagnostic>) {
    let target = Target::from(class);
    let objects = snapshot.config.envoy_filters.for_workload(snapshot.root_namespace(), target);
    for object in objects {
        for (index, patch) in object.spec.config_patches.iter().enumerate() {
            if patch.apply_to == ApplyTo::Bootstrap {
                let text = "not supported yet: patches of the bootstrap have no effect";
                let (code, severity) = (Code::NOT_SUPPORTED, Severity::Warning);
                let one = Diagnostic::new(code, severity, Kind::EnvoyFilter, &object.meta, text);
                out.push(one.at(format!("spec.configPatches[{index}].applyTo")));
            }
        }
    }
}
