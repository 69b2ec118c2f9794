//! The control plane's pages, asked of its pods over a port-forward: they come from the pod's own
//! loopback, so whoever may forward ports may read them.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::Value;

use super::Cluster;
use super::pod::is_ready;

/// Where the control plane serves its version, metrics and debug pages.
const MONITORING: u16 = 15014;

/// One pod of the control plane.
#[derive(Clone, Debug)]
pub(crate) struct Istiod {
    pub(crate) pod: String,
    pub(crate) revision: String,
}

impl Cluster {
    /// The pods of the control plane that are ready, by name.
    pub(crate) async fn istiods(&self) -> anyhow::Result<Vec<Istiod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.istio_namespace);
        let listing = || format!("listing pods of the control plane in {}", self.istio_namespace);
        let how = ListParams::default().labels("app=istiod");
        let found = pods.list(&how).await.with_context(listing)?;
        let mut istiods: Vec<Istiod> = found
            .items
            .iter()
            .filter(|pod| is_ready(pod))
            .map(|pod| Istiod {
                pod: pod.name_any(),
                revision: pod.labels().get("istio.io/rev").cloned().unwrap_or("default".into()),
            })
            .collect();
        istiods.sort_by(|a, b| a.pod.cmp(&b.pod));
        Ok(istiods)
    }
}

impl Istiod {
    /// GET of one of its pages.
    pub(crate) async fn get(&self, cluster: &Cluster, path: &str) -> anyhow::Result<String> {
        self.get_at(cluster, MONITORING, path).await
    }

    /// The same of another port.
    pub(crate) async fn get_at(
        &self,
        cluster: &Cluster,
        port: u16,
        path: &str,
    ) -> anyhow::Result<String> {
        cluster.get(&cluster.istio_namespace, &self.pod, port, path).await
    }

    pub(crate) async fn json(&self, cluster: &Cluster, path: &str) -> anyhow::Result<Value> {
        let text = self.get(cluster, path).await?;
        serde_json::from_str(&text).with_context(|| format!("{path} of {} is no JSON", self.pod))
    }
}
