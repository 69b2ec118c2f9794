//! The world of a mesh: its objects from the Kubernetes API, the configuration of proxies from the
//! proxies themselves, asked only of those that a request meets.

use anyhow::Context as _;
use ironsail_explain::{Answer, Config, Objects, Question, World, explain, offline};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use crate::cluster::Cluster;

/// Everything that the engine looks at.
const KINDS: [(&str, &str, &str); 13] = [
    ("", "v1", "Service"),
    ("", "v1", "Pod"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("networking.istio.io", "v1", "VirtualService"),
    ("networking.istio.io", "v1", "DestinationRule"),
    ("networking.istio.io", "v1", "ServiceEntry"),
    ("networking.istio.io", "v1", "Sidecar"),
    ("security.istio.io", "v1", "PeerAuthentication"),
    ("security.istio.io", "v1", "AuthorizationPolicy"),
    ("security.istio.io", "v1", "RequestAuthentication"),
    ("policy.ironsail.io", "v1alpha1", "RateLimitPolicy"),
    ("apps", "v1", "Deployment"),
    ("", "v1", "ConfigMap"),
];
/// A request meets its client and its servers; a route with more ways than these is not followed.
const MOST_PROXIES: usize = 16;

pub(super) struct Live<'a> {
    cluster: &'a Cluster,
    world: World,
}

impl<'a> Live<'a> {
    pub(super) async fn new(cluster: &'a Cluster) -> anyhow::Result<Self> {
        let mut objects = Vec::new();
        for (group, version, kind) in KINDS {
            objects.extend(list(cluster, group, version, kind).await?);
        }
        let pods: Vec<Value> = objects.iter().filter(|o| o["kind"] == "Pod").cloned().collect();
        let mut world = World::new(Objects::new(objects, &cluster.istio_namespace));
        for pod in pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
            world.add(offline::pod(pod));
        }
        Ok(Self { cluster, world })
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// The first pod of a workload.
    pub(super) async fn source(&mut self, text: &str) -> anyhow::Result<String> {
        let pods = self.cluster.pods_of(text).await?;
        let first = pods.first().context("no pod")?;
        Ok(format!("{}.{}", first.name_any(), first.namespace().unwrap_or_default()))
    }

    /// Asks, learns which proxies matter, asks those, and asks again.
    pub(super) async fn explain(&mut self, question: &Question) -> anyhow::Result<Answer> {
        for _ in 0..MOST_PROXIES {
            let answer = explain(&self.world, question);
            let Some(needed) = answer.needs.first() else { return Ok(answer) };
            let config = self.config(needed).await?;
            if let Some(pod) = self.world.pod_mut(needed) {
                pod.config = Some(config);
            }
        }
        Ok(explain(&self.world, question))
    }

    /// What the proxy of a pod has now.
    async fn config(&self, id: &str) -> anyhow::Result<Config> {
        let (pod, namespace) = id.rsplit_once('.').context("a pod's id has its namespace")?;
        let ask = async |page: &str| self.cluster.proxy_admin_json(namespace, pod, page).await;
        let mut config = Config::from_dump(&ask("config_dump?include_eds").await?)
            .with_context(|| format!("the proxy of {id}"))?;
        config.add_health(&ask("clusters?format=json").await?);
        for unread in &config.unread {
            eprintln!("istioctl: the proxy of {id}: cannot read {unread}");
        }
        Ok(config)
    }
}

/// All objects of a kind; a kind that the API does not serve has none.
async fn list(
    cluster: &Cluster,
    group: &str,
    version: &str,
    kind: &str,
) -> anyhow::Result<Vec<Value>> {
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> = match kind {
        "ConfigMap" => {
            Api::namespaced_with(cluster.client.clone(), &cluster.istio_namespace, &resource)
        }
        _ => Api::all_with(cluster.client.clone(), &resource),
    };
    let listed = match api.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        listed => listed.with_context(|| format!("listing {kind} objects"))?,
    };
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    listed
        .items
        .into_iter()
        .map(|one| {
            let mut value = serde_json::to_value(one).context("an object of the API")?;
            // Items of a list do not say their kind.
            value["apiVersion"] = api_version.clone().into();
            value["kind"] = kind.into();
            Ok(value)
        })
        .collect()
}
