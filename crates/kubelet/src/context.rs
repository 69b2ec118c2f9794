//! What all pods of a node share: settings, the API, the runtime, the network, caches.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Client;
use kube::runtime::reflector::Store;
use parking_lot::Mutex;

use crate::cni::Cni;
use crate::config::Config;
use crate::event::Recorder;
use crate::image::ImageMap;
use crate::network::{Link, PodNetwork};
use crate::object::Cache;
use crate::pod::container::Instance;
use crate::quantity::Amount;
use crate::runtime::Runtime;
use crate::volume::Mounter;
use crate::volume::token::TokenSource;

/// Shared by all workers of a node.
pub struct Context {
    pub config: Config,
    pub client: Client,
    pub runtime: Arc<dyn Runtime>,
    pub network: Arc<dyn PodNetwork>,
    pub mounter: Arc<dyn Mounter>,
    pub tokens: Arc<dyn TokenSource>,
    pub images: ImageMap,
    pub objects: Arc<Cache>,
    pub services: Store<Service>,
    pub recorder: Recorder,
    pub cni: Option<Cni>,
    pub host_ips: Vec<IpAddr>,
    pub allocatable: BTreeMap<String, Amount>,
    pub pods: Mutex<HashMap<(String, String), Arc<Shown>>>,
    stamps: AtomicU64,
}

/// What the streams of a pod need to see of it.
pub struct Shown {
    pub uid: String,
    pub pod: Mutex<Arc<Pod>>,
    pub link: Mutex<Option<Link>>,
    pub log_directory: PathBuf,
    pub containers: Mutex<HashMap<String, ShownContainer>>,
}

#[derive(Clone, Default)]
pub struct ShownContainer {
    /// While it runs.
    pub instance: Option<Arc<Instance>>,
    /// Instances so far; logs are kept of the last two.
    pub restarts: u32,
    pub ever_started: bool,
    /// Why it is not running, as its status tells.
    pub waiting: Option<String>,
}

/// The parts of a context that are made by its owner.
pub struct Parts {
    pub config: Config,
    pub client: Client,
    pub runtime: Arc<dyn Runtime>,
    pub network: Arc<dyn PodNetwork>,
    pub mounter: Arc<dyn Mounter>,
    pub tokens: Arc<dyn TokenSource>,
    pub services: Store<Service>,
    pub recorder: Recorder,
}

impl Context {
    pub fn new(parts: Parts) -> Arc<Self> {
        let Parts { config, client, runtime, network, mounter, tokens, services, recorder } = parts;
        let node = &config.node;
        let allocatable = [
            ("cpu".to_owned(), Amount::whole(i64::from(node.cpus))),
            (
                "memory".to_owned(),
                Amount::whole(i64::try_from(node.memory_bytes).unwrap_or(i64::MAX)),
            ),
        ];
        Arc::new(Self {
            images: ImageMap::new(config.image_map.clone()),
            objects: Cache::new(client.clone()),
            cni: config.cni.clone().map(|cni| Cni::new(cni, network.node_netns())),
            host_ips: network.addresses(),
            allocatable: allocatable.into(),
            pods: Mutex::default(),
            stamps: AtomicU64::new(0),
            config,
            client,
            runtime,
            network,
            mounter,
            tokens,
            services,
            recorder,
        })
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::try_from(self.config.clock.now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// A name for a version of a volume's files that was never used before.
    pub fn stamp(&self) -> String {
        let number = self.stamps.fetch_add(1, Ordering::Relaxed);
        format!("{}.{number}", self.now().strftime("%Y_%m_%d_%H_%M_%S"))
    }

    pub fn pod_directory(&self, uid: &str) -> PathBuf {
        self.config.data.join("pods").join(uid)
    }

    pub fn log_directory(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.config.data.join("logs").join(format!("{namespace}_{name}_{uid}"))
    }

    /// The variables of the Services that `pod` is told of: its namespace's, if it wants links, and
    /// the API's always.
    pub fn service_variables(&self, pod: &Pod) -> BTreeMap<String, String> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        let links = pod.spec.as_ref().and_then(|s| s.enable_service_links).unwrap_or(true);
        let all = self.services.state();
        let wanted = all.iter().filter(|service| {
            let meta = &service.metadata;
            let of_api = meta.namespace.as_deref() == Some("default")
                && meta.name.as_deref() == Some("kubernetes");
            of_api || (links && meta.namespace.as_deref() == Some(namespace))
        });
        crate::env::service::variables(wanted.map(|s| &**s))
    }
}

/// Reads a file of the node that may not be there.
pub fn read_or_empty(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
