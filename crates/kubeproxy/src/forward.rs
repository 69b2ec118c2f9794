//! Ways in from the host: listeners on loopback whose connections are carried to Services.
//!
//! In: what should be listened at and where it leads; out: listeners that come and go with it, and
//! a list of those that could not be opened. Connections that run are left alone when their
//! listener goes, as kube-proxy leaves them.

mod target;
mod tcp;
mod udp;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use ironsail_podnet::{Network, Protocol};
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::model::{Key, Kind, Model};
use crate::table::backends;

pub(crate) use target::Target;

/// A listener that should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) at: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) service: Key,
    pub(crate) uid: String,
    pub(crate) target: Target,
}

/// A listener that is not there, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) want: Want,
    pub(crate) error: io::Error,
}

/// The listeners that the Services of `model` want.
pub(crate) fn wants(
    model: &Model,
    node_ports: IpAddr,
    balancers: &HashMap<Key, Ipv4Addr>,
) -> Vec<Want> {
    let mut wants = Vec::new();
    for (key, service) in model.services().filter(|(_, s)| s.kind == Kind::Addressed) {
        let Some(cluster_ip) = service.cluster_ips.first() else { continue };
        for port in &service.ports {
            let Some(protocol) = port.protocol else { continue };
            let node = port.node_port.map(|p| SocketAddr::new(node_ports, p));
            let balancer = balancers.get(key).map(|ip| SocketAddr::new((*ip).into(), port.port));
            if node.is_none() && balancer.is_none() {
                continue;
            }
            let local = service.external_local.then(|| {
                let backends = backends(model, key, service, port, cluster_ip.is_ipv4());
                backends.filter_map(|(_, e)| e.node.clone()).collect()
            });
            let target = Target {
                cluster: SocketAddr::new(*cluster_ip, port.port),
                node_port: port.node_port,
                only_nodes: local,
            };
            for at in [node, balancer].into_iter().flatten() {
                let (service, uid) = (key.clone(), service.uid.clone());
                wants.push(Want { at, protocol, service, uid, target: target.clone() });
            }
        }
    }
    wants
}

/// The listeners that are there.
pub(crate) struct Forwards {
    network: Network,
    stop: CancellationToken,
    open: HashMap<(SocketAddr, Protocol), Open>,
}

struct Open {
    target: Arc<RwLock<Target>>,
    _task: AbortOnDropHandle<()>,
}

impl Forwards {
    pub(crate) fn new(network: Network, stop: CancellationToken) -> Self {
        Self { network, stop, open: HashMap::new() }
    }

    /// Opens and closes listeners until they are those of `wants`.
    pub(crate) async fn set(&mut self, wants: Vec<Want>) -> Vec<Failure> {
        let wanted: std::collections::HashSet<_> =
            wants.iter().map(|w| (w.at, w.protocol)).collect();
        // Closed first: a port may move from one address to another.
        for (place, open) in self.open.extract_if(|place, _| !wanted.contains(place)) {
            drop(open);
            tracing::debug!(at = %place.0, "a forward is closed");
        }
        let mut failures = Vec::new();
        for want in wants {
            if let Some(open) = self.open.get(&(want.at, want.protocol)) {
                *open.target.write() = want.target;
                continue;
            }
            let target = Arc::new(RwLock::new(want.target.clone()));
            match self.listen(&want, Arc::clone(&target)).await {
                Ok(task) => {
                    let task = AbortOnDropHandle::new(task);
                    tracing::debug!(at = %want.at, service = %want.service, "a forward is open");
                    self.open.insert((want.at, want.protocol), Open { target, _task: task });
                }
                Err(error) => failures.push(Failure { want, error }),
            }
        }
        failures
    }

    async fn listen(
        &self,
        want: &Want,
        target: Arc<RwLock<Target>>,
    ) -> io::Result<tokio::task::JoinHandle<()>> {
        let (network, stop) = (self.network.clone(), self.stop.clone());
        Ok(match want.protocol {
            Protocol::Tcp => {
                let listener = tokio::net::TcpListener::bind(want.at).await?;
                tokio::spawn(tcp::serve(listener, network, target, stop))
            }
            Protocol::Udp => {
                let socket = tokio::net::UdpSocket::bind(want.at).await?;
                tokio::spawn(udp::serve(socket, network, target))
            }
        })
    }
}
