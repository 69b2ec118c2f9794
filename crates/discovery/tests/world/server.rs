//! A mesh in memory, served on loopback.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ironsail_api::{ClusterId, Kind as ObjectKind};
use ironsail_discovery::{
    Authenticate, ClientStatus, DebounceLimits, Engine, Inputs, KeeperSettings, Plaintext, Port,
    Settings,
};
use ironsail_model::Store;
use ironsail_source::memory::Memory;
use ironsail_source::{Board, mesh::Mesh};
use ironsail_sys::clock::Clock;
use ironsail_xds::server::{self, Connections, Discovery, Drain};
use tokio::sync::watch;

/// Ends with the test.
pub(crate) struct World {
    pub(crate) engine: Arc<Engine>,
    pub(crate) memory: Memory,
    pub(crate) mesh: watch::Sender<Arc<Mesh>>,
    pub(crate) address: SocketAddr,
    pub(crate) discovery: Discovery<Port>,
    drain: Drain,
    served: tokio::task::JoinHandle<()>,
}

pub(crate) fn settings() -> Settings {
    let cluster = ClusterId::from("Kubernetes");
    let all = ObjectKind::ALL.iter().map(|kind| (cluster.clone(), *kind));
    Settings {
        keeper: KeeperSettings {
            debounce: DebounceLimits::default(),
            debounce_endpoints: true,
            expected: all.collect::<BTreeSet<_>>(),
        },
        workers: 2,
        stream_rate: 0.0,
        patience: Duration::from_secs(5),
        newcomers: 100,
        cluster,
        root_namespace: "istio-system".parse().unwrap(),
        open_debug: true,
    }
}

impl World {
    /// A mesh with these objects, all of them read.
    pub(crate) async fn start(yaml: &str) -> Self {
        Self::start_with(yaml, settings(), Arc::new(Plaintext)).await
    }

    pub(crate) async fn start_with(
        yaml: &str,
        settings: Settings,
        authenticate: Arc<dyn Authenticate>,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::start_on(listener, yaml, settings, authenticate).await
    }

    pub(crate) async fn start_on(
        listener: tokio::net::TcpListener,
        yaml: &str,
        settings: Settings,
        authenticate: Arc<dyn Authenticate>,
    ) -> Self {
        let (sender, events) = ironsail_source::channel();
        let (board, mesh) = (Board::default(), watch::Sender::new(Arc::<Mesh>::default()));
        let inputs = Inputs { events, mesh: mesh.subscribe(), board: board.clone() };
        let cluster = settings.cluster.clone();
        let store = Store::new(ironsail_model::Settings::default());
        let engine = Engine::start(store, settings, inputs, Clock::system());
        let mut memory = Memory::new(cluster, sender, board);
        memory.apply_yaml(yaml).await.unwrap();
        memory.synced().await.unwrap();
        engine.ready().await;
        let address = listener.local_addr().unwrap();
        let port = Port::new(engine.clone(), authenticate.clone());
        let discovery = Discovery::new(port, server::Settings::default());
        let services = tonic::service::Routes::new(discovery.clone())
            .add_service(ClientStatus::service(engine.clone(), authenticate));
        let drain = Drain::new();
        let incoming = futures::stream::unfold(listener, |listener| async {
            let (io, peer) = listener.accept().await.unwrap();
            let mut known = http::Extensions::new();
            known.insert(peer);
            Some(((io, known), listener))
        });
        let own = drain.clone();
        let served = tokio::spawn(async move {
            server::serve(incoming, services, Connections::default(), &own).await;
        });
        Self { engine, memory, mesh, address, discovery, drain, served }
    }

    pub(crate) async fn apply(&mut self, yaml: &str) {
        self.memory.apply_yaml(yaml).await.unwrap();
    }

    /// Waits until a publication after `revision` has reached all classes.
    pub(crate) async fn refreshed_after(&self, revision: u64) {
        let mut refreshed = self.engine.refreshed();
        let waiting = refreshed.wait_for(|now| *now > revision);
        tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap().unwrap();
    }

    /// Serves on a Unix socket as well, as an agent would.
    pub(crate) fn serve_unix(&self, socket: &std::path::Path) {
        let listener = tokio::net::UnixListener::bind(socket).unwrap();
        let incoming = futures::stream::unfold(listener, |listener| async {
            let (io, _) = listener.accept().await.unwrap();
            Some(((io, http::Extensions::new()), listener))
        });
        let services = tonic::service::Routes::new(self.discovery.clone());
        let drain = self.drain.clone();
        tokio::spawn(async move {
            server::serve(incoming, services, Connections::default(), &drain).await;
        });
    }

    pub(crate) fn channel(&self) -> tonic::transport::Channel {
        channel(self.address)
    }

    /// Ends it and everything that hangs on it, and gives the port free.
    pub(crate) async fn stop(self) {
        self.drain.start(Duration::ZERO);
        self.served.await.unwrap();
    }
}

pub(crate) fn channel(address: SocketAddr) -> tonic::transport::Channel {
    tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy()
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(tokio::time::Instant::now() < end, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
