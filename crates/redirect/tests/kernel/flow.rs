//! Where packets go: for random configurations the kernel and a small model agree.
//!
//! The model is written from what the settings mean to a user, not from rules, and knows neither tables
//! nor chains.

use std::net::{IpAddr, SocketAddr};

use ironsail_redirect::apply::{self, Backend, Kind, Options};
use ironsail_redirect::config::{Config, Host, Settings};
use ironsail_sys::env::Env;
use proptest::prelude::*;
use proptest::test_runner::{Config as Amount, TestRunner};

use crate::pod::{APP_PORTS, PROXY, Pod, as_owner, ask, connect, programs};

const OUTBOUND: &str = "15001";
const INBOUND: &str = "15006";
const AGENT: &str = "15053";
const WORLD: &str = "world";

/// How many configurations are tried; `PROPTEST_CASES` asks for more.
const CASES: u32 = 12;

/// Ports from the first to the last.
type Ports = (u16, u16);

/// A configuration, in the words of the model.
#[derive(Clone, Debug)]
struct Wanted {
    mode: Mode,
    inbound: Option<Vec<Ports>>,
    inbound_except: Vec<Ports>,
    ports: Vec<Ports>,
    ports_except: Vec<Ports>,
    /// `None`: everywhere.
    ranges: Option<Vec<&'static str>>,
    ranges_except: Vec<&'static str>,
    groups: Option<Vec<u32>>,
    groups_except: Vec<u32>,
    machine: Machine,
    dns: Dns,
    wide_loopback: bool,
    drop_invalid: bool,
    ipv6: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Redirect,
    Tproxy,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    Ordinary,
    /// By its link's name.
    Virtual,
    /// By the beginning of its link's name.
    VirtualByPrefix,
    Excluded,
    ExcludedByPrefix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dns {
    Off,
    Server,
    All,
}

#[derive(Clone, Debug)]
enum Flow {
    /// From a process in the pod.
    Out {
        owner: (u32, u32),
        from: Option<IpAddr>,
        to: SocketAddr,
    },
    Datagram {
        owner: (u32, u32),
        to: SocketAddr,
    },
    /// From the world to the pod.
    In {
        to: SocketAddr,
    },
    /// From the machine behind `vm0` to the world.
    Through {
        to: SocketAddr,
    },
}

const RANGES: [(&str, &str); 5] = [
    ("10.20.0.0/16", "10.20."),
    ("10.30.0.1/32", "10.30.0.1"),
    ("10.9.0.0/24", "10.9.0."),
    ("fd20::/16", "fd20:"),
    ("127.0.0.0/8", "127."),
];

fn inside(range: &str, address: IpAddr) -> bool {
    let (_, prefix) = RANGES.iter().find(|(name, _)| *name == range).unwrap();
    address.to_string().starts_with(prefix)
}

fn among(ports: &[Ports], port: u16) -> bool {
    ports.iter().any(|(first, last)| *first <= port && port <= *last)
}

fn spelled(ports: &[Ports]) -> String {
    let one = |(first, last): &Ports| match first == last {
        true => first.to_string(),
        false => format!("{first}:{last}"),
    };
    ports.iter().map(one).collect::<Vec<_>>().join(",")
}

impl Wanted {
    fn config(&self) -> Config {
        let groups = |items: &[u32]| items.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let star = || "*".to_owned();
        let settings = Settings {
            inbound_interception_mode: format!("{:?}", self.mode).to_uppercase(),
            inbound_ports_include: self.inbound.as_deref().map_or_else(star, spelled),
            inbound_ports_exclude: spelled(&self.inbound_except),
            outbound_ports_include: spelled(&self.ports),
            outbound_ports_exclude: spelled(&self.ports_except),
            outbound_ip_ranges_include: self.ranges.as_ref().map_or_else(star, |r| r.join(",")),
            outbound_ip_ranges_exclude: self.ranges_except.join(","),
            owner_groups_include: self.groups.as_deref().map_or_else(star, groups),
            owner_groups_exclude: groups(&self.groups_except),
            reroute_virtual_interfaces: match self.machine {
                Machine::Virtual => "vm0".to_owned(),
                Machine::VirtualByPrefix => "vm+".to_owned(),
                _ => String::new(),
            },
            exclude_interfaces: match self.machine {
                Machine::Excluded => "vm0".to_owned(),
                Machine::ExcludedByPrefix => "vm+".to_owned(),
                _ => String::new(),
            },
            redirect_dns: self.dns != Dns::Off,
            capture_all_dns: self.dns == Dns::All,
            drop_invalid: self.drop_invalid,
            loopback_cidr: if self.wide_loopback { "127.0.0.0/8" } else { "127.0.0.1/32" }
                .to_owned(),
            ..Settings::default()
        };
        let name_servers = vec!["10.20.0.1".parse().unwrap()];
        settings.config(&Host { ipv6: self.ipv6, name_servers }).unwrap()
    }

