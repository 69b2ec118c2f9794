//! The addresses of this machine's network links.

use std::io;
use std::net::IpAddr;

/// All addresses of the calling thread's network namespace, in the kernel's order: IPv4 first.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let of = |address: nix::sys::socket::SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip())))
    };
    Ok(nix::ifaddrs::getifaddrs()?.filter_map(|link| link.address.and_then(of)).collect())
}

#[cfg(test)]
mod tests {
    use crate::netns::Netns;

    #[test]
    fn a_new_namespace_has_only_loopback_addresses() {
        let netns = Netns::create().unwrap();
        let addresses = netns.run(super::addresses).unwrap().unwrap();
        assert!(!addresses.is_empty());
        assert!(addresses.iter().all(std::net::IpAddr::is_loopback), "{addresses:?}");
    }
}
