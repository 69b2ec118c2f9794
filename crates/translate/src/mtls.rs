//! Whether workloads take mTLS: PeerAuthentications of the mesh, the namespace and the workload.
//!
//! In: the policies of the root namespace and of the workload's, oldest first. Out: a mode for a
//! workload and port, or for a namespace as a whole. A narrower policy wins; `UNSET` inherits.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::Resource;
pub use ironsail_api::istio::security::MutualTlsMode as Mode;
use ironsail_api::istio::security::PeerAuthentication;

use ironsail_model::Snapshot;
use ironsail_names::Namespace;

use crate::Key;

type Policy = Arc<Resource<PeerAuthentication>>;

/// The policies that count in one namespace.
#[derive(Clone, Debug, Default)]
pub struct Policies<'a> {
    mesh: Option<&'a Policy>,
    namespace: Option<&'a Policy>,
    workload: Vec<&'a Policy>,
}

impl<'a> Policies<'a> {
    /// `root` are those of the root namespace, `own` those of the workloads' (none, if it is the
    /// same); each oldest first.
    pub fn new(
        root: impl IntoIterator<Item = &'a Policy>,
        own: impl IntoIterator<Item = &'a Policy>,
    ) -> Self {
        let mesh = root.into_iter().find(|p| selector(p).is_none());
        let (workload, namespace): (Vec<_>, Vec<_>) =
            own.into_iter().partition(|p| selector(p).is_some());
        Self { mesh, namespace: namespace.into_iter().next(), workload }
    }

    /// For a port of a workload with `labels`.
    pub fn mode(&self, labels: &BTreeMap<String, String>, port: u16) -> Mode {
        let policy = self.workload.iter().find(|p| selector(p).is_some_and(|s| fits(s, labels)));
        let Some(policy) = policy else { return self.namespace_mode() };
        let ports = &policy.spec.port_level_mtls;
        let at_port = ports.get(&u32::from(port)).and_then(|m| said(m.mode));
        at_port.or_else(|| own(policy)).unwrap_or_else(|| self.namespace_mode())
    }

    /// For workloads of which nothing is known but their namespace.
    pub fn namespace_mode(&self) -> Mode {
        let own = self.namespace.and_then(own);
        own.or_else(|| self.mesh.and_then(self::own)).unwrap_or(Mode::Permissive)
    }

    pub(crate) fn write(&self, key: Key) -> Key {
        key.maybe(self.mesh, |k, p| k.digest(p.digest))
            .maybe(self.namespace, |k, p| k.digest(p.digest))
            .each(&self.workload, |k, p| k.digest(p.digest))
    }
}

/// The policies that count for workloads of `namespace`.
pub fn policies<'a>(snapshot: &'a Snapshot, namespace: &Namespace) -> Policies<'a> {
    let root = &snapshot.mesh.root_namespace;
    let all = &snapshot.config.peer_authentications;
    let own = (namespace != root).then(|| all.in_namespace(namespace));
    Policies::new(all.in_namespace(root), own.into_iter().flatten())
}

fn own(policy: &Policy) -> Option<Mode> {
    policy.spec.mtls.as_ref().and_then(|m| said(m.mode))
}

fn said(mode: Mode) -> Option<Mode> {
    Some(mode).filter(|mode| *mode != Mode::Unset)
}

/// An empty selector is none.
fn selector(policy: &Policy) -> Option<&BTreeMap<String, String>> {
    policy.spec.selector.as_ref().map(|s| &s.match_labels).filter(|labels| !labels.is_empty())
}

fn fits(wanted: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironsail_api::{Kind, Object, decode};
    use serde_json::{Value, json};

    fn policy(name: &str, spec: &Value) -> Policy {
        let value = json!({
            "apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication",
            "metadata": {"name": name, "namespace": "n"}, "spec": spec
        });
        match decode(Kind::PeerAuthentication, &value).object {
            Ok(Object::PeerAuthentication(policy)) => policy,
            other => panic!("a policy, not {other:?}"),
        }
    }

    fn labels(app: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("app".to_owned(), app.to_owned())])
    }

    #[test]
    fn the_narrowest_policy_wins_and_unset_inherits() {
        let mesh = policy("mesh", &json!({"mtls": {"mode": "STRICT"}}));
        let namespace = policy("namespace", &json!({"mtls": {"mode": "UNSET"}}));
        let one = policy(
            "one",
            &json!({
                "selector": {"matchLabels": {"app": "one"}},
                "mtls": {"mode": "DISABLE"},
                "portLevelMtls": {"80": {"mode": "PERMISSIVE"}, "81": {"mode": "UNSET"}}
            }),
        );
        let all = Policies::new([&mesh], [&namespace, &one]);
        assert_eq!(all.namespace_mode(), Mode::Strict);
        assert_eq!(all.mode(&labels("other"), 80), Mode::Strict);
        assert_eq!(all.mode(&labels("one"), 80), Mode::Permissive);
        assert_eq!(all.mode(&labels("one"), 81), Mode::Disable);
        assert_eq!(all.mode(&labels("one"), 82), Mode::Disable);
        assert_eq!(Policies::new([], []).namespace_mode(), Mode::Permissive);
    }
}
