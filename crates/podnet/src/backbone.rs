//! The backbone: the namespace that joins nodes, outside hosts and podlet's own listeners.
//!
//! In: nodes and outside hosts to plug in; out: one bridge, its routes and its packet rules. What
//! is addressed to nobody here is answered with a refusal at once, or carried out by the relay when
//! egress is on; it never leaves this namespace as a packet.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use ironsail_sys::netns::{Dialer, Netns};
use tokio_util::task::AbortOnDropHandle;

use crate::link::{End, Links, Route, everything};
use crate::{Error, NetworkConfig, Node, egress, nft, outside};

const BRIDGE: &str = "backbone";
/// The cables of outside hosts that pods can call but that cannot call pods, and of those that can.
pub(crate) const OUTSIDE: &str = "out";
pub(crate) const OUTSIDE_ROUTED: &str = "peer";
const BRIDGE_MAC: [u8; 6] = [0x02, 0x70, 0x6c, 0, 0, 1];

pub(crate) struct Backbone {
    pub(crate) netns: Netns,
    pub(crate) links: Links,
    pub(crate) dialer: Dialer,
    bridge: u32,
    _egress: Vec<AbortOnDropHandle<()>>,
}

impl Backbone {
    pub(crate) async fn create(config: &NetworkConfig) -> Result<Self, Error> {
        let netns = router_netns(config)?;
        let links = Links::open(&netns)?;
        let dialer = netns.dialer().map_err(Error::namespace("cannot enter the backbone"))?;
        let bridge = links.add_bridge(BRIDGE, BRIDGE_MAC).await?;
        for (own, range) in config.own_addresses().into_iter().zip(&config.backbone_cidrs) {
            links.add_address(bridge, IpNet::from(own)).await?;
            links
                .add_route(Route { source: Some(own), ..Route::on_link(range.trunc(), bridge) })
                .await?;
            // Not a way out: it only makes the kernel ask the rules below, which refuse.
            links.add_route(Route::on_link(everything(own), bridge)).await?;
        }
        let families = if config.egress { config.own_addresses() } else { Vec::new() };
        let relay = egress::listen(&dialer, &families).await?;
        let ports: Vec<_> = relay.iter().map(|(at, _)| *at).collect();
        nft::apply(&netns, "the rules of the backbone", rules(config, &ports)).await?;
        let relay = relay.into_iter().map(|(_, task)| task).collect();
        Ok(Self { netns, links, dialer, bridge, _egress: relay })
    }

    /// Lays a cable to a node and the routes to its pods.
    pub(crate) async fn add_node(&self, node: &Netns, cable: &str) -> Result<(), Error> {
        let here = End { name: cable, mac: None, bridge: Some(self.bridge) };
        self.links.add_veth(here, End::named(crate::node::UPLINK), node).await
    }

    pub(crate) async fn add_routes(&self, ranges: &[IpNet], by: &[IpAddr]) -> Result<(), Error> {
        for (range, gateway) in ranges.iter().zip(by) {
            self.links.add_route(Route::via(*range, self.bridge, *gateway)).await?;
        }
        Ok(())
    }

    /// Lays a cable to an outside host, which is no port of the bridge but has routes of its own.
    pub(crate) async fn add_outside(
        &self,
        host: &Netns,
        cable: &str,
        addresses: &[IpAddr],
    ) -> Result<(), Error> {
        self.links.add_veth(End::named(cable), End::named(crate::node::UPLINK), host).await?;
        let link = self.links.index(cable).await?;
        let mut elements = String::new();
        for address in addresses {
            self.links.add_route(Route::on_link(IpNet::from(*address), link)).await?;
            let set = if address.is_ipv4() { "outside4" } else { "outside6" };
            let _ = writeln!(elements, "add element inet podlet {set} {{ {address} }}");
        }
        if addresses.iter().any(IpAddr::is_ipv6) {
            self.links.add_address(link, outside::GATEWAY_V6).await?;
        }
        nft::apply(&self.netns, "the address of an outside host", elements).await
    }

