//! A pod's namespace and its cable to the node's bridge.
//!
//! In: a pod's id; out: a namespace with addresses. The pod's addresses stand alone on its link
//! (/32, /128) and everything goes to the gateway, so no pod ever talks to another behind the
//! node's back.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use ipnet::IpNet;
use ironsail_sys::netns::Netns;

use super::{BRIDGE, Node, UPLINK};
use crate::Error;
use crate::link::{End, Links, Route};
use crate::pool::Pool;

const BRIDGE_MAC: [u8; 6] = [0x02, 0x70, 0x6c, 0, 0, 2];

/// How a pod is on the network.
#[derive(Clone, Debug)]
pub struct PodLink {
    pub netns: Netns,
    /// IPv4 first. Empty when a CNI plugin is to give the addresses.
    pub addresses: Vec<IpAddr>,
    cable: Option<String>,
}

impl PodLink {
    pub(super) fn unwired(netns: Netns) -> Self {
        Self { netns, addresses: Vec::new(), cable: None }
    }

    pub(super) fn of_host(netns: Netns, addresses: Vec<IpAddr>) -> Self {
        Self { netns, addresses, cable: None }
    }

    pub(super) fn cable(&self) -> Option<&str> {
        self.cable.as_deref()
    }
}

impl Node {
    pub(super) async fn wire(&self, id: &str) -> Result<PodLink, Error> {
        let bridge = *self.0.bridge.get_or_try_init(|| self.add_bridge()).await?;
        let addresses = self.take_addresses()?;
        let netns = netns(self.0.dual_stack)?;
        let cable = format!("veth{}", self.0.next_cable.fetch_add(1, Ordering::Relaxed));
        let link = PodLink { netns, addresses, cable: Some(cable.clone()) };
        let wired = self.lay_cable(&link, &cable, bridge).await;
        if let Err(error) = wired {
            tracing::warn!(pod = id, %error, "cannot wire the pod");
            let mut pools = self.0.pools.lock();
            for address in &link.addresses {
                pools.iter_mut().for_each(|pool| pool.give_back(address));
            }
            return Err(error);
        }
        Ok(link)
    }

    async fn lay_cable(&self, pod: &PodLink, cable: &str, bridge: u32) -> Result<(), Error> {
        let node = &self.0.links;
        let here = End { name: cable, mac: None, bridge: Some(bridge) };
        let there = End { name: UPLINK, mac: pod.addresses.first().and_then(mac), bridge: None };
        node.add_veth(here, there, &pod.netns).await?;
        node.isolate_port(cable).await?;
        let links = Links::open(&pod.netns)?;
        links.set_up(UPLINK, true).await?;
        let uplink = links.index(UPLINK).await?;
        for (address, gateway) in pod.addresses.iter().zip(self.gateways()) {
            links.add_address(uplink, IpNet::from(*address)).await?;
            links.add_route(Route::on_link(IpNet::from(gateway), uplink)).await?;
            links.add_route(Route::default_via(uplink, gateway)).await?;
        }
        Ok(())
    }

    /// The bridge, with the gateway's addresses and the way to the pods. What the node itself sends
    /// to a pod carries the node's own address.
    async fn add_bridge(&self) -> Result<u32, Error> {
        let links = &self.0.links;
        let bridge = links.add_bridge(BRIDGE, BRIDGE_MAC).await?;
        let ranges = self.0.pod_ranges.iter().zip(self.gateways()).zip(&self.0.addresses);
        for ((range, gateway), own) in ranges {
            links.add_address(bridge, IpNet::from(gateway)).await?;
            links.add_route(Route { source: Some(*own), ..Route::on_link(*range, bridge) }).await?;
        }
        Ok(bridge)
    }

    fn gateways(&self) -> Vec<IpAddr> {
        self.0.pools.lock().iter().filter_map(Pool::gateway).collect()
    }

    fn take_addresses(&self) -> Result<Vec<IpAddr>, Error> {
        let mut pools = self.0.pools.lock();
        let mut taken = Vec::new();
        for i in 0..pools.len() {
            let Some(address) = pools[i].take() else {
                let range = pools[i].range();
                for (pool, address) in pools.iter_mut().zip(&taken) {
                    pool.give_back(address);
                }
                return Err(Error::NoRoom { what: "another pod", range });
            };
            taken.push(address);
        }
        Ok(taken)
    }
}

/// A namespace as a pod wants it: any user may listen on low ports, IPv6 only where it is given.
pub(super) fn netns(dual_stack: bool) -> Result<Netns, Error> {
    let netns = Netns::create().map_err(Error::namespace("cannot make a pod's namespace"))?;
    let failed = Error::namespace("cannot set up a pod's namespace");
    netns.set_sysctl("net/ipv4/ip_unprivileged_port_start", "0").map_err(&failed)?;
    if dual_stack {
        let settings = [
            ("net/ipv6/conf/all/disable_ipv6", "0"),
            ("net/ipv6/conf/default/disable_ipv6", "0"),
            ("net/ipv6/conf/default/accept_dad", "0"),
            ("net/ipv6/conf/default/accept_ra", "0"),
        ];
        netns.set_sysctls(&settings).map_err(&failed)?;
    } else if let Err(error) = netns.set_sysctl("net/ipv6/conf/default/disable_ipv6", "1") {
        tracing::debug!(%error, "no IPv6 in this kernel");
    }
    Ok(netns)
}

/// A hardware address told by the IPv4 address, so that a reused address never meets a stale entry
/// in the node's neighbour table.
fn mac(address: &IpAddr) -> Option<[u8; 6]> {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            Some([0x0a, 0x58, a, b, c, d])
        }
        IpAddr::V6(_) => None,
    }
}
