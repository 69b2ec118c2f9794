//! The relay between a real client and a toy of a control plane, over TLS and with a token.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ironsail_identity::TrustBundles;
use ironsail_identity::client::Security;
use ironsail_identity::tls::{self, ClientCertificates, Shown, Trusted};
use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::istio::networking::nds::v1::{NameTable, name_table::NameInfo};
use ironsail_xds::client::{Backoff, Client, Event};
use ironsail_xds::server::{
    Caller, Connections, Dirty, Discovery, Drain, Feed, Report, Settings, Source,
};
use ironsail_xds::{CDS, Interest, Resource, Set, TypeUrl, Variant as Kind};
use parking_lot::Mutex;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use super::own::NAME_TABLE;
use super::*;
use crate::proxy::health::Health;
use crate::proxy::tests::Mint;

const BOTH: [Kind; 2] = [Kind::Delta, Kind::StateOfTheWorld];
const PATIENCE: Duration = Duration::from_secs(20);
const TOKEN: &str = "a.good.token";

/// What the control plane has.
#[derive(Clone, Default)]
struct Toy(Arc<Parts>);

#[derive(Default)]
struct Parts {
    health: Mutex<Vec<Option<String>>>,
    sets: Mutex<BTreeMap<String, Arc<Set>>>,
    changed: watch::Sender<()>,
}

impl Toy {
    fn put(&self, type_url: &str, resource: Resource) {
        {
            let mut sets = self.0.sets.lock();
            let set = sets.entry(type_url.to_owned()).or_default();
            *set = Set::with(set, [resource], &[]);
        }
        self.0.changed.send_replace(());
    }
}

impl Source for Toy {
    fn open(&self, caller: Caller) -> BoxFuture<'_, Result<Box<dyn Feed>, Status>> {
        Box::pin(async move {
            let token = caller.headers.get("authorization").and_then(|value| value.to_str().ok());
            if token != Some(format!("Bearer {TOKEN}").as_str()) {
                return Err(Status::unauthenticated("who are you?"));
            }
            let feed = ToyFeed { toy: self.clone(), changed: self.0.changed.subscribe() };
            Ok(Box::new(feed) as Box<dyn Feed>)
        })
    }
}

struct ToyFeed {
    toy: Toy,
    changed: watch::Receiver<()>,
}

impl Feed for ToyFeed {
    fn set<'a>(&'a mut self, type_url: &'a TypeUrl, _: &'a Interest) -> BoxFuture<'a, Arc<Set>> {
        let set = self.toy.0.sets.lock().get(&**type_url).cloned().unwrap_or_default();
        Box::pin(std::future::ready(set))
    }

    fn changed(&mut self) -> BoxFuture<'_, Option<Dirty>> {
        Box::pin(async { self.changed.changed().await.is_ok().then_some(Dirty::All) })
    }

    fn report(&mut self, report: Report<'_>) {
        if let Report::Health { trouble } = report {
            self.toy.0.health.lock().push(trouble.map(str::to_owned));
        }
    }
}

struct Server {
    drain: Drain,
    ended: JoinHandle<()>,
}

impl Server {
    fn start(listener: TcpListener, toy: &Toy, mint: &Mint) -> Self {
        let shown = Shown::new(mint.credential("istiod.test"));
        let config = tls::server_config(&shown, ClientCertificates::Ignored, &["h2"]).unwrap();
        let incoming = tls::incoming(listener, Arc::new(config));
        let routes = tonic::service::Routes::new(Discovery::new(toy.clone(), Settings::default()));
        let drain = Drain::new();
        let stop = drain.clone();
        let ended = tokio::spawn(async move {
            ironsail_xds::server::serve(incoming, routes, Connections::default(), &stop).await;
        });
        Self { drain, ended }
    }

    /// Ends it and all its connections.
    async fn stop(self) {
        self.drain.start(Duration::ZERO);
        self.ended.await.unwrap();
    }
}

