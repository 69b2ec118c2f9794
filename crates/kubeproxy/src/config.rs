//! What the proxy is told at the start.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipnet::Ipv4Net;

#[derive(Clone, Debug)]
pub struct Config {
    pub cluster_domain: String,
    /// How long clients may remember a name, in seconds.
    pub ttl: u32,
    /// Names of the outside world with their addresses.
    pub outside_names: Vec<(String, Vec<IpAddr>)>,
    /// DNS servers for all other names; without any, those do not exist.
    pub upstreams: Vec<SocketAddr>,
    /// Where node ports answer on the host.
    pub node_port_address: IpAddr,
    /// The loopback range that load balancers get their addresses from.
    pub balancer_range: Ipv4Net,
    /// How long changes are collected before the rules are changed.
    pub settle: Duration,
}

impl Config {
    /// The usual values. `instance` tells podlets on one machine apart: each takes its load balancer
    /// addresses from another part of 127.0.0.0/8.
    pub fn of_instance(instance: &str) -> Self {
        Self {
            cluster_domain: "cluster.local".to_owned(),
            ttl: 5,
            outside_names: Vec::new(),
            upstreams: Vec::new(),
            node_port_address: Ipv4Addr::LOCALHOST.into(),
            balancer_range: balancer_range(instance),
            settle: Duration::from_millis(50),
        }
    }
}

/// One of 127.16.0.0/16 … 127.239.0.0/16. Below and above live the addresses that other programs
/// like to use (127.0.0.1, 127.0.0.53, 127.0.1.1).
fn balancer_range(instance: &str) -> Ipv4Net {
    // FNV-1a: the same on every run, which a std hasher does not promise.
    let hash = instance
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let second = u8::try_from(16 + hash % 224).unwrap_or(16);
    Ipv4Net::new_assert(Ipv4Addr::new(127, second, 0, 0), 16)
}

#[cfg(test)]
mod tests {
    use super::balancer_range;

    #[test]
    fn an_instance_always_gets_the_same_range() {
        assert_eq!(balancer_range("/var/lib/a"), balancer_range("/var/lib/a"));
        assert_ne!(balancer_range("/var/lib/a"), balancer_range("/var/lib/b"));
    }
}
