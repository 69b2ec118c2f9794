//! What the tests share: an API, a node, and words for making pods and waiting for them.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use ironsail_container::{ForkedZygote, Zygote, ZygoteOptions};
use ironsail_kubeapi::admission::{Dial, Stream};
use ironsail_kubeapi::auth::User;
use ironsail_kubeapi::{Config as ApiConfig, Server};
use ironsail_kubelet::etc::ClusterDns;
use ironsail_kubelet::volume::OwnNamespace;
use ironsail_kubelet::{Config, Ground, Kubelet, Streams};
use ironsail_kubestream::pod::{LogOptions, PodRef, PodStreams};
use ironsail_podnet::{Network, NetworkConfig, Node};
use ironsail_sys::clock::Clock;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) const NODE: &str = "node0";

/// A program every Debian has that answers HTTP on the port given as its argument.
pub(crate) const SERVER: &str = r#"use IO::Socket::INET; $|=1; my $s=IO::Socket::INET->new(LocalPort=>$ARGV[0],Listen=>9,ReuseAddr=>1) or die $@;
while(my $c=$s->accept){ while(<$c>){ last if /^\r?\n$/ } print $c "HTTP/1.0 200 OK\r\n\r\nhello from $$\n"; close $c }"#;

pub(crate) struct Bench {
    pub(crate) client: Client,
    pub(crate) node: Node,
    pub(crate) dir: PathBuf,
    zygote: Zygote,
    kubelet: Mutex<Option<Kubelet>>,
}

/// No webhook is called in these tests.
struct Nowhere;

impl Dial for Nowhere {
    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

impl Bench {
    pub(crate) async fn new(zygote: ForkedZygote) -> Self {
        let name = format!("kubelet-{}", std::process::id());
        let dir = std::env::temp_dir().join(&name);
        let options = ZygoteOptions { stage: dir.join("stage"), instance: name };
        let zygote = zygote.connect(&options).expect("connect");
        let network = Network::create(NetworkConfig::ipv4()).await.expect("network");
        let node = network.add_node(NODE).await.expect("node");
        std::fs::create_dir_all(dir.join("api")).expect("directory");
        let config = ApiConfig {
            directory: dir.join("api"),
            service_ranges: vec!["10.96.0.0/16".parse().expect("range")],
            issuer: "https://kubernetes.default.svc".to_owned(),
            endpoint: None,
        };
        let server = Server::open(&config, Arc::new(Nowhere), Clock::system()).await.expect("API");
        let client =
            Client::new(server.service(User::known("admin", &["system:masters"])), "default");
        std::fs::write(dir.join("images.yaml"), "images: {app: {root: host}}").expect("image map");
        let bench = Self { client, node, dir, zygote, kubelet: Mutex::new(None) };
        bench.start_node().await;
        bench
    }

    pub(crate) async fn start_node(&self) {
        let dns = ClusterDns {
            servers: vec!["10.96.0.10".parse().expect("address")],
            domain: "cluster.local".into(),
        };
        let mut config = Config::new(NODE, self.dir.join("node"), dns);
        config.image_map = Some(self.dir.join("images.yaml"));
        config.backoff.base = std::time::Duration::from_millis(300);
        let ground = Ground {
            client: self.client.clone(),
            runtime: Arc::new(self.zygote.clone()),
            network: Arc::new(self.node.clone()),
            mounter: Arc::new(OwnNamespace { default_bytes: 16 << 20 }),
        };
        *self.kubelet.lock() = Some(Kubelet::start(config, ground).await.expect("kubelet"));
    }

    pub(crate) async fn stop_node(&self) {
        let kubelet = self.kubelet.lock().take();
        if let Some(kubelet) = kubelet {
            kubelet.shutdown().await;
        }
    }

    pub(crate) fn streams(&self) -> Streams {
        self.kubelet.lock().as_ref().expect("the node runs").streams()
    }

    pub(crate) fn limits_hold(&self) -> bool {
        self.zygote.limits_refused().is_none()
    }