    pub(crate) async fn remove_node(&self, node: &Node) -> Result<(), Error> {
        for (range, gateway) in node.pod_ranges().iter().zip(node.addresses()) {
            self.links.delete_route(Route::via(*range, self.bridge, *gateway)).await?;
        }
        self.links.delete(node.cable()).await
    }
}

/// A namespace that forwards packets and speaks its mind: no redirects to learn, no limit on
/// refusals, no source checks (packets come back another way while rules change).
pub(crate) fn router_netns(config: &NetworkConfig) -> Result<Netns, Error> {
    let netns = Netns::create().map_err(Error::namespace("cannot make a network namespace"))?;
    let v4 = [
        ("net/ipv4/ip_forward", "1"),
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/default/rp_filter", "0"),
        ("net/ipv4/conf/all/send_redirects", "0"),
        ("net/ipv4/conf/default/send_redirects", "0"),
        ("net/ipv4/conf/default/arp_announce", "2"),
        ("net/ipv4/icmp_ratelimit", "0"),
    ];
    netns.set_sysctls(&v4).map_err(Error::namespace("cannot set a namespace up as a router"))?;
    if config.is_dual_stack() {
        let v6 = [
            ("net/ipv6/conf/all/disable_ipv6", "0"),
            ("net/ipv6/conf/default/disable_ipv6", "0"),
            ("net/ipv6/conf/default/accept_dad", "0"),
            ("net/ipv6/conf/default/accept_ra", "0"),
            ("net/ipv6/conf/all/forwarding", "1"),
            ("net/ipv6/icmp/ratelimit", "0"),
        ];
        netns.set_sysctls(&v6).map_err(Error::namespace("cannot set a namespace up for IPv6"))?;
    }
    bridge_netfilter(&netns, false);
    Ok(netns)
}

/// Whether packet rules also see what a bridge passes on. Absent on kernels without br_netfilter,
/// where they never do.
pub(crate) fn bridge_netfilter(netns: &Netns, on: bool) {
    let value = if on { "1" } else { "0" };
    for key in ["net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"] {
        if let Err(error) = netns.set_sysctl(key, value) {
            tracing::debug!(%error, "no br_netfilter here");
        }
    }
}

/// The rules of the backbone. `relay` is where the egress relay listens, if there is one.
fn rules(config: &NetworkConfig, relay: &[SocketAddr]) -> String {
    let mut text = String::from(
        "table inet podlet {
  set outside4 { type ipv4_addr; }
  set outside6 { type ipv6_addr; }
  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmpx type admin-prohibited
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    ct state established,related accept
    ip daddr @outside4 accept
    ip6 daddr @outside6 accept
",
    );
    for (pods, nodes) in config.pod_cidrs.iter().zip(&config.backbone_cidrs) {
        let ip = nft::family(pods.addr());
        // Hosts that are not on the pods' network may answer pods but not call them.
        let _ = writeln!(text, "    iifname \"{OUTSIDE}*\" {ip} daddr {pods} goto refuse");
        let _ = writeln!(text, "    {ip} daddr {{ {pods}, {nodes} }} accept");
    }
    text.push_str("    goto refuse\n  }\n");
    if !relay.is_empty() {
        text.push_str(
            "  chain egress {\n    type nat hook prerouting priority dstnat; policy accept;\n",
        );
        text.push_str("    ip daddr @outside4 accept\n    ip6 daddr @outside6 accept\n");
        for at in relay {
            let inside: Vec<_> = inside(config, at.ip()).map(|n| n.to_string()).collect();
            let (ip, inside, port) = (nft::family(at.ip()), inside.join(", "), at.port());
            let _ = writeln!(
                text,
                "    {ip} daddr != {{ {inside} }} meta l4proto tcp redirect to :{port}"
            );
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
    text
}

/// The ranges of this network in the family of `family_of`.
fn inside(config: &NetworkConfig, family_of: IpAddr) -> impl Iterator<Item = IpNet> {
    let all = config.pod_cidrs.iter().chain(&config.backbone_cidrs).chain(&config.service_cidrs);
    all.copied().filter(move |n| n.addr().is_ipv4() == family_of.is_ipv4())
}
