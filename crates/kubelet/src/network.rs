//! The seam to the pod network: a node of `crates/podnet`, or a fake in tests.

use std::io;
use std::net::{IpAddr, SocketAddr};

use futures::future::BoxFuture;
use ironsail_podnet::Node;
use ironsail_sys::netns::Netns;
use tokio::net::TcpStream;

/// How a pod is to be on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// A namespace with addresses on the node's bridge.
    Wired,
    /// A namespace with nothing but loopback, for CNI plugins.
    Bare,
    /// The node's own namespace.
    Host,
}

/// A pod on the network.
#[derive(Clone, Debug)]
pub struct Link {
    pub netns: Netns,
    pub addresses: Vec<IpAddr>,
}

/// The network of one node.
pub trait PodNetwork: Send + Sync + 'static {
    /// The node's own addresses, the main one first.
    fn addresses(&self) -> Vec<IpAddr>;
    fn node_netns(&self) -> Netns;
    /// Connects as a program on the node would, which is where probes come from.
    fn dial(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
    /// Asked again for the same pod it gives the same link.
    fn attach<'a>(&'a self, id: &'a str, how: Attach) -> BoxFuture<'a, Result<Link, String>>;
    fn detach<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

impl PodNetwork for Node {
    fn addresses(&self) -> Vec<IpAddr> {
        Node::addresses(self).to_vec()
    }

    fn node_netns(&self) -> Netns {
        self.netns().clone()
    }

    fn dial(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(self.dialer().tcp(to))
    }

    fn attach<'a>(&'a self, id: &'a str, how: Attach) -> BoxFuture<'a, Result<Link, String>> {
        Box::pin(async move {
            let link = match how {
                Attach::Wired => self.add_pod(id).await,
                Attach::Bare => self.add_pod_netns_only(id).await,
                Attach::Host => Ok(self.host_pod()),
            };
            let link = link.map_err(|e| chain(&e))?;
            Ok(Link { netns: link.netns, addresses: link.addresses })
        })
    }

    fn detach<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { self.remove_pod(id).await.map_err(|e| chain(&e)) })
    }
}

/// An error with its causes, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
