//! What the rules need to know of this machine: its addresses, its name servers, the proxy's user.
//!
//! In: the namespace of the calling thread and the files of this machine; out: values.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use crate::config::Host;

/// More than any real file; the rest is not read.
const LONGEST_RESOLV_CONF: u64 = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot list this machine's addresses")]
    Addresses(#[source] io::Error),
    #[error("no link of this machine has an address of its own; is the pod's network ready?")]
    NoAddress,
    #[error("cannot read the name servers in {path}")]
    NameServers { path: String, source: io::Error },
}

/// Looks at this machine. IPv6 counts if the first address is one, or with `dual_stack` any; a file
/// with name servers is read only if it is given.
pub fn look(dual_stack: bool, resolv_conf: Option<&Path>) -> Result<Host, Error> {
    let addresses = ironsail_sys::interface::addresses().map_err(Error::Addresses)?;
    let ipv6 = uses_ipv6(&addresses, dual_stack).ok_or(Error::NoAddress)?;
    let name_servers = match resolv_conf {
        Some(path) => {
            let text = read(path).map_err(|source| Error::NameServers {
                path: path.display().to_string(),
                source,
            })?;
            Host::name_servers_of(&text)
        }
        None => Vec::new(),
    };
    Ok(Host { ipv6, name_servers })
}

fn read(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(LONGEST_RESOLV_CONF).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// `None`: there is no address that others could reach.
fn uses_ipv6(addresses: &[IpAddr], dual_stack: bool) -> Option<bool> {
    let link_local = |address: &IpAddr| match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_multicast(),
    };
    let mut own = addresses.iter().map(IpAddr::to_canonical).filter(|address| {
        !address.is_loopback() && !link_local(address) && !is_passthrough(address)
    });
    let first = own.next()?.is_ipv6();
    Some(first || (dual_stack && own.any(|address| address.is_ipv6())))
}

/// `::6` is on the loopback link because an earlier run put it there.
fn is_passthrough(address: &IpAddr) -> bool {
    *address == IpAddr::from([0, 0, 0, 0, 0, 0, 0, 6u16])
}

#[cfg(test)]
mod tests {
    use super::uses_ipv6;

    fn decide(addresses: &[&str], dual_stack: bool) -> Option<bool> {
        let addresses: Vec<_> = addresses.iter().map(|a| a.parse().unwrap()).collect();
        uses_ipv6(&addresses, dual_stack)
    }

    #[test]
    fn the_first_real_address_decides_the_family() {
        let both = ["127.0.0.1", "10.1.2.3", "::1", "fe80::1", "fd00::5"];
        assert_eq!(decide(&both, false), Some(false));
        assert_eq!(decide(&both, true), Some(true));
        assert_eq!(decide(&["127.0.0.1", "::1", "fd00::5"], false), Some(true));
        assert_eq!(decide(&["10.1.2.3", "fe80::1"], true), Some(false));
    }

    #[test]
    fn loopback_and_link_local_addresses_are_none() {
        assert_eq!(decide(&["127.0.0.1", "169.254.1.1", "::1", "::6", "fe80::1"], true), None);
    }
}
