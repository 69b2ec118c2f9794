//! `MeshNetworks`: which addresses belong to which network, and the gateways between them.

use std::collections::BTreeMap;

use crate::wire::{message, oneof};

message! {
    /// All networks by name.
    pub struct MeshNetworks {
        /// The networks.
        pub networks: BTreeMap<String, Network>,
    }

    /// A network.
    pub struct Network {
        /// What belongs to it.
        pub endpoints: Vec<NetworkEndpoints>,
        /// How it is reached from others.
        pub gateways: Vec<NetworkGateway>,
    }

    /// A gateway of a network.
    pub struct NetworkGateway {
        /// Where it is.
        pub gateway: NetworkGatewayAddress,
        /// Its port.
        pub port: u32,
        /// Its place.
        pub locality: String,
    }
}

oneof! {
    /// What belongs to a network.
    pub enum NetworkEndpoints {
        /// A range of addresses.
        FromCidr(String) = from_cidr,
        /// All of a cluster.
        FromRegistry(String) = from_registry,
    }

    /// Where a gateway is.
    pub enum NetworkGatewayAddress {
        /// A service.
        RegistryServiceName(String) = registry_service_name,
        /// An address.
        Address(String) = address,
    }
}
