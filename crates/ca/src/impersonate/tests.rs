//! Node proxies and the workloads of their node.

use std::sync::Arc;

use ironsail_names::{Namespace, ServiceAccount};

use super::{Error, NodeAgents, PodFacts, PodLookup};
use crate::caller::{BoundObject, Caller, Proof};

/// The proxy `zt-1` is on `node-1`, where a pod of `app/web` runs.
pub(crate) struct Cluster;

impl PodLookup for Cluster {
    fn pod(&self, cluster: &str, namespace: &Namespace, name: &str) -> Option<PodFacts> {
        let known = (cluster, namespace.as_str(), name) == ("", "istio-system", "zt-1");
        known.then(|| PodFacts {
            uid: "u1".to_owned(),
            service_account: "ztunnel".to_owned(),
            node: "node-1".to_owned(),
        })
    }

    fn runs_on(
        &self,
        _: &str,
        node: &str,
        namespace: &Namespace,
        account: &ServiceAccount,
    ) -> bool {
        (node, namespace.as_str(), account.as_str()) == ("node-1", "app", "web")
    }
}

pub(crate) fn agents() -> NodeAgents {
    NodeAgents::new("istio-system/ztunnel, kube-system/ztunnel", Arc::new(Cluster)).unwrap()
}

fn caller(account: &str, pod: Option<(&str, &str)>) -> Caller {
    let pod = pod.map(|(name, uid)| BoundObject { name: name.to_owned(), uid: uid.to_owned() });
    Caller {
        identity: format!("spiffe://td/ns/istio-system/sa/{account}").parse().unwrap(),
        proof: Proof::Token { pod, node: None },
        cluster: String::new(),
    }
}

fn check(caller: &Caller, wanted: &str) -> Result<(), Error> {
    agents().check(caller, &wanted.parse().unwrap())
}

#[test]
fn a_node_proxy_asks_for_workloads_of_its_node() {
    let proxy = caller("ztunnel", Some(("zt-1", "u1")));
    assert!(check(&proxy, "spiffe://td/ns/app/sa/web").is_ok());
    let elsewhere = check(&proxy, "spiffe://td/ns/app/sa/db");
    assert!(matches!(elsewhere, Err(Error::NotOnNode { .. })));
}

#[test]
fn nobody_else_does() {
    let web = "spiffe://td/ns/app/sa/web";
    let result = check(&caller("other", Some(("zt-1", "u1"))), web);
    assert!(matches!(result, Err(Error::NotTrusted(_))));
    let result = check(&caller("ztunnel", None), web);
    assert!(matches!(result, Err(Error::NoPod(_))));
    let result = check(&caller("ztunnel", Some(("zt-2", "u1"))), web);
    assert!(matches!(result, Err(Error::UnknownPod { .. })));
    let result = check(&caller("ztunnel", Some(("zt-1", "u0"))), web);
    assert!(matches!(result, Err(Error::OtherPod { .. })));
    let mut by_certificate = caller("ztunnel", None);
    by_certificate.proof = Proof::Certificate;
    assert!(matches!(check(&by_certificate, web), Err(Error::NoPod(_))));
    let mut other_cluster = caller("ztunnel", Some(("zt-1", "u1")));
    other_cluster.cluster = "c2".to_owned();
    assert!(matches!(check(&other_cluster, web), Err(Error::UnknownPod { .. })));
}

#[test]
fn a_setting_that_is_no_account_is_refused() {
    for bad in ["ztunnel", "a/b/c", "A/b", "istio-system/"] {
        let result = NodeAgents::new(bad, Arc::new(Cluster));
        assert!(matches!(result, Err(Error::Setting { .. })), "{bad}");
    }
    assert!(NodeAgents::new("", Arc::new(Cluster)).unwrap().trusted.is_empty());
}
