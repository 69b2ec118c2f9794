//! Node proxies that ask in the name of workloads of their own node.
//!
//! A node proxy (`CA_TRUSTED_NODE_ACCOUNTS`) may have a certificate of an account only while a pod of
//! that account runs on the node on which the proxy itself runs, both as the cluster knows them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ironsail_names::{Namespace, ServiceAccount, SpiffeId};

use crate::caller::{Caller, Proof};

/// What the cluster knows of pods.
pub trait PodLookup: Send + Sync + 'static {
    /// A pod of a cluster; the cluster's name is empty for the own one.
    fn pod(&self, cluster: &str, namespace: &Namespace, name: &str) -> Option<PodFacts>;

    /// Whether a pod of that account is on the node.
    fn runs_on(
        &self,
        cluster: &str,
        node: &str,
        namespace: &Namespace,
        account: &ServiceAccount,
    ) -> bool;
}

/// A pod, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    pub uid: String,
    pub service_account: String,
    pub node: String,
}

/// Why a caller may not have another's identity.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{setting:?} in CA_TRUSTED_NODE_ACCOUNTS is not NAMESPACE/ACCOUNT")]
    Setting { setting: String, source: Option<ironsail_names::Error> },
    #[error("caller {0} is not allowed to impersonate")]
    NotTrusted(SpiffeId),
    #[error("caller {0} did not prove which pod it is")]
    NoPod(SpiffeId),
    #[error("there is no pod {namespace}/{name}")]
    UnknownPod { namespace: Namespace, name: String },
    #[error("pod {namespace}/{name} has the UID {found}, not {claimed}")]
    OtherPod { namespace: Namespace, name: String, found: String, claimed: String },
    #[error("pod {namespace}/{name} is not of service account {account}")]
    OtherAccount { namespace: Namespace, name: String, account: ServiceAccount },
    #[error("no instances of {identity} found on node {node:?}")]
    NotOnNode { identity: SpiffeId, node: String },
}

/// The accounts of node proxies, and the cluster's pods.
#[derive(Clone)]
pub struct NodeAgents {
    trusted: BTreeSet<(Namespace, ServiceAccount)>,
    pods: Arc<dyn PodLookup>,
}

impl NodeAgents {
    /// `accounts` is the value of `CA_TRUSTED_NODE_ACCOUNTS`: `NAMESPACE/ACCOUNT`, with commas between.
    pub fn new(accounts: &str, pods: Arc<dyn PodLookup>) -> Result<Self, Error> {
        let parse = |setting: &str| {
            let bad = |source| Error::Setting { setting: setting.to_owned(), source };
            let (namespace, account) = setting.split_once('/').ok_or_else(|| bad(None))?;
            let namespace = namespace.parse().map_err(|error| bad(Some(error)))?;
            Ok((namespace, account.parse().map_err(|error| bad(Some(error)))?))
        };
        let accounts = accounts.split(',').map(str::trim).filter(|account| !account.is_empty());
        Ok(Self { trusted: accounts.map(parse).collect::<Result<_, _>>()?, pods })
    }

    /// Whether `caller` may have a certificate for `wanted`.
    pub fn check(&self, caller: &Caller, wanted: &SpiffeId) -> Result<(), Error> {
        let identity = &caller.identity;
        let account = (identity.namespace.clone(), identity.service_account.clone());
        if !self.trusted.contains(&account) {
            return Err(Error::NotTrusted(identity.clone()));
        }
        let Proof::Token { pod: Some(claimed), .. } = &caller.proof else {
            return Err(Error::NoPod(identity.clone()));
        };
        let (namespace, account) = account;
        let name = claimed.name.clone();
        let Some(pod) = self.pods.pod(&caller.cluster, &namespace, &name) else {
            return Err(Error::UnknownPod { namespace, name });
        };
        // A pod made anew under the same name: the caller will get a new token.
        if pod.uid != claimed.uid {
            let (found, claimed) = (pod.uid, claimed.uid.clone());
            return Err(Error::OtherPod { namespace, name, found, claimed });
        }
        if pod.service_account != account.as_str() {
            return Err(Error::OtherAccount { namespace, name, account });
        }
        let (of, by) = (&wanted.namespace, &wanted.service_account);
        if pod.node.is_empty() || !self.pods.runs_on(&caller.cluster, &pod.node, of, by) {
            return Err(Error::NotOnNode { identity: wanted.clone(), node: pod.node });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