    /// Who answers.
    fn predict(&self, flow: &Flow) -> String {
        match flow {
            Flow::In { to } => self.arriving(to.port()).unwrap_or_else(|| to.port().to_string()),
            Flow::Through { to } => self.through(*to),
            Flow::Datagram { owner, to } => {
                let captured = *owner != (PROXY, PROXY)
                    && !among(&self.ports_except, to.port())
                    && self.is_lookup(*to)
                    && owner.1 != PROXY
                    && self.counts_group(owner.1);
                if captured { AGENT } else { WORLD }.to_owned()
            }
            Flow::Out { owner, from, to } => self.leaving(*owner, *from, *to),
        }
    }

    /// The proxy's inbound port, if arriving connections to this port are captured.
    fn arriving(&self, port: u16) -> Option<String> {
        let wanted = match &self.inbound {
            _ if self.mode == Mode::None => false,
            None => !among(&self.inbound_except, port),
            Some(ports) => among(ports, port),
        };
        // The tunnel belongs to the proxy; only rewriting of addresses would get in its way.
        let tunnel = port == 15008 && self.mode == Mode::Redirect;
        (wanted && !tunnel).then(|| INBOUND.to_owned())
    }

    fn through(&self, to: SocketAddr) -> String {
        match self.machine {
            Machine::Excluded | Machine::ExcludedByPrefix => WORLD.to_owned(),
            Machine::Virtual | Machine::VirtualByPrefix if self.counts_range(to.ip()) => {
                OUTBOUND.to_owned()
            }
            Machine::Virtual | Machine::VirtualByPrefix => WORLD.to_owned(),
            Machine::Ordinary => self.arriving(to.port()).unwrap_or_else(|| WORLD.to_owned()),
        }
    }

    fn leaving(&self, (uid, gid): (u32, u32), from: Option<IpAddr>, to: SocketAddr) -> String {
        let to_self = to.ip().is_loopback()
            || ["10.9.0.2", "fd09::2"].contains(&to.ip().to_string().as_str());
        let own_loopback = match to.ip() {
            IpAddr::V4(v4) => v4.is_loopback() && (self.wide_loopback || v4.octets()[3] == 1),
            IpAddr::V6(v6) => v6.is_loopback(),
        };
        let passthrough = from.is_some();
        let lookup_port = self.dns != Dns::Off && to.port() == 53;
        let of_proxy = uid == PROXY || gid == PROXY;
        let passed = || {
            let arrives_again =
                self.mode == Mode::Tproxy && to_self && of_proxy && !own_loopback && !passthrough;
            let again = arrives_again.then(|| self.arriving(to.port())).flatten();
            let port = to.port().to_string();
            again.unwrap_or_else(|| if to_self { port } else { WORLD.to_owned() })
        };
        let by_proxy_to_self = to_self && !own_loopback && to.port() != 15008;
        if among(&self.ports_except, to.port()) || passthrough {
            return passed();
        }
        if uid == PROXY {
            return if by_proxy_to_self && !lookup_port { INBOUND.to_owned() } else { passed() };
        }
        if to_self && !self.asks_for_loopback() && !lookup_port {
            return passed();
        }
        if gid == PROXY {
            return if by_proxy_to_self { INBOUND.to_owned() } else { passed() };
        }
        if !self.counts_group(gid) {
            return passed();
        }
        if self.is_lookup(to) {
            return AGENT.to_owned();
        }
        if own_loopback || self.ranges_except.iter().any(|range| inside(range, to.ip())) {
            return passed();
        }
        if among(&self.ports, to.port()) || self.counts_range(to.ip()) {
            return OUTBOUND.to_owned();
        }
        passed()
    }

