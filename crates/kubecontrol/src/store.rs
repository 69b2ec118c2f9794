//! Every cache that the controllers share, and the world they act in ([`Ctx`]).
//!
//! Each kind is watched once, however many controllers read it. What no controller reads is
//! dropped before an object is kept.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, Endpoints, Namespace, Node, Pod, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};

use crate::Config;
use crate::cache::{Cache, Object, feed};
use crate::event::Recorder;
use crate::key::Key;
use crate::task::Tasks;

pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";
pub(crate) const LEASES: &str = "kube-node-lease";

pub(crate) struct Store {
    pub(crate) pods: Arc<Cache<Pod>>,
    pub(crate) nodes: Arc<Cache<Node>>,
    pub(crate) namespaces: Arc<Cache<Namespace>>,
    pub(crate) services: Arc<Cache<Service>>,
    pub(crate) endpoints: Arc<Cache<Endpoints>>,
    pub(crate) slices: Arc<Cache<EndpointSlice>>,
    pub(crate) deployments: Arc<Cache<Deployment>>,
    pub(crate) replica_sets: Arc<Cache<ReplicaSet>>,
    pub(crate) stateful_sets: Arc<Cache<StatefulSet>>,
    pub(crate) daemon_sets: Arc<Cache<DaemonSet>>,
    pub(crate) revisions: Arc<Cache<ControllerRevision>>,
    pub(crate) jobs: Arc<Cache<Job>>,
    /// Only the accounts called `default`.
    pub(crate) accounts: Arc<Cache<ServiceAccount>>,
    /// Only the maps that carry the API's root certificate.
    pub(crate) root_maps: Arc<Cache<ConfigMap>>,
    /// Only the leases of nodes.
    pub(crate) leases: Arc<Cache<Lease>>,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            pods: Cache::new(trim_pod),
            nodes: Cache::new(trim_node),
            namespaces: Cache::new(trim),
            services: Cache::new(trim),
            endpoints: Cache::new(trim),
            slices: Cache::new(trim),
            deployments: Cache::new(trim),
            replica_sets: Cache::new(trim),
            stateful_sets: Cache::new(trim),
            daemon_sets: Cache::new(trim),
            revisions: Cache::new(trim),
            jobs: Cache::new(trim),
            accounts: Cache::new(trim),
            root_maps: Cache::new(trim),
            leases: Cache::new(trim),
        }
    }

    /// Starts a watch for every cache.
    pub(crate) fn watch(&self, client: &Client, tasks: &mut Tasks) {
        let all = watcher::Config::default;
        let mut start = Start { client, tasks };
        start.watch(&self.pods, all());
        start.watch(&self.nodes, all());
        start.watch(&self.namespaces, all());
        start.watch(&self.services, all());
        start.watch(&self.endpoints, all());
        start.watch(&self.slices, all());
        start.watch(&self.deployments, all());
        start.watch(&self.replica_sets, all());
        start.watch(&self.stateful_sets, all());
        start.watch(&self.daemon_sets, all());
        start.watch(&self.revisions, all());
        start.watch(&self.jobs, all());
        start.watch(&self.accounts, all().fields("metadata.name=default"));
        start.watch(&self.root_maps, all().fields(&format!("metadata.name={ROOT_CA}")));
        let leases = Api::namespaced(client.clone(), LEASES);
        let stop = start.tasks.stop().clone();
        start.tasks.start("watch of leases", feed(self.leases.clone(), leases, all(), stop));
    }

    /// Waits until every cache has been filled once.
    pub(crate) async fn synced(&self) {
        self.pods.synced().await;
        self.nodes.synced().await;
        self.namespaces.synced().await;
        self.services.synced().await;
        self.endpoints.synced().await;
        self.slices.synced().await;
        self.deployments.synced().await;
        self.replica_sets.synced().await;
        self.stateful_sets.synced().await;
        self.daemon_sets.synced().await;
        self.revisions.synced().await;
        self.jobs.synced().await;
        self.accounts.synced().await;
        self.root_maps.synced().await;
        self.leases.synced().await;
    }
}

struct Start<'a> {
    client: &'a Client,
    tasks: &'a mut Tasks,
}

impl Start<'_> {
    fn watch<K: Object>(&mut self, cache: &Arc<Cache<K>>, config: watcher::Config) {
        let api = Api::all(self.client.clone());
        let stop = self.tasks.stop().clone();
        self.tasks.start("watch", feed(cache.clone(), api, config, stop));
    }
}

fn trim<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

fn trim_node(node: &mut Node) {
    trim(node);
    if let Some(status) = &mut node.status {
        status.images = None;
    }
}

/// Of a container, controllers read only its name, ports and restart policy.
fn trim_container(container: &mut Container) {
    *container = Container {
        name: std::mem::take(&mut container.name),
        ports: container.ports.take(),
        restart_policy: container.restart_policy.take(),
        ..Container::default()
    };
}

fn trim_pod(pod: &mut Pod) {
    trim(pod);
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    if let Some(spec) = &mut pod.spec {
        spec.containers.iter_mut().for_each(trim_container);
        spec.init_containers.iter_mut().flatten().for_each(trim_container);
        spec.ephemeral_containers = None;
        spec.volumes = None;
        spec.security_context = None;
        spec.host_aliases = None;
    }
}

/// What a controller needs to act: the API, the caches, the clock, the settings.
pub(crate) struct Ctx {
    pub(crate) client: Client,
    pub(crate) store: Store,
    pub(crate) events: Recorder,
    pub(crate) config: Config,
}

impl Ctx {
    pub(crate) fn api<K>(&self, ns: &str) -> Api<K>
    where
        K: Object + Resource<Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), ns)
    }

    pub(crate) fn cluster<K>(&self) -> Api<K>
    where
        K: Object + Resource<Scope = ClusterResourceScope>,
    {
        Api::all(self.client.clone())
    }

    /// Now, in whole seconds as Kubernetes writes time stamps.
    pub(crate) fn now(&self) -> Timestamp {
        let seconds = self.config.clock.since_epoch().as_secs();
        Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX)
    }

    /// New content is refused in a namespace that is being deleted, so there is no use in trying.
    pub(crate) fn is_ending(&self, ns: &str) -> bool {
        match self.store.namespaces.get(&Key::new("", ns)) {
            Some(namespace) => namespace.metadata.deletion_timestamp.is_some(),
            None => false,
        }
    }
}

pub(crate) fn time(at: Timestamp) -> Option<Time> {
    Some(Time(at))
}

/// Whole time from now until `at`, never negative.
pub(crate) fn until(now: Timestamp, at: Timestamp) -> std::time::Duration {
    std::time::Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

pub(crate) fn is_deleted(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

pub(crate) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or("")
}

pub(crate) fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

pub(crate) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}
