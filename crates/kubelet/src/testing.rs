//! Fakes for tests of whole pods: a runtime without processes, a network of one empty namespace,
//! an API that remembers what it was told.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Bytes;
use ironsail_container::{
    ContainerSpec, ExecSpec, ExitStatus, PodPids, StartError, StdioEnds, TerminalSize,
};
use ironsail_sys::netns::Netns;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use crate::config::Config;
use crate::context::{Context, Parts};
use crate::etc::ClusterDns;
use crate::event::{Note, Recorder};
use crate::network::{Attach, Link, PodNetwork};
use crate::runtime::{Process, Runtime, Session, Started, StartedSession};
use crate::volume::Mounter;
use crate::volume::token::ApiTokens;

/// What happened to processes, in order: `start NAME`, `signal NAME 15`, `kill NAME`, `exec …`.
pub(crate) type Trace = watch::Sender<Vec<String>>;

/// A program is its first argument: `run` lives until a signal, `stubborn` until it is killed,
/// `exit N` ends at once, `missing` cannot be started. Commands in it: `true`, `false`, `hang`.
pub(crate) struct FakeRuntime {
    pub(crate) trace: Trace,
    pub(crate) specs: Mutex<Vec<ContainerSpec>>,
    processes: Mutex<BTreeMap<String, Arc<FakeProcess>>>,
}

pub(crate) struct FakeProcess {
    name: String,
    stubborn: bool,
    exit: watch::Sender<Option<ExitStatus>>,
    trace: Trace,
}

struct FakeSession(Option<i32>);

impl Session for FakeSession {
    fn resize(&self, _: TerminalSize) {}
    fn wait(&self) -> BoxFuture<'_, ExitStatus> {
        let code = self.0;
        Box::pin(async move {
            match code {
                Some(code) => ExitStatus::exited(code),
                None => std::future::pending().await,
            }
        })
    }
}

impl Process for FakeProcess {
    fn signal(&self, signal: i32) {
        self.trace.send_modify(|t| t.push(format!("signal {} {signal}", self.name)));
        if !self.stubborn {
            self.exit.send_if_modified(|e| {
                e.is_none().then(|| *e = Some(ExitStatus::signalled(signal))).is_some()
            });
        }
    }
    fn kill(&self) {
        self.trace.send_modify(|t| t.push(format!("kill {}", self.name)));
        self.exit.send_if_modified(|e| {
            e.is_none().then(|| *e = Some(ExitStatus::signalled(9))).is_some()
        });
    }
    fn resize(&self, _: TerminalSize) {}
    fn wait(&self) -> BoxFuture<'_, ExitStatus> {
        let mut exit = self.exit.subscribe();
        Box::pin(async move { exit.wait_for(Option::is_some).await.unwrap().unwrap() })
    }
    fn exec(&self, spec: ExecSpec) -> BoxFuture<'_, Result<StartedSession, StartError>> {
        self.trace.send_modify(|t| t.push(format!("exec {} {}", self.name, spec.argv.join(" "))));
        let code = match spec.argv.first().map(String::as_str) {
            Some("true") => Some(0),
            Some("hang") => None,
            _ => Some(1),
        };
        let session: Box<dyn Session> = Box::new(FakeSession(code));
        Box::pin(async move { Ok(StartedSession { session, stdio: StdioEnds::default() }) })
    }
}

impl FakeRuntime {
    /// Ends the container whose program was started as `NAME …`.
    pub(crate) fn exit(&self, name: &str, status: ExitStatus) {
        let process = self.processes.lock().get(name).cloned().unwrap();
        process.exit.send_replace(Some(status));
    }

    pub(crate) async fn saw(&self, what: &str) {
        self.trace.subscribe().wait_for(|t| t.iter().any(|l| l == what)).await.unwrap();
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.trace.borrow().iter().filter(|l| *l == what).count()
    }
}

impl Runtime for FakeRuntime {
    fn start(&self, spec: ContainerSpec) -> BoxFuture<'_, Result<Started, StartError>> {
        let kind = spec.argv[0].clone();
        let name = spec.argv.get(1).cloned().unwrap_or_default();
        self.specs.lock().push(spec);
        self.trace.send_modify(|t| t.push(format!("start {name}")));
        let exit = kind.strip_prefix("exit").map(|code| ExitStatus::exited(code.parse().unwrap()));
        let process = Arc::new(FakeProcess {
            name: name.clone(),
            stubborn: kind == "stubborn",
            exit: watch::channel(exit).0,
            trace: self.trace.clone(),
        });
        self.processes.lock().insert(name, process.clone());
        Box::pin(async move {
            if kind == "missing" {
                return Err(StartError::NotInPath { program: kind });
            }
            Ok(Started { process, stdio: StdioEnds::default() })
        })
    }

    fn pod_pids(&self) -> BoxFuture<'_, Result<Option<PodPids>, StartError>> {
        Box::pin(async { Ok(None) })
    }

    fn limits_refused(&self) -> Option<&str> {
        None
    }
}

pub(crate) struct FakeNetwork {
    netns: Netns,
    pub(crate) attached: watch::Sender<Vec<String>>,
}

impl FakeNetwork {
    pub(crate) async fn empty(&self) {
        self.attached.subscribe().wait_for(Vec::is_empty).await.unwrap();
    }
}

