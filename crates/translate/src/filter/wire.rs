//! The small wrappers of protobuf that Envoy's messages are full of.

use std::time::Duration;

use ironsail_proto::envoy::config::core::v3::{
    Address, CidrRange, GrpcService, SocketAddress, address, grpc_service,
    socket_address::PortSpecifier,
};
use ironsail_proto::google::protobuf::{self as pb, BoolValue, UInt32Value};

/// A set flag, as opposed to one left to Envoy's default.
pub fn flag(value: bool) -> Option<BoolValue> {
    Some(BoolValue { value })
}

pub fn number(value: u32) -> Option<UInt32Value> {
    Some(UInt32Value { value })
}

pub fn span(duration: Duration) -> Option<pb::Duration> {
    Some(duration.into())
}

/// Zero, which turns most of Envoy's timeouts off.
pub fn never() -> Option<pb::Duration> {
    span(Duration::ZERO)
}

/// An IP address and port, or a Unix socket if `bind` says so.
pub fn address(bind: &str, port: u16) -> Address {
    let address = match bind.strip_prefix("unix://") {
        Some(path) => address::Address::Pipe(ironsail_proto::envoy::config::core::v3::Pipe {
            path: path.to_owned(),
            ..Default::default()
        }),
        None => address::Address::SocketAddress(SocketAddress {
            address: bind.to_owned(),
            port_specifier: Some(PortSpecifier::PortValue(port.into())),
            ..Default::default()
        }),
    };
    Address { address: Some(address) }
}

/// `10.0.0.0/8`, or one address as a range of its own. None if it is neither.
pub fn cidr(text: &str) -> Option<CidrRange> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address: std::net::IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(most);
    if length > most {
        return None;
    }
    Some(CidrRange { address_prefix: address.to_string(), prefix_len: number(length.into()) })
}

/// A gRPC service behind a cluster; without an authority it is asked for by the cluster's name.
pub fn grpc(cluster: &str, authority: &str) -> GrpcService {
    let target = grpc_service::TargetSpecifier::EnvoyGrpc(grpc_service::EnvoyGrpc {
        cluster_name: cluster.to_owned(),
        authority: authority.to_owned(),
        ..Default::default()
    });
    GrpcService { target_specifier: Some(target), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_nonsense_is_not() {
        let range = |text: &str| {
            cidr(text).map(|r| format!("{}/{}", r.address_prefix, r.prefix_len.unwrap().value))
        };
        assert_eq!(range("10.0.0.0/8").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(range("10.1.2.3").as_deref(), Some("10.1.2.3/32"));
        assert_eq!(range("fd00::1").as_deref(), Some("fd00::1/128"));
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "a/8", "10.0.0.0/-1"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}