    pub(crate) async fn tidy_up(&self) {
        self.stop_node().await;
        let _ = std::fs::remove_dir_all(&self.dir);
    }

    /// A fresh namespace.
    pub(crate) async fn space(self: &Arc<Self>, name: &str) -> Space {
        let spaces: Api<Namespace> = Api::all(self.client.clone());
        let object = json!({"metadata": {"name": name}});
        spaces.create(&PostParams::default(), &parse(object)).await.expect("namespace");
        let space = Space { bench: self.clone(), name: name.to_owned() };
        // What controllers make in every namespace.
        space.create::<ServiceAccount>(json!({"metadata": {"name": "default"}})).await;
        let root = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "none"}});
        space.create::<ConfigMap>(root).await;
        space
    }

    /// What is known of a test that failed.
    pub(crate) async fn explain(&self, test: &str) {
        let short = test.rsplit(':').next().unwrap_or(test);
        let pods: Api<Pod> = Api::all(self.client.clone());
        for pod in pods.list(&ListParams::default()).await.into_iter().flatten() {
            let namespace = pod.metadata.namespace.clone().unwrap_or_default();
            if short.replace('_', "-").starts_with(&namespace) {
                let status =
                    pod.status.and_then(|s| serde_json::to_string(&s.container_statuses).ok());
                eprintln!("--- pod {namespace}/{:?}: {status:?}", pod.metadata.name);
                let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
                for event in events.list(&ListParams::default()).await.into_iter().flatten() {
                    eprintln!("    {:?} {:?}", event.reason, event.message);
                }
            }
        }
    }
}

pub(crate) fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a manifest of the test")
}

/// One test's namespace.
pub(crate) struct Space {
    pub(crate) bench: Arc<Bench>,
    pub(crate) name: String,
}

impl Space {
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.bench.client.clone(), &self.name)
    }

    pub(crate) async fn create<K>(&self, object: Value)
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope> + serde::Serialize,
        K: serde::de::DeserializeOwned + Clone + std::fmt::Debug,
        K::DynamicType: Default,
    {
        self.api::<K>().create(&PostParams::default(), &parse(object)).await.expect("create");
    }

    /// Makes a pod on the node.
    pub(crate) async fn pod(&self, name: &str, spec: Value) {
        let mut spec = spec;
        spec["nodeName"] = json!(NODE);
        spec["serviceAccountName"] = json!("default");
        self.create::<Pod>(
            json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}),
        )
        .await;
    }

    /// Waits for the pod to be as wanted and returns it as JSON.
    pub(crate) async fn until(&self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut changes = watch_object(self.api::<Pod>(), name).boxed();
        loop {
            let pod = changes.next().await.expect("a watch does not end").expect("watch");
            let pod = serde_json::to_value(pod).expect("JSON");
            if fits(&pod) {
                return pod;
            }
        }
    }

    pub(crate) async fn ready(&self, name: &str) -> Value {
        self.until(name, is_ready).await
    }

    /// Waits until the pod has succeeded and returns what its container `c` printed.
    pub(crate) async fn output(&self, name: &str) -> String {
        self.until(name, |p| p["status"]["phase"] == "Succeeded").await;
        self.log(name, LogOptions { container: Some("c".into()), ..LogOptions::default() }).await
    }

    pub(crate) fn reference(&self, name: &str) -> PodRef {
        PodRef { namespace: self.name.clone(), name: name.to_owned() }
    }

    pub(crate) async fn log(&self, name: &str, options: LogOptions) -> String {
        let stream = self.bench.streams().logs(self.reference(name), options).await.expect("log");
        let parts: Vec<_> = stream.map(|part| part.expect("log")).collect().await;
        String::from_utf8(parts.concat()).expect("text")
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.api::<Pod>().delete(name, &DeleteParams::default()).await.expect("delete");
        self.until(name, Value::is_null).await;
    }
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions
        .is_some_and(|list| list.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

/// A container of the test image that runs a shell script.
pub(crate) fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "app", "command": ["sh", "-c", script]})
}
