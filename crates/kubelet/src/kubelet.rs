//! The node as a whole: watches its pods and gives each a worker.
//!
//! In comes a client, a runtime and a network; out goes a running node. There is one watch for all
//! pods of the node, and one task per pod.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::StreamExt;
use ironsail_sys::clock::Clock;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, reflector};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::config::Config;
use crate::context::{Context, Parts, Shown};
use crate::event::Recorder;
use crate::network::PodNetwork;
use crate::node;
use crate::pod::worker::{Order, Worker};
use crate::runtime::Runtime;
use crate::stream::Streams;
use crate::volume::Mounter;
use crate::volume::token::ApiTokens;

/// A running node.
pub struct Kubelet {
    ctx: Arc<Context>,
    stop: CancellationToken,
    pods: AbortOnDropHandle<()>,
    background: Vec<AbortOnDropHandle<()>>,
}

/// What a node runs on.
pub struct Ground {
    pub client: Client,
    pub runtime: Arc<dyn Runtime>,
    pub network: Arc<dyn PodNetwork>,
    pub mounter: Arc<dyn Mounter>,
}

impl Kubelet {
    /// Registers the node and begins to run its pods.
    pub async fn start(config: Config, ground: Ground) -> Result<Self, node::Error> {
        let Ground { client, runtime, network, mounter } = ground;
        let clock: Clock = config.clock.clone();
        let (recorder, events) =
            Recorder::new(client.clone(), config.node.name.clone(), clock.clone());
        let (services, writer) = reflector::store::<Service>();
        let tokens = Arc::new(ApiTokens { client: client.clone(), clock });
        let parts = Parts {
            config,
            client: client.clone(),
            runtime,
            network,
            mounter,
            tokens,
            services,
            recorder,
        };
        let ctx = Context::new(parts);
        let node = node::register(&ctx).await?;
        let follow = async move {
            let stream =
                watcher(Api::<Service>::all(client), watcher::Config::default()).default_backoff();
            let mut stream = reflector::reflector(writer, stream).boxed();
            while let Some(item) = stream.next().await {
                if let Err(error) = item {
                    tracing::warn!(%error, "cannot watch Services");
                }
            }
        };
        let spawn = |task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
            AbortOnDropHandle::new(tokio::spawn(task))
        };
        let background = vec![
            spawn(Box::pin(events)),
            spawn(Box::pin(follow)),
            spawn(Box::pin(node::heartbeat(ctx.clone(), node))),
        ];
        let stop = CancellationToken::new();
        let pods = AbortOnDropHandle::new(tokio::spawn(Pods::new(ctx.clone()).run(stop.clone())));
        Ok(Self { ctx, stop, pods, background })
    }

    /// What the API server needs for logs, exec, attach and port-forward.
    pub fn streams(&self) -> Streams {
        Streams::new(self.ctx.clone())
    }

    /// Stops every pod gracefully, all at once, and leaves their objects in the API.
    pub async fn shutdown(self) {
        self.stop.cancel();
        if self.pods.await.is_err() {
            tracing::error!(
                node = self.ctx.config.node.name,
                "the task that runs pods has panicked"
            );
        }
        if let Err(error) = node::write_status(&self.ctx, false).await {
            tracing::debug!(%error, "cannot tell that the node goes down");
        }
        drop(self.background);
    }
}

struct Running {
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

/// All workers, by the uid of their pod.
struct Pods {
    ctx: Arc<Context>,
    running: HashMap<String, Running>,
    /// Uids seen in the list that is being received.
    listed: Option<BTreeSet<String>>,
    cleaned: bool,
}

impl Pods {
    fn new(ctx: Arc<Context>) -> Self {
        Self { ctx, running: HashMap::new(), listed: None, cleaned: false }
    }

