//! Which mutual TLS a workload asks of its callers: PeerAuthentication of mesh, namespace, workload
//! and port put together.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::Resource;
use ironsail_api::istio::security::{MutualTls, MutualTlsMode, PeerAuthentication};
use ironsail_names::Namespace;

use super::ConfigTable;
use super::select::{Selected, Target};

/// What a workload takes. `UNSET` has been resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerMode {
    pub mode: MutualTlsMode,
    /// Ports of the workload where it is another one.
    pub ports: BTreeMap<u16, MutualTlsMode>,
}

impl PeerMode {
    pub fn of_port(&self, port: u16) -> MutualTlsMode {
        self.ports.get(&port).copied().unwrap_or(self.mode)
    }
}

impl ConfigTable<PeerAuthentication> {
    /// The mode of a workload; `PERMISSIVE` if nobody says.
    pub fn effective(&self, root: &Namespace, target: Target<'_>) -> PeerMode {
        let mut mode =
            self.of_namespace(root, target.namespace).unwrap_or(MutualTlsMode::Permissive);
        let mut ports = BTreeMap::new();
        let own = (target.namespace != root).then(|| {
            let mut found = self.in_namespace(target.namespace).filter(|p| has_selector(p));
            found.find(|p| target.is_meant_by(&p.spec, target.namespace.as_str()))
        });
        if let Some(policy) = own.flatten() {
            mode = said(policy.spec.mtls.as_ref()).unwrap_or(mode);
            for (port, mtls) in &policy.spec.port_level_mtls {
                if let Ok(port) = u16::try_from(*port) {
                    ports.insert(port, said(Some(mtls)).unwrap_or(mode));
                }
            }
        }
        PeerMode { mode, ports }
    }

    /// What namespace or mesh say, without looking at workloads.
    pub fn of_namespace(&self, root: &Namespace, namespace: &Namespace) -> Option<MutualTlsMode> {
        let whole = |namespace| {
            let policy = self.in_namespace(namespace).find(|policy| !has_selector(policy));
            policy.and_then(|policy| said(policy.spec.mtls.as_ref()))
        };
        whole(namespace).or_else(|| whole(root))
    }
}

fn has_selector(policy: &Arc<Resource<PeerAuthentication>>) -> bool {
    policy.spec.selector().is_some_and(|labels| !labels.is_empty())
}

fn said(mtls: Option<&MutualTls>) -> Option<MutualTlsMode> {
    mtls.map(|mtls| mtls.mode).filter(|mode| *mode != MutualTlsMode::Unset)
}
