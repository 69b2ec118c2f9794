//! The whole network: the backbone, and the nodes and outside hosts on it.
//!
//! In: a configuration, names of nodes and outside hosts; out: handles to them. Everything ends
//! with the last handle, because nothing but open descriptors holds the namespaces.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ironsail_sys::netns::Dialer;
use parking_lot::Mutex;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;

use crate::backbone::Backbone;
use crate::{Error, NetworkConfig, Node, Outside, OutsideConfig};

/// A network. Clones are handles to the same one.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

struct Inner {
    config: NetworkConfig,
    backbone: Backbone,
    members: Mutex<Members>,
    /// Nodes and outside hosts come and go one at a time, so that each meets all the others.
    changing: tokio::sync::Mutex<()>,
    /// Moves on whenever a node comes or goes.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Members {
    nodes: BTreeMap<String, Node>,
    outsides: BTreeMap<String, Outside>,
}

impl Network {
    /// Makes the backbone. Nodes are added one by one.
    pub async fn create(config: NetworkConfig) -> Result<Self, Error> {
        config.check()?;
        let backbone = Backbone::create(&config).await?;
        Ok(Self(Arc::new(Inner {
            config,
            backbone,
            members: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
        })))
    }

    pub fn config(&self) -> &NetworkConfig {
        &self.0.config
    }

    /// Makes a node and the routes between it and the others.
    pub async fn add_node(&self, name: &str) -> Result<Node, Error> {
        let _changing = self.0.changing.lock().await;
        let others = self.nodes();
        if others.iter().any(|n| n.name() == name) {
            return Err(Error::Exists { what: "node", name: name.to_owned() });
        }
        // The lowest free number, so that a node that left makes room for another.
        let index = (0..).find(|i| others.iter().all(|n| n.index() != *i)).unwrap_or_default();
        let routed = self
            .outsides()
            .iter()
            .filter(|o| o.config().routed)
            .flat_map(|o| o.addresses().to_vec())
            .collect();
        let node = Node::create(&self.0.config, &self.0.backbone, index, name, routed).await?;
        for other in &others {
            other.add_peer(&node).await?;
            node.add_peer(other).await?;
        }
        self.0.members.lock().nodes.insert(name.to_owned(), node.clone());
        self.0.changes.send_modify(|n| *n += 1);
        Ok(node)
    }

    /// Takes a node off the network. It ends once nobody holds it or its pods any more.
    pub async fn remove_node(&self, name: &str) -> Result<(), Error> {
        let _changing = self.0.changing.lock().await;
        let Some(node) = self.0.members.lock().nodes.remove(name) else { return Ok(()) };
        for other in self.nodes() {
            other.remove_peer(&node).await?;
        }
        self.0.changes.send_modify(|n| *n += 1);
        self.0.backbone.remove_node(&node).await
    }

    /// Tells when nodes come and go.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    pub fn node(&self, name: &str) -> Option<Node> {
        self.0.members.lock().nodes.get(name).cloned()
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<Node> {
        self.0.members.lock().nodes.values().cloned().collect()
    }

    /// Makes a host beside the nodes.
    pub async fn add_outside(&self, config: OutsideConfig) -> Result<Outside, Error> {
        let _changing = self.0.changing.lock().await;
        let number = {
            let members = self.0.members.lock();
            if members.outsides.contains_key(&config.name) {
                return Err(Error::Exists { what: "outside host", name: config.name });
            }
            let used = |i: &usize| members.outsides.values().any(|o| o.number() == *i);
            (0..).find(|i| !used(i)).unwrap_or_default()
        };
        let outside = Outside::create(&self.0.config, &self.0.backbone, number, config).await?;
        if outside.config().routed {
            for node in self.nodes() {
                node.add_routed(outside.addresses()).await?;
            }
        }
        self.0.members.lock().outsides.insert(outside.name().to_owned(), outside.clone());
        Ok(outside)
    }

    pub fn outsides(&self) -> Vec<Outside> {
        self.0.members.lock().outsides.values().cloned().collect()
    }

    /// The addresses on the backbone at which podlet itself can be reached by nodes and pods.
    pub fn own_addresses(&self) -> Vec<IpAddr> {
        self.0.config.own_addresses()
    }

    /// Makes sockets on the backbone.
    pub fn dialer(&self) -> &Dialer {
        &self.0.backbone.dialer
    }

    /// Listens for TCP at podlet's own addresses, one listener per family.
    pub async fn listen(&self, port: u16) -> Result<Vec<TcpListener>, Error> {
        let mut listeners = Vec::new();
        for ip in self.own_addresses() {
            let at = SocketAddr::new(ip, port);
            let listener = self.dialer().listen(at).await;
            listeners.push(listener.map_err(|source| Error::Listen { at, source })?);
        }
        Ok(listeners)
    }

    /// Datagram sockets at podlet's own addresses, one per family.
    pub async fn bind_udp(&self, port: u16) -> Result<Vec<UdpSocket>, Error> {
        let mut sockets = Vec::new();
        for ip in self.own_addresses() {
            let at = SocketAddr::new(ip, port);
            let socket = self.dialer().udp(at).await;
            sockets.push(socket.map_err(|source| Error::Listen { at, source })?);
        }
        Ok(sockets)
    }
}
