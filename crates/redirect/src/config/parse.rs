//! The pieces of a setting: ports, marks, addresses, owners and links.
//!
//! In: untrusted text; out: a value, or what is wrong with it in a few words.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

use super::{Interface, Mode, PortRange};

/// The kernel's limit for a link's name, without its final zero byte.
const LONGEST_INTERFACE: usize = 15;
/// More than any real user or group name.
const LONGEST_OWNER: usize = 64;

/// The parts of a comma-separated list; spaces and empty parts do not count.
pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    match u16::from_str(text) {
        Ok(port) if port > 0 => Ok(port),
        _ => Err("is not a port (1 to 65535)".to_owned()),
    }
}

/// `8080`, `8000:8100` (as iptables writes it) or `8000-8100`.
pub(super) fn port_range(text: &str) -> Result<PortRange, String> {
    let range = match text.split_once([':', '-']) {
        Some((first, last)) => PortRange { first: port(first)?, last: port(last)? },
        None => PortRange::one(port(text)?),
    };
    if range.first > range.last {
        return Err("is a range of ports that ends before it begins".to_owned());
    }
    Ok(range)
}

pub(super) fn number(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => u32::from_str(text),
    };
    match number {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("is not a number from 1 to 4294967295".to_owned()),
    }
}

pub(super) fn network(text: &str) -> Result<IpNet, String> {
    IpNet::from_str(text).map_err(|_| "is not an IP range such as 10.0.0.0/8".to_owned())
}

pub(super) fn loopback(text: &str) -> Result<Ipv4Net, String> {
    let range = Ipv4Net::from_str(text)
        .map_err(|_| "is not an IPv4 range such as 127.0.0.1/32".to_owned())?;
    if range.addr().is_loopback() && range.prefix_len() >= 8 {
        Ok(range)
    } else {
        Err("is not inside the IPv4 loopback range 127.0.0.0/8".to_owned())
    }
}

pub(super) fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "" | "REDIRECT" => Ok(Mode::Redirect),
        "TPROXY" => Ok(Mode::Tproxy),
        "NONE" => Ok(Mode::None),
        _ => Err("is not one of REDIRECT, TPROXY, NONE".to_owned()),
    }
}

/// A user or group by number or name.
pub(super) fn owner(text: &str) -> Result<String, String> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let start = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    if start && text.len() <= LONGEST_OWNER && text.bytes().all(fine) {
        Ok(text.to_owned())
    } else {
        Err("is not a number or name of a user or group".to_owned())
    }
}

pub(super) fn interface(text: &str) -> Result<Interface, String> {
    let name = text.strip_suffix('+').unwrap_or(text);
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:@".contains(&byte);
    let start = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if start && text.len() <= LONGEST_INTERFACE && name.bytes().all(fine) {
        Ok(Interface(text.to_owned()))
    } else {
        Err("is not the name of a network interface".to_owned())
    }
}

/// Name servers as `/etc/resolv.conf` lists them, without a scope such as `%eth0`.
pub(super) fn name_servers(resolv_conf: &str) -> Vec<IpAddr> {
    resolv_conf
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next().filter(|w| *w == "nameserver").and(words.next())?;
            address.split('%').next()?.parse().ok()
        })
        .collect()
}
