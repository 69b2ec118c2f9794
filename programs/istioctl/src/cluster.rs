//! The Kubernetes API of the mesh: a client by the global flags, and what commands do with it.

mod istiod;
mod pod;
mod workload;

pub(crate) use pod::{PROXY, has_proxy};
pub(crate) use workload::Named;

use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::global::Global;

/// How long connecting may take: a command that hangs is worse than one that fails.
const CONNECT: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: kube::Client,
    /// Of what is named without one.
    pub(crate) namespace: String,
    pub(crate) istio_namespace: String,
}

impl Cluster {
    /// A client as the flags and the kubeconfig say. Nothing is asked yet.
    pub(crate) async fn connect(global: &Global) -> anyhow::Result<Self> {
        let mut config = config(global).await?;
        config.connect_timeout = Some(CONNECT);
        let auth = &mut config.auth_info;
        if let Some(user) = &global.as_user {
            auth.impersonate = Some(user.clone());
        }
        if !global.as_group.is_empty() {
            auth.impersonate_groups = Some(global.as_group.clone());
        }
        if let Some(uid) = &global.as_uid {
            auth.impersonate_uid = Some(uid.clone());
        }
        let namespace = global.namespace.clone().unwrap_or(config.default_namespace.clone());
        let client = kube::Client::try_from(config).context("making a client of Kubernetes")?;
        Ok(Self { client, namespace, istio_namespace: global.istio_namespace.clone() })
    }
}

async fn config(global: &Global) -> anyhow::Result<kube::Config> {
    let options = KubeConfigOptions { context: global.context.clone(), ..Default::default() };
    match &global.kubeconfig {
        Some(path) => {
            let reading = || format!("reading kubeconfig {}", path.display());
            let file = Kubeconfig::read_from(path).with_context(reading)?;
            kube::Config::from_custom_kubeconfig(file, &options).await.with_context(reading)
        }
        None if global.context.is_some() => {
            kube::Config::from_kubeconfig(&options).await.context("reading the kubeconfig")
        }
        None => kube::Config::infer()
            .await
            .context("no Kubernetes to ask: give --kubeconfig or set KUBECONFIG"),
    }
}
