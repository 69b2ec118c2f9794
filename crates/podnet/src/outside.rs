//! Hosts beside the nodes: where "external" servers of tests and demos run.
//!
//! In: a name and addresses; out: a namespace on the backbone. A pod's packets reach it from the
//! address of the pod's node, as they would reach a server on the Internet.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv6Net};
use ironsail_sys::netns::Netns;
use serde::{Deserialize, Serialize};

use crate::backbone::{Backbone, OUTSIDE, OUTSIDE_ROUTED};
use crate::link::{Links, Route};
use crate::node::UPLINK;
use crate::{Error, NetworkConfig};

/// What the backbone's end of each cable is called in IPv6, where a gateway must be on the link.
const GATEWAY_V6_ADDRESS: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const GATEWAY_V6: IpNet = IpNet::V6(Ipv6Net::new_assert(GATEWAY_V6_ADDRESS, 64));

/// An outside host as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutsideConfig {
    pub name: String,
    pub addresses: Vec<IpAddr>,
    /// Names under which cluster DNS knows it; its own name is not one of them by itself.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// Whether it is on the pods' network: it may call pods by their addresses, and pods reach it
    /// with theirs (a virtual machine of the same network). Otherwise it can only call nodes.
    #[serde(default)]
    pub routed: bool,
}

/// An outside host. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Outside(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: OutsideConfig,
    number: usize,
    netns: Netns,
}

impl Outside {
    pub(crate) async fn create(
        network: &NetworkConfig,
        backbone: &Backbone,
        number: usize,
        config: OutsideConfig,
    ) -> Result<Self, Error> {
        check(network, &config)?;
        let netns = Netns::create().map_err(Error::namespace("cannot make an outside host"))?;
        if network.is_dual_stack() {
            let settings = [
                ("net/ipv6/conf/default/accept_dad", "0"),
                ("net/ipv6/conf/default/accept_ra", "0"),
            ];
            netns
                .set_sysctls(&settings)
                .map_err(Error::namespace("cannot set up an outside host"))?;
        }
        let kind = if config.routed { OUTSIDE_ROUTED } else { OUTSIDE };
        backbone.add_outside(&netns, &format!("{kind}{number}"), &config.addresses).await?;
        let links = Links::open(&netns)?;
        links.set_up(UPLINK, true).await?;
        let uplink = links.index(UPLINK).await?;
        for address in &config.addresses {
            links.add_address(uplink, IpNet::from(*address)).await?;
        }
        for own in network.own_addresses() {
            if config.addresses.iter().any(|a| a.is_ipv4() == own.is_ipv4()) {
                let gateway = if own.is_ipv4() { own } else { GATEWAY_V6_ADDRESS.into() };
                links.add_route(Route::default_via(uplink, gateway)).await?;
            }
        }
        Ok(Self(Arc::new(Inner { config, number, netns })))
    }

    pub fn name(&self) -> &str {
        &self.0.config.name
    }

    pub fn config(&self) -> &OutsideConfig {
        &self.0.config
    }

    pub fn addresses(&self) -> &[IpAddr] {
        &self.0.config.addresses
    }

    pub fn netns(&self) -> &Netns {
        &self.0.netns
    }

    pub(crate) fn number(&self) -> usize {
        self.0.number
    }
}

fn check(network: &NetworkConfig, config: &OutsideConfig) -> Result<(), Error> {
    let ranges = [&network.pod_cidrs, &network.service_cidrs, &network.backbone_cidrs];
    for address in &config.addresses {
        if let Some(range) = ranges.into_iter().flatten().find(|r| r.contains(address)) {
            let (name, address, range) = (config.name.clone(), *address, *range);
            return Err(Error::AddressInside { name, address, range });
        }
    }
    Ok(())
}
