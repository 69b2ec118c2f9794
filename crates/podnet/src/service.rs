//! What Services mean on a node, and keeping the node's packet rules in step with it.
//!
//! In: a table of Service ports; out: packet rules in the node's namespace, changed only where the
//! table changed. The rules live in a table of their own (`inet podlet`) and touch no other.

mod program;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use ironsail_sys::netns::Netns;

use crate::{Error, conntrack, nft};

pub use rules::rules;

use program::Program;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A place that serves a Service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// Whether it is on the node that the table is for.
    pub local: bool,
}

/// One port of one Service in one address family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Who it is, `namespace/name`; shows in the rules.
    pub name: String,
    pub protocol: Protocol,
    pub port: u16,
    /// Its family is the family of the entry; endpoints of the other one are not used.
    pub cluster_ip: IpAddr,
    /// Other addresses that lead to it.
    pub external_ips: Vec<IpAddr>,
    pub node_port: Option<u16>,
    /// How long a client stays with its endpoint.
    pub affinity: Option<Duration>,
    /// Traffic from inside goes only to endpoints of this node.
    pub internal_local: bool,
    /// Traffic from outside goes only to endpoints of this node and keeps its source address.
    pub external_local: bool,
    pub endpoints: Vec<Endpoint>,
}

/// All Service ports as one node sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceTable {
    pub ports: Vec<ServicePort>,
}

/// What the rules need to know of the node they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// The addresses at which node ports answer.
    pub addresses: Vec<IpAddr>,
    pub pod_cidrs: Vec<IpNet>,
    pub backbone_cidrs: Vec<IpNet>,
    pub service_cidrs: Vec<IpNet>,
    /// Outside hosts that see pods' own addresses.
    pub routed: BTreeSet<IpAddr>,
}

/// The rules of one node and what they say now.
pub(crate) struct Rules {
    netns: Netns,
    facts: NodeFacts,
    /// None while it is not known what the kernel has, after a failure.
    installed: Option<Program>,
    table: ServiceTable,
}

impl Rules {
    pub(crate) async fn install(netns: Netns, facts: NodeFacts) -> Result<Self, Error> {
        let mut rules = Self { netns, facts, installed: None, table: ServiceTable::default() };
        rules.replace(Program::default()).await?;
        Ok(rules)
    }

    pub(crate) async fn set(&mut self, table: ServiceTable) -> Result<(), Error> {
        let program = rules::program(&self.facts, &table);
        match self.installed.take() {
            Some(installed) if installed == program => self.installed = Some(installed),
            Some(installed) => {
                let change = program.change_from(&installed);
                match nft::apply_steps(&self.netns, "a change of Service rules", change).await {
                    Ok(()) => self.installed = Some(program),
                    Err(error) => {
                        // Somebody else changed our table; make it anew as a whole.
                        tracing::warn!(%error, "replacing all Service rules of a node");
                        self.replace(program).await?;
                    }
                }
            }
            None => self.replace(program).await?,
        }
        let gone = removed_udp_endpoints(&self.table, &table);
        self.table = table;
        if gone.is_empty() { Ok(()) } else { conntrack::forget(&self.netns, gone).await }
    }

    /// Pods keep their own address towards these hosts.
    pub(crate) async fn add_routed(&mut self, hosts: &[IpAddr]) -> Result<(), Error> {
        self.facts.routed.extend(hosts);
        self.replace(rules::program(&self.facts, &self.table)).await
    }

    async fn replace(&mut self, program: Program) -> Result<(), Error> {
        self.installed = None;
        let steps = rules::whole(&self.facts, &program);
        nft::apply_steps(&self.netns, "the Service rules of a node", steps).await?;
        self.installed = Some(program);
        Ok(())
    }
}

/// The endpoints that UDP ports of `old` had and no longer have. Flows to them would go on into
/// the void as long as the client keeps sending.
fn removed_udp_endpoints(old: &ServiceTable, new: &ServiceTable) -> BTreeSet<SocketAddr> {
    fn endpoints(table: &ServiceTable) -> BTreeMap<(&str, IpAddr, u16), BTreeSet<SocketAddr>> {
        let udp = table.ports.iter().filter(|p| p.protocol == Protocol::Udp);
        udp.map(|p| {
            let addresses = p.endpoints.iter().map(|e| e.address).collect();
            ((p.name.as_str(), p.cluster_ip, p.port), addresses)
        })
        .collect()
    }
    let (old, new) = (endpoints(old), endpoints(new));
    old.iter()
        .flat_map(|(port, before)| {
            let now = new.get(port);
            before.iter().filter(move |e| now.is_none_or(|now| !now.contains(e))).copied()
        })
        .collect()
}
