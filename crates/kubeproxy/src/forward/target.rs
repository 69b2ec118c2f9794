//! Where a forward leads.
//!
//! In: a Service port; out: a node to enter the network by and the address to call from there. The
//! choice is made anew for every connection, because nodes are cut off and healed.

use std::io;
use std::net::SocketAddr;

use ironsail_podnet::{Network, Node};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) cluster: SocketAddr,
    pub(crate) node_port: Option<u16>,
    /// With the Local policy: the nodes that have endpoints.
    pub(crate) only_nodes: Option<Vec<String>>,
}

impl Target {
    /// The node to call from, and whom to call there.
    pub(crate) fn choose(&self, network: &Network) -> io::Result<(Node, SocketAddr)> {
        let fits = |node: &Node| {
            !node.is_cut()
                && self.only_nodes.as_ref().is_none_or(|only| only.iter().any(|n| n == node.name()))
        };
        let node = network.nodes().into_iter().find(fits);
        let node = node.ok_or_else(|| io::Error::other("no node can serve this"))?;
        let same_family = |a: &&std::net::IpAddr| a.is_ipv4() == self.cluster.is_ipv4();
        let to = match (self.node_port, node.addresses().iter().find(same_family)) {
            (Some(port), Some(address)) => SocketAddr::new(*address, port),
            _ => self.cluster,
        };
        Ok((node, to))
    }
}
