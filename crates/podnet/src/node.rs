//! A node: a namespace with an uplink to the backbone, a bridge for its pods and Service rules.
//!
//! In: pods to add and remove, Service tables, cuts; out: links with addresses. Pods send
//! everything to the node, even what goes to a pod on the same bridge, so that the node's packet
//! rules see both directions of every flow.

mod pod;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ipnet::IpNet;
use ironsail_sys::netns::{Dialer, Netns};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::backbone::{Backbone, bridge_netfilter, router_netns};
use crate::link::{Links, Route};
use crate::pool::Pool;
use crate::service::{NodeFacts, Rules};
use crate::{Error, NetworkConfig, ServiceTable};

pub use pod::PodLink;

/// What nodes and outside hosts call their link to the backbone, and pods theirs to the node.
pub(crate) const UPLINK: &str = "eth0";
const BRIDGE: &str = "pods";

/// A node. Clones are handles to the same one.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    name: String,
    index: usize,
    addresses: Vec<IpAddr>,
    pod_ranges: Vec<IpNet>,
    netns: Netns,
    dialer: Dialer,
    links: Links,
    uplink: u32,
    /// The end of the cable on the backbone, and the socket to set it up and down.
    cable: String,
    backbone_links: Links,
    dual_stack: bool,
    cut: AtomicBool,
    /// Made for the first pod that podlet wires itself; with CNI plugins there is none.
    bridge: OnceCell<u32>,
    pools: Mutex<Vec<Pool>>,
    pods: Mutex<BTreeMap<String, PodLink>>,
    /// Pods are wired one at a time: kernel and netlink serialise most of it anyway.
    wiring: tokio::sync::Mutex<()>,
    next_cable: AtomicU32,
    rules: tokio::sync::Mutex<Rules>,
}

impl Node {
    pub(crate) async fn create(
        config: &NetworkConfig,
        backbone: &Backbone,
        index: usize,
        name: &str,
        routed: BTreeSet<IpAddr>,
    ) -> Result<Self, Error> {
        let addresses = config.node_addresses(index)?;
        let pod_ranges = config.node_ranges(index)?;
        let netns = router_netns(config)?;
        let dialer = netns.dialer().map_err(Error::namespace("cannot enter a node"))?;
        let links = Links::open(&netns)?;
        let cable = format!("node{index}");
        backbone.add_node(&netns, &cable).await?;
        links.set_up(UPLINK, true).await?;
        let uplink = links.index(UPLINK).await?;
        let own = config.own_addresses();
        for ((address, range), gateway) in addresses.iter().zip(&config.backbone_cidrs).zip(own) {
            links.add_address(uplink, IpNet::from(*address)).await?;
            let near = Route { source: Some(*address), ..Route::on_link(range.trunc(), uplink) };
            links.add_route(near).await?;
            links
                .add_route(Route { source: Some(*address), ..Route::default_via(uplink, gateway) })
                .await?;
        }
        backbone.add_routes(&pod_ranges, &addresses).await?;
        let pools: Vec<Pool> = pod_ranges.iter().copied().map(Pool::new).collect();
        let facts = NodeFacts {
            addresses: addresses
                .iter()
                .copied()
                .chain(pools.iter().filter_map(Pool::gateway))
                .collect(),
            pod_cidrs: config.pod_cidrs.clone(),
            backbone_cidrs: config.backbone_cidrs.clone(),
            service_cidrs: config.service_cidrs.clone(),
            routed,
        };
        let rules = Rules::install(netns.clone(), facts).await?;
        Ok(Self(Arc::new(Inner {
            name: name.to_owned(),
            index,
            addresses,
            pod_ranges,
            netns,
            dialer,
            links,
            uplink,
            cable,
            backbone_links: backbone.links.clone(),
            dual_stack: config.is_dual_stack(),
            cut: AtomicBool::new(false),
            bridge: OnceCell::new(),
            pools: Mutex::new(pools),
            pods: Mutex::default(),
            wiring: tokio::sync::Mutex::default(),
            next_cable: AtomicU32::new(0),
            rules: tokio::sync::Mutex::new(rules),
        })))
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The node's place in the network, from 0.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// The node's own addresses, IPv4 first.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.0.addresses
    }

