//! The API: opened on the data folder, served on loopback and inside the network, and handed to
//! podlet's own parts as clients in this process.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use futures::future::BoxFuture;
use ironsail_kubeapi::admission::{Dial, Stream};
use ironsail_kubeapi::auth::User;
use ironsail_kubeapi::auth::pki::Pki;
use ironsail_kubeapi::{Config, Server};
use ironsail_podnet::Network;
use ironsail_sys::clock::Clock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::args::Run;
use crate::data::Data;
use crate::network;

/// Where the API listens inside the network.
const PORT: u16 = 6443;

pub(crate) struct Api {
    pub(crate) server: Server,
    pki: Pki,
    listeners: Vec<TcpListener>,
    address: SocketAddr,
}

impl Api {
    pub(crate) async fn open(args: &Run, data: &Data, network: &Network) -> anyhow::Result<Self> {
        let clock = Clock::system();
        let directory = data.folder("api")?;
        let own = network.own_addresses();
        let endpoint = own.first().map(|ip| SocketAddr::new(*ip, PORT));
        let services = network.config().service_cidrs.clone();
        let mut names = own.clone();
        names.extend(services.iter().map(|range| network::host(range, 1)));
        let pki =
            Pki::open(&directory, &names, &clock).context("opening the API's certificates")?;
        let config = Config {
            directory,
            service_ranges: services,
            issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
            endpoint,
        };
        let dial = Arc::new(ServiceDial(network.clone()));
        let server = Server::open(&config, dial, clock).await.context("opening the API")?;
        let (host, address) = listen(args, data).await?;
        let mut listeners = network.listen(PORT).await.context("listening inside the network")?;
        listeners.push(host);
        Ok(Self { server, pki, listeners, address })
    }

    /// Serves until `stop`; connections are given a moment to end.
    pub(crate) fn serve(
        &mut self,
        stop: &CancellationToken,
    ) -> anyhow::Result<impl Future<Output = ()> + use<>> {
        let tls = self.pki.server_config().context("setting up the API's TLS")?;
        let served: Vec<_> = std::mem::take(&mut self.listeners)
            .into_iter()
            .map(|listener| {
                let (server, tls, stop) = (self.server.clone(), tls.clone(), stop.clone());
                async move { server.serve(listener, tls, stop).await }
            })
            .collect();
        Ok(async move {
            futures::future::join_all(served).await;
        })
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.pki.kubeconfig(&format!("https://{}", self.address))
    }

    pub(crate) fn root_certificate(&self) -> String {
        self.pki.ca_pem().to_owned()
    }

    /// A client in this process that acts as `name`, a member of `groups`.
    pub(crate) fn client(&self, name: &str, groups: &[&str]) -> kube::Client {
        kube::Client::new(self.server.service(User::known(name, groups)), "default")
    }
}

/// Listens on loopback, on the port of the last run where it is still free: a kubeconfig that was
/// copied elsewhere stays good.
async fn listen(args: &Run, data: &Data) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let mut wanted = args.listen;
    if wanted.port() == 0 {
        let last = data.remembered("port", || "0".to_owned())?;
        wanted.set_port(last.parse().unwrap_or(0));
    }
    let listener = match TcpListener::bind(wanted).await {
        Err(_) if args.listen.port() == 0 => TcpListener::bind(args.listen).await,
        bound => bound,
    };
    let listener = listener.with_context(|| format!("listening on {wanted}"))?;
    let address = listener.local_addr().context("asking for the API's own address")?;
    data.remember("port", &address.port().to_string())?;
    Ok((listener, address))
}

/// Reaches webhooks behind Services, whose addresses exist only inside the network.
struct ServiceDial(Network);

impl Dial for ServiceDial {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let nodes = self.0.nodes();
            let node = nodes
                .iter()
                .find(|node| !node.is_cut())
                .ok_or_else(|| std::io::Error::other("no node is connected"))?;
            let stream = node.dialer().tcp(address).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}
