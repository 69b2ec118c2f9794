//! Networks: who belongs to one, and through which gateways it is reached from others.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use ironsail_api::mesh::{MeshNetworks, NetworkEndpoints, NetworkGatewayAddress};
use ironsail_api::{ClusterId, Resource, kube};
use ironsail_names::{Hostname, label, port};

use crate::endpoint::Address;
use crate::mesh::Mesh;
use crate::select::matches;
use crate::{Service, ServiceKind};

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

/// JSON of the labels of nodes through which a Service of type NodePort is reached.
pub(crate) const NODE_SELECTOR: &str = "traffic.istio.io/nodeSelector";

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

/// A node and the cluster that it is in.
pub(crate) type ClusterNode<'a> = (&'a ClusterId, &'a Resource<kube::Node>);

/// All gateways, from MeshNetworks and from Services that carry the network's label. A Service that is
/// reached through nodes has an entrance at each of those it names.
pub(crate) fn gateways<'a>(
    mesh: &Mesh,
    services: impl Iterator<Item = &'a Arc<Service>>,
    nodes: &[ClusterNode<'_>],
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
                    list.extend(named.flat_map(|service| entrances(service, port, nodes)));
                }
                NetworkGatewayAddress::Unset => {}
            }
        }
    }
    for service in services {
        let Some(network) = service.labels.get(label::NETWORK) else { continue };
        let own = service.labels.get(GATEWAY_PORT).and_then(|port| port.parse().ok());
        let list = found.entry(network.as_str().into()).or_default();
        list.extend(entrances(service, own.unwrap_or(port::MULTI_NETWORK), nodes));
    }
    for list in found.values_mut() {
        list.sort();
        list.dedup();
    }
    found.retain(|_, list| !list.is_empty());
    found
}

fn entrances(service: &Service, port: u16, nodes: &[ClusterNode<'_>]) -> Vec<NetworkGateway> {
    let cluster = service.sources.first().map(|source| source.cluster.clone());
    let entrance = |ip: IpAddr, port: u16| NetworkGateway {
        address: Address::Ip(ip),
        port,
        cluster: cluster.clone(),
    };
    let mut found: Vec<_> =
        service.external_addresses.iter().map(|ip| entrance(*ip, port)).collect();
    let node_port = service.port(port).and_then(|port| port.node_port);
    if let (Some(node_port), Some(selector)) = (node_port, node_selector(service)) {
        let own = nodes.iter().filter(|(of, node)| {
            Some(*of) == cluster.as_ref() && matches(&selector, &node.meta.labels)
        });
        found.extend(own.flat_map(|(_, node)| outside(node)).map(|ip| entrance(ip, node_port)));
    }
    found
}

/// The labels of the nodes through which a Service is reached from outside; None if it is not.
pub(crate) fn node_selector(service: &Service) -> Option<BTreeMap<String, String>> {
    let text = service.annotations.get(NODE_SELECTOR)?;
    (service.kind == ServiceKind::NodePort).then(|| serde_json::from_str(text).ok())?
}

/// The addresses of a node that others reach it by.
fn outside(node: &Resource<kube::Node>) -> impl Iterator<Item = IpAddr> {
    let external = node.spec.addresses.iter().filter(|address| address.r#type == "ExternalIP");
    external.filter_map(|address| address.address.parse().ok())
}
