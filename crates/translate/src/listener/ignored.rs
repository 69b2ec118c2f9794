//! Objects that are about a proxy and have no effect on it yet: their owners are told, with the
//! listener that they would have changed.

use std::sync::Arc;

use ironsail_api::istio::networking::ApplyTo;
use ironsail_api::{Code, Diagnostic, Kind, Resource, Severity};
use ironsail_model::config::{ConfigTable, Selected, Target};
use ironsail_model::{ProxyClass, Snapshot};

/// One diagnostic for each object, in the order of kinds and objects.
pub(super) fn told(snapshot: &Snapshot, class: &ProxyClass) -> Vec<Diagnostic> {
    let config = &snapshot.config;
    let mut out = Vec::new();
    let mut look = Look { snapshot, class, out: &mut out };
    look.at(Kind::Telemetry, &config.telemetries);
    bootstraps(snapshot, class, &mut out);
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

struct Look<'a> {
    snapshot: &'a Snapshot,
    class: &'a ProxyClass,
    out: &'a mut Vec<Diagnostic>,
}

impl Look<'_> {
    fn at<S: Selected>(&mut self, kind: Kind, table: &ConfigTable<S>) {
        let target = Target::from(self.class);
        let found = table.for_workload(self.snapshot.root_namespace(), target);
        self.out.extend(found.into_iter().map(|object| not_yet(kind, object)));
    }
}

fn not_yet<S>(kind: Kind, object: &Arc<Resource<S>>) -> Diagnostic {
    let text = "not supported yet: it has no effect on proxies";
    Diagnostic::new(Code::NOT_SUPPORTED, Severity::Warning, kind, &object.meta, text).at("spec")
}
