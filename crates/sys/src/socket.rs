//! Socket options that the standard library does not know.
//!
//! In: a socket; out: what the kernel says of it.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt};

/// Where a connection was going before a packet rule redirected it to us.
pub fn original_destination(socket: &impl AsFd, arrived_at: SocketAddr) -> io::Result<SocketAddr> {
    // A socket that listens on both families reports IPv4 peers as mapped IPv6 addresses.
    match arrived_at.ip().to_canonical() {
        IpAddr::V4(_) => {
            let at = getsockopt(socket, sockopt::OriginalDst)?;
            let ip = std::net::Ipv4Addr::from(u32::from_be(at.sin_addr.s_addr));
            Ok(SocketAddr::from((ip, u16::from_be(at.sin_port))))
        }
        IpAddr::V6(_) => {
            let at = getsockopt(socket, sockopt::Ip6tOriginalDst)?;
            let ip = std::net::Ipv6Addr::from(at.sin6_addr.s6_addr);
            let port = u16::from_be(at.sin6_port);
            Ok(SocketAddrV6::new(ip, port, 0, at.sin6_scope_id).into())
        }
    }
}