    async fn run(mut self, stop: CancellationToken) {
        // A container's environment names the Services, so they must be known first.
        let services = self.ctx.services.clone();
        tokio::select! {
            _ = services.wait_until_ready() => {}
            () = stop.cancelled() => return,
        }
        let api: Api<Pod> = Api::all(self.ctx.client.clone());
        let config = watcher::Config::default()
            .fields(&format!("spec.nodeName={}", self.ctx.config.node.name));
        let mut events = watcher(api, config).default_backoff().boxed();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = stop.cancelled() => break,
            };
            match event {
                Some(Ok(event)) => self.handle(event),
                Some(Err(error)) => {
                    tracing::warn!(%error, node = self.ctx.config.node.name, "cannot watch pods");
                }
                None => break,
            }
        }
        let mut tasks = Vec::new();
        for (_, running) in self.running {
            let _ = running.orders.send(Order::Shutdown);
            tasks.push(running.task);
        }
        futures::future::join_all(tasks).await;
    }

    fn handle(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listed = Some(BTreeSet::new()),
            Event::InitApply(pod) => {
                if let (Some(listed), Some(uid)) = (&mut self.listed, &pod.metadata.uid) {
                    listed.insert(uid.clone());
                }
                self.apply(pod);
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let missing: Vec<String> =
                    self.running.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                missing.iter().for_each(|uid| self.gone(uid));
                if !std::mem::replace(&mut self.cleaned, true) {
                    remove_leftovers(&self.ctx, &listed);
                    let ctx = self.ctx.clone();
                    tokio::spawn(async move {
                        if let Some(cni) = &ctx.cni {
                            cni.sweep(&listed).await;
                        }
                    });
                }
            }
            Event::Apply(pod) => self.apply(pod),
            Event::Delete(pod) => self.gone(pod.metadata.uid.as_deref().unwrap_or_default()),
        }
    }

    fn apply(&mut self, pod: Pod) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        // Workers end by themselves; their places are swept when others come.
        self.running.retain(|_, running| !running.task.is_finished());
        let pod = Arc::new(pod);
        if let Some(running) = self.running.get(&uid) {
            let _ = running.orders.send(Order::Update(pod));
            return;
        }
        let shown = show(&self.ctx, &pod);
        let (orders, received) = mpsc::unbounded_channel();
        let worker = Worker::new(self.ctx.clone(), pod.clone(), shown.clone());
        let ctx = self.ctx.clone();
        let task = tokio::spawn(async move {
            Box::pin(worker.run(received)).await;
            hide(&ctx, &shown, &pod);
        });
        self.running.insert(uid, Running { orders, task });
    }

    fn gone(&mut self, uid: &str) {
        if let Some(running) = self.running.get(uid) {
            let _ = running.orders.send(Order::Gone);
        }
    }
}

fn key(pod: &Pod) -> (String, String) {
    let meta = &pod.metadata;
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

fn show(ctx: &Context, pod: &Arc<Pod>) -> Arc<Shown> {
    let (namespace, name) = key(pod);
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let shown = Arc::new(Shown {
        log_directory: ctx.log_directory(&namespace, &name, &uid),
        uid,
        pod: Mutex::new(pod.clone()),
        link: Mutex::new(None),
        containers: Mutex::new(crate::stream::remembered(pod)),
    });
    ctx.pods.lock().insert((namespace, name), shown.clone());
    shown
}

/// Takes the pod out of sight, unless a new one of the same name has come.
fn hide(ctx: &Context, shown: &Arc<Shown>, pod: &Pod) {
    let mut pods = ctx.pods.lock();
    let key = key(pod);
    if pods.get(&key).is_some_and(|current| current.uid == shown.uid) {
        pods.remove(&key);
    }
}

/// Removes files of pods that are no more, left by a run that was killed.
fn remove_leftovers(ctx: &Context, known: &BTreeSet<String>) {
    for (directory, uid_of) in
        [("pods", whole as fn(&str) -> &str), ("logs", after_last_underscore)]
    {
        let Ok(entries) = std::fs::read_dir(ctx.config.data.join(directory)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !known.contains(uid_of(&name))
                && let Err(error) = std::fs::remove_dir_all(entry.path())
            {
                tracing::warn!(path = %entry.path().display(), %error, "cannot remove what a pod left");
            }
        }
    }
}

fn whole(name: &str) -> &str {
    name
}

fn after_last_underscore(name: &str) -> &str {
    name.rsplit('_').next().unwrap_or(name)
}
