//! Addresses as Envoy writes them.

use ironsail_proto::envoy::config::core::v3::{
    Address, Pipe, SocketAddress, address, socket_address::PortSpecifier,
};

/// An IP address or a DNS name, and a port.
pub fn socket(host: &str, port: u16) -> SocketAddress {
    SocketAddress {
        address: host.to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..Default::default()
    }
}

pub fn tcp(host: &str, port: u16) -> Address {
    Address { address: Some(address::Address::SocketAddress(socket(host, port))) }
}

pub fn pipe(path: &str) -> Address {
    let pipe = Pipe { path: path.to_owned(), ..Default::default() };
    Address { address: Some(address::Address::Pipe(pipe)) }
}
