//! Networks: who belongs to one, and through which gateways it is reached from others.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use ironsail_api::ClusterId;
use ironsail_api::mesh::{MeshNetworks, NetworkEndpoints, NetworkGatewayAddress};
use ironsail_names::{Hostname, label, port};

use crate::Service;
use crate::endpoint::Address;
use crate::mesh::Mesh;

/// A way into a network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkGateway {
    pub address: Address,
    pub port: u16,
    /// The cluster whose Service it is, if one is.
    pub cluster: Option<ClusterId>,
}

/// The gateways of each network, sorted.
pub type NetworkGateways = BTreeMap<Arc<str>, Vec<NetworkGateway>>;

/// The Service's port for traffic between networks, if not 15443.
const GATEWAY_PORT: &str = "networking.istio.io/gatewayPort";

/// The clusters and the blocks of addresses of each network; longer prefixes first.
#[expect(clippy::type_complexity, reason = "two lists, taken apart at once")]
pub(crate) fn members(
    networks: &MeshNetworks,
) -> (Vec<(ClusterId, Arc<str>)>, Vec<(IpNet, Arc<str>)>) {
    let (mut clusters, mut blocks) = (Vec::new(), Vec::new());
    for (name, network) in &networks.networks {
        let name: Arc<str> = name.as_str().into();
        for member in &network.endpoints {
            match member {
                NetworkEndpoints::FromRegistry(cluster) => {
                    clusters.push((ClusterId::from(cluster.as_str()), name.clone()));
                }
                NetworkEndpoints::FromCidr(block) => {
                    blocks.extend(block.parse::<IpNet>().map(|block| (block, name.clone())));
                }
                NetworkEndpoints::Unset => {}
            }
        }
    }
    blocks.sort_by_key(|(block, _)| std::cmp::Reverse(block.prefix_len()));
    (clusters, blocks)
}

/// Whether gateways may come from this Service.
pub(crate) fn is_gateway(service: &Service, mesh: &Mesh) -> bool {
    service.labels.contains_key(label::NETWORK) || named_in(mesh, service.hostname())
}

fn named_in(mesh: &Mesh, host: &Hostname) -> bool {
    let gateways = mesh.networks.networks.values().flat_map(|network| &network.gateways);
    gateways.into_iter().any(|gateway| {
        matches!(&gateway.gateway, NetworkGatewayAddress::RegistryServiceName(name) if name == host.as_str())
    })
}

/// All gateways, from MeshNetworks and from Services that carry the network's label.
pub(crate) fn gateways<'a>(
    mesh: &Mesh,
    services: impl Iterator<Item = &'a Arc<Service>>,
) -> NetworkGateways {
    let mut found: NetworkGateways = BTreeMap::new();
    let services: Vec<_> = services.collect();
    for (name, network) in &mesh.networks.networks {
        let list = found.entry(name.as_str().into()).or_default();
        for gateway in &network.gateways {
            let Ok(port) = u16::try_from(gateway.port) else { continue };
            match &gateway.gateway {
                NetworkGatewayAddress::Address(text) => {
                    let address = match text.parse::<IpAddr>() {
                        Ok(ip) => Address::Ip(ip),
                        Err(_) => Address::Name(text.to_ascii_lowercase().into()),
                    };
                    list.push(NetworkGateway { address, port, cluster: None });
                }
                NetworkGatewayAddress::RegistryServiceName(name) => {
                    let named = services.iter().filter(|s| s.hostname().as_str() == name);
                    list.extend(named.flat_map(|service| entrances(service, port)));
                }
                NetworkGatewayAddress::Unset => {}
            }
        }
    }
    for service in services {
        let Some(network) = service.labels.get(label::NETWORK) else { continue };
        let own = service.labels.get(GATEWAY_PORT).and_then(|port| port.parse().ok());
        let list = found.entry(network.as_str().into()).or_default();
        list.extend(entrances(service, own.unwrap_or(port::MULTI_NETWORK)));
    }
    for list in found.values_mut() {
        list.sort();
        list.dedup();
    }
    found.retain(|_, list| !list.is_empty());
    found
}

fn entrances(service: &Service, port: u16) -> impl Iterator<Item = NetworkGateway> {
    let cluster = service.sources.first().map(|source| source.cluster.clone());
    service.external_addresses.iter().map(move |ip| NetworkGateway {
        address: Address::Ip(*ip),
        port,
        cluster: cluster.clone(),
    })
}
