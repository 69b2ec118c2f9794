//! A source for tests: sets that the test changes, the same for everybody, and a log of what was sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use ironsail_xds::server::{
    Caller, Connections, Dirty, Discovery, Drain, Feed, Report, Settings, Source, serve,
};
use ironsail_xds::{Interest, Name, Resource, Set, TypeUrl, Verdict};
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::Status;

/// What happened on any stream, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Logged {
    Sent { type_url: TypeUrl, names: Vec<Name>, removed: Vec<Name> },
    Accepted { type_url: TypeUrl },
    Rejected { type_url: TypeUrl, message: String, blamed: Vec<Name> },
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Toy(Arc<Parts>);

struct Parts {
    sets: Mutex<BTreeMap<TypeUrl, Arc<Set>>>,
    changed: watch::Sender<u64>,
    log: watch::Sender<Vec<Logged>>,
    feeds: AtomicUsize,
}

impl Toy {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Parts {
            sets: Mutex::default(),
            changed: watch::Sender::new(0),
            log: watch::Sender::new(Vec::new()),
            feeds: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn put(&self, type_url: &str, resources: impl IntoIterator<Item = Resource>) {
        self.change(type_url, |set| Set::with(set, resources, &[]));
    }

    pub(crate) fn remove(&self, type_url: &str, name: &str) {
        self.change(type_url, |set| Set::with(set, [], &[name.into()]));
    }

    fn change(&self, type_url: &str, change: impl FnOnce(&Arc<Set>) -> Arc<Set>) {
        {
            let mut sets = self.0.sets.lock();
            let set = sets.entry(type_url.into()).or_default();
            *set = change(set);
        }
        self.0.changed.send_modify(|n| *n += 1);
    }

    /// Streams that are fed now.
    pub(crate) fn feeds(&self) -> usize {
        self.0.feeds.load(Ordering::SeqCst)
    }

    /// Forgets the log.
    pub(crate) fn clear(&self) {
        self.0.log.send_replace(Vec::new());
    }

    pub(crate) fn log(&self) -> Vec<Logged> {
        self.0.log.borrow().clone()
    }

    /// What was sent: type (last word), names and `-removed`.
    pub(crate) fn sent(&self) -> Vec<String> {
        let shown = |logged: &Logged| match logged {
            Logged::Sent { type_url, names, removed } => {
                let kind = type_url.rsplit('.').next().unwrap_or_default();
                let names = names.iter().map(|n| format!(" {n}"));
                let removed = removed.iter().map(|n| format!(" -{n}"));
                Some(format!("{kind}{}", names.chain(removed).collect::<String>()))
            }
            _ => None,
        };
        self.log().iter().filter_map(shown).collect()
    }

    /// Waits until the log is as wanted.
    pub(crate) async fn wait(&self, what: &str, wanted: impl Fn(&[Logged]) -> bool) {
        let mut log = self.0.log.subscribe();
        let found =
            tokio::time::timeout(Duration::from_secs(30), log.wait_for(|l| wanted(l))).await;
        assert!(found.is_ok(), "{what} did not happen: {:#?}", self.log());
    }

    /// Waits until the number of accepted responses of a type is as wanted.
    pub(crate) async fn accepted(&self, type_url: &str, count: usize) {
        let of = |l: &&Logged| matches!(l, Logged::Accepted { type_url: t } if **t == *type_url);
        self.wait(type_url, |log| log.iter().filter(of).count() >= count).await;
    }
}

impl Source for Toy {
    fn open(&self, caller: Caller) -> BoxFuture<'_, Result<Box<dyn Feed>, Status>> {
        Box::pin(async move {
            if caller.node.id == "stranger" {
                return Err(Status::permission_denied("no strangers"));
            }
            self.0.feeds.fetch_add(1, Ordering::SeqCst);
            let changed = self.0.changed.subscribe();
            Ok(Box::new(ToyFeed { toy: self.clone(), changed }) as Box<dyn Feed>)
        })
    }
}

struct ToyFeed {
    toy: Toy,
    changed: watch::Receiver<u64>,
}

impl Drop for ToyFeed {
    fn drop(&mut self) {
        self.toy.0.feeds.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Feed for ToyFeed {
    fn set<'a>(&'a mut self, type_url: &'a TypeUrl, _: &'a Interest) -> BoxFuture<'a, Arc<Set>> {
        let set = self.toy.0.sets.lock().entry(type_url.clone()).or_default().clone();
        Box::pin(std::future::ready(set))
    }

    fn changed(&mut self) -> BoxFuture<'_, Option<Dirty>> {
        Box::pin(async move { self.changed.changed().await.is_ok().then_some(Dirty::All) })
    }

    fn report(&mut self, report: Report<'_>) {
        let logged = match report {
            Report::Sent(response) => Logged::Sent {
                type_url: response.type_url.clone(),
                names: response.resources.iter().map(|r| r.name().clone()).collect(),
                removed: response.removed.clone(),
            },
            Report::Answered { type_url, verdict: Verdict::Accepted { .. } } => {
                Logged::Accepted { type_url: type_url.clone() }
            }
            Report::Answered { type_url, verdict: Verdict::Rejected(rejection) } => {
                Logged::Rejected {
                    type_url: type_url.clone(),
                    message: rejection.message.clone(),
                    blamed: rejection.resources.clone(),
                }
            }
            Report::Subscribed { .. }
            | Report::Health { .. }
            | Report::Trust { .. }
            | Report::Settled => return,
        };
        self.toy.0.log.send_modify(|log| log.push(logged));
    }
}

/// A server on loopback that ends with the test.
pub(crate) struct Server {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) discovery: Discovery<Toy>,
    pub(crate) drain: Drain,
    pub(crate) ended: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(toy: &Toy, connections: Connections) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::start_on(toy, connections, listener)
    }

    pub(crate) fn start_on(
        toy: &Toy,
        connections: Connections,
        listener: tokio::net::TcpListener,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let settings = Settings { first_request: Duration::from_secs(5), ..Settings::default() };
        let discovery = Discovery::new(toy.clone(), settings);
        let drain = Drain::new();
        let services = tonic::service::Routes::new(discovery.clone());
        let incoming = futures::stream::unfold(listener, |listener| async {
            let (io, peer) = listener.accept().await.unwrap();
            io.set_nodelay(true).unwrap();
            let mut known = http::Extensions::new();
            known.insert(peer);
            Some(((io, known), listener))
        });
        let stop = drain.clone();
        let ended = tokio::spawn(async move {
            serve(incoming, services, connections, &stop).await;
        });
        Self { address, discovery, drain, ended }
    }

    pub(crate) fn channel(&self) -> tonic::transport::Channel {
        tonic::transport::Endpoint::from_shared(format!("http://{}", self.address))
            .unwrap()
            .connect_lazy()
    }
}

/// Waits until something holds; says what did not.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
