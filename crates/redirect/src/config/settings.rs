//! Settings as they come from flags and environment, and what becomes of them.
//!
//! In: text and what is known of this machine; out: a [`Config`], or all faults.

use std::fmt;
use std::net::IpAddr;

use super::{Config, Destinations, Dns, Groups, InboundPorts, parse};

/// iptables puts each of the groups into one rule, and a rule has room for so many matches only.
const MOST_OWNER_GROUPS: usize = 64;

/// The settings of `istio-iptables` that decide its rules, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub proxy_port: String,
    pub inbound_capture_port: String,
    pub inbound_tunnel_port: String,
    pub proxy_uid: String,
    /// Empty: the same as `proxy_uid`.
    pub proxy_gid: String,
    pub inbound_interception_mode: String,
    pub inbound_tproxy_mark: String,
    pub inbound_tproxy_route_table: String,
    pub inbound_ports_include: String,
    pub inbound_ports_exclude: String,
    pub outbound_ports_include: String,
    pub outbound_ports_exclude: String,
    pub outbound_ip_ranges_include: String,
    pub outbound_ip_ranges_exclude: String,
    pub owner_groups_include: String,
    pub owner_groups_exclude: String,
    pub reroute_virtual_interfaces: String,
    pub exclude_interfaces: String,
    pub redirect_dns: bool,
    pub capture_all_dns: bool,
    pub drop_invalid: bool,
    pub loopback_cidr: String,
}

impl Default for Settings {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            proxy_port: text("15001"),
            inbound_capture_port: text("15006"),
            inbound_tunnel_port: text("15008"),
            proxy_uid: text("1337"),
            proxy_gid: String::new(),
            inbound_interception_mode: String::new(),
            inbound_tproxy_mark: text("1337"),
            inbound_tproxy_route_table: text("133"),
            inbound_ports_include: String::new(),
            inbound_ports_exclude: String::new(),
            outbound_ports_include: String::new(),
            outbound_ports_exclude: String::new(),
            outbound_ip_ranges_include: String::new(),
            outbound_ip_ranges_exclude: String::new(),
            owner_groups_include: text("*"),
            owner_groups_exclude: String::new(),
            reroute_virtual_interfaces: String::new(),
            exclude_interfaces: String::new(),
            redirect_dns: false,
            capture_all_dns: false,
            drop_invalid: false,
            loopback_cidr: text("127.0.0.1/32"),
        }
    }
}

/// What the rules need to know of the machine they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub ipv6: bool,
    pub name_servers: Vec<IpAddr>,
}

impl Host {
    /// The name servers of a `/etc/resolv.conf`.
    pub fn name_servers_of(resolv_conf: &str) -> Vec<IpAddr> {
        parse::name_servers(resolv_conf)
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The flag or variable that sets it.
    pub setting: &'static str,
    pub value: String,
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} {}", self.setting, self.value, self.problem)
    }
}

impl std::error::Error for Fault {}

impl Settings {
    /// Reads all settings; none is skipped because another one is wrong.
    pub fn config(&self, host: &Host) -> Result<Config, Vec<Fault>> {
        let mut faults = Faults(Vec::new());
        let config = self.read(host, &mut faults);
        if faults.0.is_empty() { Ok(config) } else { Err(faults.0) }
    }

    fn read(&self, host: &Host, faults: &mut Faults) -> Config {
        let gid = if self.proxy_gid.is_empty() { &self.proxy_uid } else { &self.proxy_gid };
        Config {
            proxy_port: faults.one("--envoy-port", &self.proxy_port, parse::port),
            inbound_capture_port: faults.one(
                "--inbound-capture-port",
                &self.inbound_capture_port,
                parse::port,
            ),
            inbound_tunnel_port: faults.one(
                "--inbound-tunnel-port",
                &self.inbound_tunnel_port,
                parse::port,
            ),
            proxy_users: faults.some("--proxy-uid", &self.proxy_uid, parse::owner),
            proxy_groups: faults.some("--proxy-gid", gid, parse::owner),
            mode: faults.one(
                "--istio-inbound-interception-mode",
                &self.inbound_interception_mode,
                parse::mode,
            ),
            tproxy_mark: faults.one(
                "--istio-inbound-tproxy-mark",
                &self.inbound_tproxy_mark,
                parse::number,
            ),
            tproxy_route_table: faults.one(
                "--istio-inbound-tproxy-route-table",
                &self.inbound_tproxy_route_table,
                parse::number,
            ),
            inbound_ports: self.inbound_ports(faults),
            outbound_ports_include: faults.many(
                "--istio-outbound-ports",
                &self.outbound_ports_include,
                parse::port_range,
            ),
            outbound_ports_exclude: faults.many(
                "--istio-local-outbound-ports-exclude",
                &self.outbound_ports_exclude,
                parse::port_range,
            ),
            outbound_ranges: self.outbound_ranges(faults),
            outbound_ranges_exclude: faults.many(
                "--istio-service-exclude-cidr",
                &self.outbound_ip_ranges_exclude,
                parse::network,
            ),
            owner_groups: self.owner_groups(faults),
            virtual_interfaces: faults.many(
                "--kube-virt-interfaces",
                &self.reroute_virtual_interfaces,
                parse::interface,
            ),
            exclude_interfaces: faults.many(
                "--istio-exclude-interfaces",
                &self.exclude_interfaces,
                parse::interface,
            ),
            dns: self.dns(host),
            drop_invalid: self.drop_invalid,
            ipv6: host.ipv6,
            loopback: faults.one(
                "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR",
                &self.loopback_cidr,
                parse::loopback,
            ),
        }
    }