    fn is_lookup(&self, to: SocketAddr) -> bool {
        let server = to.ip().to_string() == "10.20.0.1";
        to.port() == 53 && (self.dns == Dns::All || self.dns == Dns::Server && server)
    }

    fn counts_range(&self, address: IpAddr) -> bool {
        self.ranges.as_ref().is_none_or(|ranges| ranges.iter().any(|r| inside(r, address)))
    }

    fn counts_group(&self, gid: u32) -> bool {
        match &self.groups {
            Some(groups) => groups.contains(&gid),
            None => !self.groups_except.contains(&gid),
        }
    }

    fn asks_for_loopback(&self) -> bool {
        self.ranges.as_ref().is_some_and(|ranges| ranges.contains(&"127.0.0.0/8"))
    }
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let known = [53, 80, 443, 8080, 15020].map(|port| (port, port)).into_iter();
    let known: Vec<Ports> = known.chain([(79, 443), (8000, 9001), (15000, 15020)]).collect();
    let ports = move || prop::sample::subsequence(known.clone(), 0..=3);
    let mode = prop::sample::select(vec![Mode::Redirect, Mode::Tproxy, Mode::None]);
    let range_names: Vec<&'static str> = RANGES.iter().map(|(name, _)| *name).collect();
    let ranges = move |amount| prop::sample::subsequence(range_names.clone(), amount);
    let groups = || prop::sample::subsequence(vec![1000u32, 2000, 3000], 1..=2);
    let machine = prop::sample::select(vec![
        Machine::Ordinary,
        Machine::Virtual,
        Machine::VirtualByPrefix,
        Machine::Excluded,
        Machine::ExcludedByPrefix,
    ]);
    let dns = prop::sample::select(vec![Dns::Off, Dns::Server, Dns::All]);
    (
        (mode, prop::option::of(ports()), ports(), ports(), ports()),
        (prop::option::of(ranges(0..=3)), ranges(0..=1)),
        (prop::option::weighted(0.3, groups()), groups()),
        (machine, dns, any::<[bool; 3]>()),
    )
        .prop_map(|(inbound, ranges, groups, (machine, dns, switches))| Wanted {
            mode: inbound.0,
            inbound: inbound.1,
            inbound_except: inbound.2,
            ports: inbound.3,
            ports_except: inbound.4,
            ranges: ranges.0,
            ranges_except: ranges.1,
            groups: groups.0,
            groups_except: groups.1,
            machine,
            dns,
            wide_loopback: switches[0],
            drop_invalid: switches[1],
            ipv6: switches[2],
        })
}

/// Every kind of connection there is, for every kind of owner.
fn flows(wanted: &Wanted) -> Vec<Flow> {
    let mut flows = Vec::new();
    let at = |address: &str, port| SocketAddr::new(address.parse().unwrap(), port);
    let owners = [(1000, 1000), (1000, 2000), (PROXY, PROXY), (1000, PROXY)];
    let mut far = vec!["10.20.0.1", "10.30.0.1", "10.9.0.1"];
    let mut near = vec!["10.9.0.2", "127.0.0.1", "127.0.0.5"];
    let mut passthrough = vec![("127.0.0.6", "10.9.0.2")];
    if wanted.ipv6 {
        far.push("fd20::1");
        near.extend(["fd09::2", "::1"]);
        passthrough.push(("::6", "fd09::2"));
    }
    for owner in owners {
        for address in &far {
            for port in [53, 80, 443] {
                flows.push(Flow::Out { owner, from: None, to: at(address, port) });
            }
        }
        for address in &near {
            for port in [80, 15008] {
                flows.push(Flow::Out { owner, from: None, to: at(address, port) });
            }
        }
        for address in ["10.20.0.1", "10.30.0.1"] {
            flows.push(Flow::Datagram { owner, to: at(address, 53) });
        }
    }
    for (from, to) in passthrough {
        let from = Some(from.parse().unwrap());
        flows.push(Flow::Out { owner: (PROXY, PROXY), from, to: at(to, 8080) });
    }
    for port in APP_PORTS {
        flows.push(Flow::In { to: at("10.9.0.2", port) });
        if wanted.ipv6 {
            flows.push(Flow::In { to: at("fd09::2", port) });
        }
        // Handing over and rewriting at once is nobody's setting.
        if wanted.mode != Mode::Tproxy {
            flows.push(Flow::Through { to: at("10.20.0.1", port) });
        }
    }
    flows
}

fn observe(pod: &Pod, flow: &Flow) -> String {
    match flow {
        Flow::Out { owner, from, to } => connect(&pod.pod, *owner, *from, *to),
        Flow::Datagram { owner, to } => ask(&pod.pod, *owner, *to),
        Flow::In { to } => connect(&pod.world, (0, 0), None, *to),
        Flow::Through { to } => connect(&pod.machine, (0, 0), None, *to),
    }
}

fn agree(pod: &Pod, wanted: &Wanted, backend: Backend) -> Result<(), TestCaseError> {
    let config = wanted.config();
    let options = Options { backend, reconcile: true, force: false };
    let applied = pod.pod.run(|| apply::apply(&config, &options, &programs())).unwrap();
    prop_assert!(applied.is_ok(), "{:?}", applied);
    let mut wrong = Vec::new();
    for flow in flows(wanted) {
        let (expected, seen) = (wanted.predict(&flow), observe(pod, &flow));
        if expected != seen {
            wrong.push(format!("{flow:?} ends at {seen}, not at {expected}"));
        }
    }
    let cleaned = pod.pod.run(|| apply::clean(&config, backend, &programs())).unwrap();
    prop_assert!(cleaned.is_ok(), "{:?}", cleaned);
    prop_assert!(wrong.is_empty(), "{backend:?}:\n{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn packets_go_where_the_settings_say() {
    let pod = Pod::create();
    pod.listen();
    let asked = Env::of_process().var("PROPTEST_CASES").and_then(|number| number.parse().ok());
    let cases = asked.unwrap_or(CASES);
    let amount =
        Amount { cases, max_shrink_iters: 60, failure_persistence: None, ..Amount::default() };
    let result = TestRunner::new(amount).run(&wanted(), |wanted| {
        agree(&pod, &wanted, Backend::Iptables(Some(Kind::Nft)))?;
        agree(&pod, &wanted, Backend::Iptables(Some(Kind::Legacy)))?;
        agree(&pod, &wanted, Backend::Nftables)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn without_rules_everything_passes() {
    let pod = Pod::create();
    pod.listen();
    let to = |address: &str, port| SocketAddr::new(address.parse().unwrap(), port);
    assert_eq!(connect(&pod.pod, (1000, 1000), None, to("10.20.0.1", 443)), WORLD);
    assert_eq!(connect(&pod.pod, (1000, 1000), None, to("fd20::1", 443)), WORLD);
    assert_eq!(connect(&pod.world, (0, 0), None, to("10.9.0.2", 8080)), "8080");
    assert_eq!(connect(&pod.machine, (0, 0), None, to("10.30.0.1", 80)), WORLD);
    assert_eq!(ask(&pod.pod, (1000, 1000), to("10.20.0.1", 53)), WORLD);
    let uid = pod.pod.run(|| as_owner(7, 8, || nix::unistd::setfsuid(7.into()))).unwrap();
    assert_eq!(uid.as_raw(), 7, "the owner of a socket can be chosen");
}