    /// The ranges its pods' addresses come from, IPv4 first (`spec.podCIDRs` of the Node).
    pub fn pod_ranges(&self) -> &[IpNet] {
        &self.0.pod_ranges
    }

    pub fn netns(&self) -> &Netns {
        &self.0.netns
    }

    /// Makes sockets on the node.
    pub fn dialer(&self) -> &Dialer {
        &self.0.dialer
    }

    /// Makes a pod's namespace and wires it. Asked again for the same pod it gives the same link.
    pub async fn add_pod(&self, id: &str) -> Result<PodLink, Error> {
        let _wiring = self.0.wiring.lock().await;
        if let Some(link) = self.pod(id) {
            return Ok(link);
        }
        let link = self.wire(id).await?;
        self.0.pods.lock().insert(id.to_owned(), link.clone());
        Ok(link)
    }

    /// Makes a pod's namespace with nothing but a loopback link, for CNI plugins to wire.
    pub async fn add_pod_netns_only(&self, id: &str) -> Result<PodLink, Error> {
        let _wiring = self.0.wiring.lock().await;
        if let Some(link) = self.pod(id) {
            return Ok(link);
        }
        // A plugin's bridge passes packets between its pods itself; the Service rules must see them.
        bridge_netfilter(&self.0.netns, true);
        let link = PodLink::unwired(pod::netns(self.0.dual_stack)?);
        self.0.pods.lock().insert(id.to_owned(), link.clone());
        Ok(link)
    }

    /// What a pod of the host network gets: the node's own namespace and addresses.
    pub fn host_pod(&self) -> PodLink {
        PodLink::of_host(self.0.netns.clone(), self.0.addresses.clone())
    }

    pub fn pod(&self, id: &str) -> Option<PodLink> {
        self.0.pods.lock().get(id).cloned()
    }

    /// Unplugs a pod and gives its addresses back. The namespace ends with its last process.
    pub async fn remove_pod(&self, id: &str) -> Result<(), Error> {
        let _wiring = self.0.wiring.lock().await;
        let Some(link) = self.0.pods.lock().remove(id) else { return Ok(()) };
        let Some(cable) = link.cable() else { return Ok(()) };
        let removed = self.0.links.delete(cable).await;
        let mut pools = self.0.pools.lock();
        for address in &link.addresses {
            pools.iter_mut().for_each(|pool| pool.give_back(address));
        }
        removed
    }

    /// Cuts the node off: its cable to the backbone is dead, its own pods still reach each other.
    pub async fn cut(&self) -> Result<(), Error> {
        self.0.backbone_links.set_up(&self.0.cable, false).await?;
        self.0.cut.store(true, Ordering::Release);
        Ok(())
    }

    pub async fn heal(&self) -> Result<(), Error> {
        self.0.backbone_links.set_up(&self.0.cable, true).await?;
        self.0.cut.store(false, Ordering::Release);
        Ok(())
    }

    pub fn is_cut(&self) -> bool {
        self.0.cut.load(Ordering::Acquire)
    }

    /// Makes the node's packet rules say what `table` says, in one transaction.
    pub async fn set_services(&self, table: ServiceTable) -> Result<(), Error> {
        self.0.rules.lock().await.set(table).await
    }

    /// Lets pods of this node keep their own address towards these outside hosts.
    pub(crate) async fn add_routed(&self, hosts: &[IpAddr]) -> Result<(), Error> {
        self.0.rules.lock().await.add_routed(hosts).await
    }

    pub(crate) fn cable(&self) -> &str {
        &self.0.cable
    }

    pub(crate) async fn add_peer(&self, peer: &Self) -> Result<(), Error> {
        for route in self.routes_to(peer) {
            self.0.links.add_route(route).await?;
        }
        Ok(())
    }

    pub(crate) async fn remove_peer(&self, peer: &Self) -> Result<(), Error> {
        for route in self.routes_to(peer) {
            self.0.links.delete_route(route).await?;
        }
        Ok(())
    }

    fn routes_to(&self, peer: &Self) -> impl Iterator<Item = Route> {
        let ranges = peer.pod_ranges().iter().zip(peer.addresses()).zip(self.addresses());
        ranges.map(|((range, by), from)| Route {
            source: Some(*from),
            ..Route::via(*range, self.0.uplink, *by)
        })
    }
}