impl PodNetwork for FakeNetwork {
    fn addresses(&self) -> Vec<IpAddr> {
        vec!["10.243.0.10".parse().unwrap()]
    }
    fn node_netns(&self) -> Netns {
        self.netns.clone()
    }
    fn dial(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(to))
    }
    fn attach<'a>(&'a self, id: &'a str, _: Attach) -> BoxFuture<'a, Result<Link, String>> {
        self.attached.send_modify(|a| a.push(id.to_owned()));
        let link =
            Link { netns: self.netns.clone(), addresses: vec!["127.0.0.1".parse().unwrap()] };
        Box::pin(async move { Ok(link) })
    }
    fn detach<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), String>> {
        self.attached.send_modify(|all| all.retain(|a| a != id));
        Box::pin(async { Ok(()) })
    }
}

struct NoMounts;

impl Mounter for NoMounts {
    fn tmpfs(&self, _: &Path, _: Option<u64>) -> io::Result<()> {
        Ok(())
    }
    fn unmount(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

/// What an API server was told: the pod's status with all patches in it, and other requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) status: Value,
    pub(crate) patches: usize,
    pub(crate) deletes: Vec<String>,
    pub(crate) config_maps: BTreeMap<String, Value>,
}

#[derive(Clone)]
pub(crate) struct FakeApi(pub(crate) watch::Sender<Told>);

impl FakeApi {
    fn new() -> Self {
        Self(watch::channel(Told::default()).0)
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move { Ok::<_, std::convert::Infallible>(api.answer(request).await) }
        });
        Client::new(service, "default")
    }

    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&Told) -> bool) -> Told {
        let mut told = self.0.subscribe();
        let waiting = told.wait_for(|t| fits(t));
        match tokio::time::timeout(std::time::Duration::from_secs(7200), waiting).await {
            Ok(told) => told.unwrap().clone(),
            Err(_) => panic!("never {what}: {:#?}", self.0.borrow()),
        }
    }

    async fn answer(
        &self,
        request: Request<kube::client::Body>,
    ) -> Response<BoxBody<Bytes, io::Error>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let (path, query) =
            (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if query.contains("watch=true") {
            let never = http_body_util::StreamBody::new(futures::stream::pending::<
                io::Result<hyper::body::Frame<Bytes>>,
            >());
            return Response::new(BoxBody::new(never));
        }
        let answer = match head.method.as_str() {
            "PATCH" if path.ends_with("/status") => {
                self.0.send_modify(|t| {
                    t.patches += 1;
                    merge(&mut t.status, &body["status"]);
                });
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
            }
            "DELETE" => {
                self.0.send_modify(|t| {
                    t.deletes.push(format!("{path} {}", body["gracePeriodSeconds"]));
                });
                json!({"apiVersion": "v1", "kind": "Status", "status": "Success"})
            }
            "GET" => {
                let name = query
                    .split('&')
                    .find_map(|q| q.strip_prefix("fieldSelector=")?.split("%3D").nth(1));
                let found = name.and_then(|n| self.0.borrow().config_maps.get(n).cloned());
                json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": found.as_slice()})
            }
            _ => body,
        };
        let bytes = Full::new(Bytes::from(answer.to_string())).map_err(|never| match never {});
        Response::new(BoxBody::new(bytes))
    }
}

/// Enough of a strategic merge for statuses: conditions by type, the rest replaced.
fn merge(status: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().into_iter().flatten() {
        if key != "conditions" {
            status[key] = value.clone();
            continue;
        }
        let mut list = status["conditions"].as_array().cloned().unwrap_or_default();
        for condition in value.as_array().into_iter().flatten() {
            list.retain(|c| c["type"] != condition["type"]);
            list.push(condition.clone());
        }
        status["conditions"] = Value::Array(list);
    }
}

/// Everything a worker needs, faked.
pub(crate) struct Bench {
    pub(crate) ctx: Arc<Context>,
    pub(crate) runtime: Arc<FakeRuntime>,
    pub(crate) network: Arc<FakeNetwork>,
    pub(crate) api: FakeApi,
    pub(crate) notes: mpsc::Receiver<Note>,
    pub(crate) dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let images = dir.path().join("images.yaml");
        std::fs::write(&images, "images: {app: {root: host}}").unwrap();
        let dns = ClusterDns { servers: vec![], domain: "cluster.local".into() };
        let mut config = Config::new("node0", dir.path().join("data"), dns);
        config.image_map = Some(images);
        let trace = watch::channel(Vec::new()).0;
        let runtime =
            Arc::new(FakeRuntime { trace, specs: Mutex::default(), processes: Mutex::default() });
        let network = Arc::new(FakeNetwork {
            netns: Netns::create().unwrap(),
            attached: watch::channel(Vec::new()).0,
        });
        let api = FakeApi::new();
        let client = api.client();
        let (recorder, notes) = Recorder::channel();
        let ctx = Context::new(Parts {
            tokens: Arc::new(ApiTokens { client: client.clone(), clock: config.clock.clone() }),
            config,
            client,
            runtime: runtime.clone(),
            network: network.clone(),
            mounter: Arc::new(NoMounts),
            services: kube::runtime::reflector::store().0,
            recorder,
        });
        Self { ctx, runtime, network, api, notes, dir }
    }

    /// The notes taken so far, as `Reason: message`.
    pub(crate) fn events(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        while let Ok(note) = self.notes.try_recv() {
            out.push(format!("{}: {}", note.reason, note.message));
        }
        out
    }
}