    fn inbound_ports(&self, faults: &mut Faults) -> InboundPorts {
        let setting = "--istio-local-exclude-ports";
        let except = faults.many(setting, &self.inbound_ports_exclude, parse::port_range);
        if self.inbound_ports_include.trim() == "*" {
            return InboundPorts::AllExcept(except);
        }
        let setting = "--istio-inbound-ports";
        InboundPorts::Only(faults.many(setting, &self.inbound_ports_include, parse::port_range))
    }

    fn outbound_ranges(&self, faults: &mut Faults) -> Destinations {
        if self.outbound_ip_ranges_include.trim() == "*" {
            return Destinations::All;
        }
        let setting = "--istio-service-cidr";
        Destinations::Only(faults.many(setting, &self.outbound_ip_ranges_include, parse::network))
    }

    fn owner_groups(&self, faults: &mut Faults) -> Groups {
        let setting = "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE";
        let except = faults.many(setting, &self.owner_groups_exclude, parse::owner);
        if self.owner_groups_include.trim() == "*" {
            return Groups::AllExcept(except);
        }
        let setting = "ISTIO_OUTBOUND_OWNER_GROUPS";
        let only = faults.some(setting, &self.owner_groups_include, parse::owner);
        if only.len() > MOST_OWNER_GROUPS {
            let problem =
                format!("has {} groups; at most {MOST_OWNER_GROUPS} fit into a rule", only.len());
            faults.add(setting, &self.owner_groups_include, problem);
        }
        Groups::Only(only)
    }

    fn dns(&self, host: &Host) -> Dns {
        if !self.redirect_dns {
            return Dns::Off;
        }
        if self.capture_all_dns {
            return Dns::All;
        }
        let mut servers = host.name_servers.clone();
        servers.retain(|server| host.ipv6 || server.is_ipv4());
        // Without a server that can be reached there is nothing to capture.
        if servers.is_empty() { Dns::Off } else { Dns::Servers(servers) }
    }
}

/// Collects what is wrong while the reading goes on.
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, setting: &'static str, value: &str, problem: String) {
        self.0.push(Fault { setting, value: value.to_owned(), problem });
    }

    fn one<T: Fallback>(
        &mut self,
        setting: &'static str,
        text: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        match parse(text.trim()) {
            Ok(value) => value,
            Err(problem) => {
                self.add(setting, text, problem);
                T::FALLBACK
            }
        }
    }

    fn many<T>(
        &mut self,
        setting: &'static str,
        text: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut values = Vec::new();
        for part in parse::list(text) {
            match parse(part) {
                Ok(value) => values.push(value),
                Err(problem) => self.add(setting, part, problem),
            }
        }
        values
    }

    /// A list that must not be empty.
    fn some<T>(
        &mut self,
        setting: &'static str,
        text: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let before = self.0.len();
        let values = self.many(setting, text, parse);
        if values.is_empty() && self.0.len() == before {
            self.add(setting, text, "names nobody".to_owned());
        }
        values
    }
}

/// What stands in for a bad value until all faults are found; never reaches a rule.
trait Fallback {
    const FALLBACK: Self;
}

impl Fallback for u16 {
    const FALLBACK: Self = 0;
}

impl Fallback for u32 {
    const FALLBACK: Self = 0;
}

impl Fallback for super::Mode {
    const FALLBACK: Self = super::Mode::None;
}

impl Fallback for ipnet::Ipv4Net {
    const FALLBACK: Self = ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::LOCALHOST, 32);
}