struct Beside {
    folder: tempfile::TempDir,
    own: Arc<Own>,
    tables: watch::Receiver<Option<Arc<NameTable>>>,
    health: watch::Sender<Option<Health>>,
    stop: CancellationToken,
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Beside {
    fn start(address: SocketAddr, mint: &Mint, token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, token).unwrap();
        let trusted = Trusted::new(TrustBundles::of(mint.bundle()));
        let security = Security::Tls {
            server_name: Some("istiod.test".into()),
            trusted,
            shown: Shown::default(),
        };
        let upstream = Upstream::new(&address.to_string(), security, path, None).unwrap();
        let (names, tables) = watch::channel(None);
        let (health, follow) = watch::channel(None);
        let own = Arc::new(Own::new(Some(names)).with_health(Some(follow)));
        let stop = CancellationToken::new();
        let (socket, served, stopped) = (folder.path().join("XDS"), own.clone(), stop.clone());
        tokio::spawn(async move { serve(&socket, upstream, served, stopped).await.unwrap() });
        Self { folder, own, tables, health, stop }
    }

    fn channel(&self) -> Channel {
        let path = self.folder.path().join("XDS");
        let connect = tower::service_fn(move |_: tonic::transport::Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(hyper_util::rt::TokioIo::new) }
        });
        Endpoint::from_static("http://beside").connect_with_connector_lazy(connect)
    }

    fn client(&self, kind: Kind) -> (Client, mpsc::Receiver<Event>) {
        let quick =
            Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(100) };
        let node = Node { id: "sidecar~1.2.3.4~a.b~b.svc".into(), ..Node::default() };
        Client::start(self.channel(), node, kind, quick)
    }
}

/// A resource as Envoy's are: the first field is the name.
fn cluster(name: &str) -> Resource {
    let cluster = ironsail_proto::envoy::config::cluster::v3::Cluster {
        name: name.into(),
        ..Default::default()
    };
    Resource::new(name, cluster.encode_to_vec())
}

async fn event(events: &mut mpsc::Receiver<Event>) -> Event {
    tokio::time::timeout(PATIENCE, events.recv()).await.expect("in time").expect("a live client")
}

