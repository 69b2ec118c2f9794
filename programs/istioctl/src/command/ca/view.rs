//! What the mesh says of its trust: the page `trustz` of every replica of the control plane, and the
//! pods that should have a proxy but are connected to none of them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use ironsail_identity::TrustReport;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, has_proxy};

/// A certificate of an authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Root {
    pub(super) fingerprint: String,
    pub(super) subject: String,
    /// Seconds since 1970.
    pub(super) not_after: u64,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Signing {
    pub(super) origin: String,
    pub(super) certificate: Root,
    /// The fingerprint of the root above it.
    pub(super) root: String,
    /// Of one that signs soon.
    pub(super) next_root: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Proxy {
    pub(super) proxy: String,
    pub(super) namespace: String,
    pub(super) identity: Option<String>,
    /// None if its agent says nothing.
    pub(super) reported: Option<TrustReport>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Page {
    pub(super) signing: Option<Signing>,
    pub(super) roots: Vec<Root>,
    pub(super) other_domains: BTreeMap<String, Vec<Root>>,
    pub(super) problems: Vec<String>,
    pub(super) proxies: Vec<Proxy>,
}

/// All of it at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// By pod.
    pub(super) replicas: BTreeMap<String, Page>,
    /// By their name; of two connections of one proxy the one that says more counts.
    pub(super) proxies: BTreeMap<String, Proxy>,
    /// Pods with a proxy that is connected to no replica.
    pub(super) absent: BTreeSet<String>,
}

impl View {
    pub(super) async fn of(cluster: &Cluster) -> anyhow::Result<Self> {
        let mut view = Self::default();
        let running = running(cluster).await?;
        let istiods = cluster.istiods().await?;
        anyhow::ensure!(
            !istiods.is_empty(),
            "no ready control plane in namespace {}",
            cluster.istio_namespace
        );
        for istiod in istiods {
            let page = istiod.json(cluster, "/debug/trustz").await?;
            let page: Page = serde_json::from_value(page)
                .with_context(|| format!("reading what {} says of trust", istiod.pod))?;
            view.add(istiod.pod, page);
        }
        let here = |pod: &&String| !view.proxies.contains_key(*pod);
        view.absent = running.iter().filter(here).cloned().collect();
        Ok(view)
    }

    pub(super) fn add(&mut self, pod: String, page: Page) {
        for proxy in &page.proxies {
            let known = self.proxies.get(&proxy.proxy);
            if known.is_none_or(|known| known.reported.is_none()) {
                self.proxies.insert(proxy.proxy.clone(), proxy.clone());
            }
        }
        self.replicas.insert(pod, page);
    }

    /// The one that signs on every replica.
    pub(super) fn signing(&self) -> anyhow::Result<&Signing> {
        let mut all = self.replicas.iter().map(|(pod, page)| (pod, page.signing.as_ref()));
        let first = all.next().and_then(|(_, signing)| signing);
        let first = first.context("the control plane does not sign itself (ENABLE_CA_SERVER)")?;
        for (pod, other) in all {
            let same = other.is_some_and(|other| other.root == first.root);
            anyhow::ensure!(same, "{pod} signs with another root than the other replicas");
        }
        Ok(first)
    }
}

/// Pods that run and have a proxy, as the control plane names them.
async fn running(cluster: &Cluster) -> anyhow::Result<BTreeSet<String>> {
    let pods: Api<Pod> = Api::all(cluster.client.clone());
    let pods = pods.list(&ListParams::default()).await.context("listing all pods")?;
    let runs = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        pod.metadata.deletion_timestamp.is_none() && phase == Some("Running") && has_proxy(pod)
    };
    let name = |pod: &Pod| format!("{}.{}", pod.name_any(), pod.namespace().unwrap_or_default());
    Ok(pods.items.iter().filter(runs).map(name).collect())
}
