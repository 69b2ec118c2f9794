//! What decides the rules, typed: text that got this far fits into a rule as it stands.
//!
//! In: [`Settings`], the text of flags and environment; out: a [`Config`] or every fault at once.
//! A name or list that could change the meaning of a rule's text is refused here.

mod parse;
mod settings;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

pub use settings::{Fault, Host, Settings};

/// How arriving connections get to the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The destination is rewritten; the proxy asks the kernel what it was.
    #[default]
    Redirect,
    /// The packet is handed over unchanged, so the application sees the client's address.
    Tproxy,
    /// Arriving connections are not captured.
    None,
}

/// One port or several in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

impl PortRange {
    pub fn one(port: u16) -> Self {
        Self { first: port, last: port }
    }

    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

/// A network link's name, or with a `+` at the end the beginning of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface(String);

impl Interface {
    /// The loopback link.
    pub fn loopback() -> Self {
        Self("lo".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboundPorts {
    AllExcept(Vec<PortRange>),
    Only(Vec<PortRange>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destinations {
    All,
    Only(Vec<IpNet>),
}

/// Groups, by name or number, whose sockets are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    AllExcept(Vec<String>),
    Only(Vec<String>),
}

/// Which name lookups go to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dns {
    Off,
    All,
    /// Those to these servers. Never empty, and IPv4 only where there is no IPv6.
    Servers(Vec<IpAddr>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where leaving connections go.
    pub proxy_port: u16,
    /// Where arriving connections go.
    pub inbound_capture_port: u16,
    /// The proxy's own tunnel port, which is never captured.
    pub inbound_tunnel_port: u16,
    pub proxy_users: Vec<String>,
    pub proxy_groups: Vec<String>,
    pub mode: Mode,
    pub tproxy_mark: u32,
    pub tproxy_route_table: u32,
    pub inbound_ports: InboundPorts,
    pub outbound_ports_include: Vec<PortRange>,
    pub outbound_ports_exclude: Vec<PortRange>,
    pub outbound_ranges: Destinations,
    pub outbound_ranges_exclude: Vec<IpNet>,
    pub owner_groups: Groups,
    /// Links whose arriving traffic (from a virtual machine) counts as leaving.
    pub virtual_interfaces: Vec<Interface>,
    pub exclude_interfaces: Vec<Interface>,
    pub dns: Dns,
    pub drop_invalid: bool,
    pub ipv6: bool,
    /// Addresses of this pod's own containers, which are never captured.
    pub loopback: Ipv4Net,
}

impl Config {
    /// Whether any arriving connection is captured.
    pub fn captures_inbound(&self) -> bool {
        self.mode != Mode::None && self.inbound_ports != InboundPorts::Only(Vec::new())
    }

    /// Whether capture needs the policy route that keeps marked packets on this machine.
    pub fn needs_tproxy_route(&self) -> bool {
        self.mode == Mode::Tproxy && self.captures_inbound()
    }

    /// Whether somebody asked to capture connections to the loopback address.
    pub(crate) fn captures_loopback(&self) -> bool {
        match &self.outbound_ranges {
            Destinations::All => false,
            Destinations::Only(ranges) => ranges.iter().any(|r| r.addr().is_loopback()),
        }
    }
}