/// Names of the next update, which is accepted.
async fn update(events: &mut mpsc::Receiver<Event>) -> Vec<String> {
    loop {
        if let Event::Update(pending) = event(events).await {
            let names = pending.update.put.iter().map(|one| one.name.to_string()).collect();
            pending.accept();
            return names;
        }
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn what_the_control_plane_says_and_changes_reaches_the_proxy() {
    for kind in BOTH {
        let (mint, toy) = (Mint::new("m"), Toy::default());
        let (listener, address) = listen().await;
        let _server = Server::start(listener, &toy, &mint);
        toy.put(CDS, cluster("a"));
        let beside = Beside::start(address, &mint, TOKEN);
        let (client, mut events) = beside.client(kind);
        client.subscribe_all(CDS).await;
        assert_eq!(update(&mut events).await, ["a"]);
        toy.put(CDS, cluster("b"));
        let seen = update(&mut events).await;
        assert!(seen.contains(&"b".to_owned()), "{kind:?}: {seen:?}");
    }
}

#[tokio::test]
async fn a_control_plane_that_goes_away_ends_the_stream_and_is_found_again() {
    for kind in BOTH {
        let (mint, toy) = (Mint::new("m"), Toy::default());
        let (listener, address) = listen().await;
        let server = Server::start(listener, &toy, &mint);
        toy.put(CDS, cluster("a"));
        let beside = Beside::start(address, &mint, TOKEN);
        let (client, mut events) = beside.client(kind);
        client.subscribe_all(CDS).await;
        assert_eq!(update(&mut events).await, ["a"]);
        server.stop().await;
        loop {
            if let Event::Disconnected(status) = event(&mut events).await {
                assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
                break;
            }
        }
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        toy.put(CDS, cluster("b"));
        let _server = Server::start(listener, &toy, &mint);
        let seen = update(&mut events).await;
        assert!(seen.contains(&"b".to_owned()), "{kind:?}: {seen:?}");
    }
}

#[tokio::test]
async fn a_wrong_token_a_wrong_root_and_nobody_there_all_end_in_unavailable() {
    let (mint, other, toy) = (Mint::new("m"), Mint::new("other"), Toy::default());
    let (listener, address) = listen().await;
    let _server = Server::start(listener, &toy, &mint);
    let (closed, nobody) = listen().await;
    drop(closed);
    for beside in [
        Beside::start(address, &mint, "bad"),
        Beside::start(address, &other, TOKEN),
        Beside::start(nobody, &mint, TOKEN),
    ] {
        let (client, mut events) = beside.client(Kind::Delta);
        client.subscribe_all(CDS).await;
        loop {
            match event(&mut events).await {
                Event::Disconnected(status) => {
                    assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
                    break;
                }
                Event::Connected => {}
                Event::Update(_) => panic!("an update from nowhere"),
            }
        }
    }
}

#[tokio::test]
async fn the_name_table_stays_with_the_agent() {
    for kind in BOTH {
        let (mint, toy) = (Mint::new("m"), Toy::default());
        let (listener, address) = listen().await;
        let _server = Server::start(listener, &toy, &mint);
        let info = NameInfo { ips: vec!["10.0.0.1".into()], ..NameInfo::default() };
        let table = NameTable { table: [("web.a".to_owned(), info)].into_iter().collect() };
        toy.put(NAME_TABLE, Resource::new("", table.encode_to_vec()));
        toy.put(CDS, cluster("a"));
        let mut beside = Beside::start(address, &mint, TOKEN);
        let (client, mut events) = beside.client(kind);
        client.subscribe_all(CDS).await;
        let came = beside.tables.wait_for(Option::is_some);
        let came = tokio::time::timeout(PATIENCE, came).await.expect("in time").unwrap();
        assert!(came.as_ref().unwrap().table.contains_key("web.a"));
        drop(came);
        // The proxy hears of its own types only.
        assert_eq!(update(&mut events).await, ["a"]);
    }
}

#[tokio::test]
async fn a_debug_question_is_answered_over_the_proxys_stream() {
    for kind in BOTH {
        let (mint, toy) = (Mint::new("m"), Toy::default());
        let (listener, address) = listen().await;
        let _server = Server::start(listener, &toy, &mint);
        toy.put(CDS, cluster("a"));
        toy.put("istio.io/debug", Resource::new("syncz", "all is well"));
        let beside = Beside::start(address, &mint, TOKEN);
        assert!(beside.own.debug("istio.io/debug", vec!["syncz".into()]).await.is_none());
        let (client, mut events) = beside.client(kind);
        client.subscribe_all(CDS).await;
        assert_eq!(update(&mut events).await, ["a"]);
        // The same question again has the same answer.
        for _ in 0..2 {
            let asked = beside.own.debug("istio.io/debug", vec!["syncz".into()]);
            let answer = tokio::time::timeout(PATIENCE, asked).await.expect("in time").unwrap();
            assert_eq!(answer[0].value, "all is well", "{kind:?}");
        }
    }
}

#[tokio::test]
async fn the_applications_health_is_said_when_it_changes_and_on_every_new_stream() {
    for kind in BOTH {
        let (mint, toy) = (Mint::new("m"), Toy::default());
        let (listener, address) = listen().await;
        let server = Server::start(listener, &toy, &mint);
        toy.put(CDS, cluster("a"));
        let beside = Beside::start(address, &mint, TOKEN);
        let (client, mut events) = beside.client(kind);
        client.subscribe_all(CDS).await;
        assert_eq!(update(&mut events).await, ["a"]);
        let good = None;
        let bad = Some("no answer".to_owned());
        beside.health.send_replace(Some(Health::Good));
        said(&toy, std::slice::from_ref(&good)).await;
        beside.health.send_replace(Some(Health::Bad("no answer".into())));
        said(&toy, &[good.clone(), bad.clone()]).await;
        // The control plane comes back and knows nothing.
        server.stop().await;
        let listener = TcpListener::bind(address).await.unwrap();
        let _server = Server::start(listener, &toy, &mint);
        said(&toy, &[good, bad.clone(), bad]).await;
    }
}

async fn said(toy: &Toy, wanted: &[Option<String>]) {
    let come = async {
        while toy.0.health.lock().len() < wanted.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, come).await.expect("in time");
    assert_eq!(*toy.0.health.lock(), wanted);
}
