//! The rules that a configuration asks for.
//!
//! In: a [`Config`]; out: a [`RuleSet`]. The order of the steps is the order of the rules inside each
//! chain, and it matters: the first rule that fits a packet decides.

mod dns;
mod inbound;
mod outbound;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::config::{Config, Interface, Mode, PortRange};
use crate::rule::{Action, Chain, Family, Match, Protocol, RuleSet, Table};

/// The source address by which the proxy reaches the application, so that these connections are
/// told apart from those that are to be captured.
const PASSTHROUGH_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 6), 32);
const PASSTHROUGH_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6), 128);
const LOOPBACK_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128);

const TCP: Match = Match::Protocol(Protocol::Tcp);
const UDP: Match = Match::Protocol(Protocol::Udp);

pub fn build(config: &Config) -> RuleSet {
    let mut rules = Builder { config, set: RuleSet::default() };
    rules.exclude_interfaces();
    rules.shield_virtual_interfaces();
    rules.drop_invalid();
    rules.targets();
    inbound::capture(&mut rules);
    outbound::capture(&mut rules);
    if config.mode == Mode::Tproxy {
        inbound::tproxy_marks(&mut rules);
    }
    rules.set
}

/// The set under construction and what it is made from.
struct Builder<'a> {
    config: &'a Config,
    set: RuleSet,
}

impl Builder<'_> {
    fn append(&mut self, at: (Table, Chain), matches: Vec<Match>, action: Action) {
        self.set.append(at, None, matches, action);
    }

    /// The same rule for each family, with that family's address in it. Without IPv6 there is one.
    fn append_per_family(
        &mut self,
        at: (Table, Chain),
        (v4, v6): (Ipv4Net, Ipv6Net),
        matches: impl Fn(IpNet) -> Vec<Match>,
        action: Action,
    ) {
        self.set.append(at, Some(Family::V4), matches(v4.into()), action);
        if self.config.ipv6 {
            self.set.append(at, Some(Family::V6), matches(v6.into()), action);
        }
    }

    /// A rule about one range, which belongs to that range's family.
    fn append_for(&mut self, at: (Table, Chain), range: IpNet, matches: Vec<Match>, act: Action) {
        if let Some(family) = self.family_of(range) {
            self.set.append(at, Some(family), matches, act);
        }
    }

    /// `None`: an IPv6 range where there is no IPv6.
    fn family_of(&self, range: IpNet) -> Option<Family> {
        match range {
            IpNet::V4(_) => Some(Family::V4),
            IpNet::V6(_) => self.config.ipv6.then_some(Family::V6),
        }
    }

    /// This pod's own addresses: never captured.
    fn loopback(&self) -> (Ipv4Net, Ipv6Net) {
        (self.config.loopback, LOOPBACK_V6)
    }

    fn exclude_interfaces(&mut self) {
        let tables: &[Table] = match self.config.mode {
            Mode::Tproxy => &[Table::Nat, Table::Mangle],
            Mode::Redirect | Mode::None => &[Table::Nat],
        };
        for table in tables {
            for name in &self.config.exclude_interfaces {
                let (arriving, leaving) = (Match::In(name.clone()), Match::Out(name.clone()));
                self.append((*table, Chain::Prerouting), vec![arriving], Action::Return);
                self.append((*table, Chain::Output), vec![leaving], Action::Return);
            }
        }
    }

    /// What comes from a virtual machine is not inbound; `outbound` adds what is captured of it.
    fn shield_virtual_interfaces(&mut self) {
        for name in &self.config.virtual_interfaces {
            let matches = vec![Match::In(name.clone())];
            let at = (Table::Nat, Chain::Prerouting);
            self.set.insert(at, 0, None, matches, Action::Return);
        }
    }

    /// Without this, a packet outside the window makes the kernel reset a healthy connection.
    fn drop_invalid(&mut self) {
        if self.config.drop_invalid {
            let to_drop = Action::Jump(Chain::Drop);
            self.append((Table::Mangle, Chain::Prerouting), vec![Match::Invalid], to_drop);
            self.append((Table::Mangle, Chain::Drop), Vec::new(), Action::Drop);
        }
    }

    /// The chains that other rules jump to.
    fn targets(&mut self) {
        let tunnel = PortRange::one(self.config.inbound_tunnel_port);
        let matches = vec![TCP, Match::DestinationPort(tunnel)];
        self.append((Table::Nat, Chain::Inbound), matches, Action::Return);
        let outbound = Action::Redirect(self.config.proxy_port);
        self.append((Table::Nat, Chain::Redirect), vec![TCP], outbound);
        let inbound = Action::Redirect(self.config.inbound_capture_port);
        self.append((Table::Nat, Chain::InRedirect), vec![TCP], inbound);
    }
}

fn on_loopback() -> Match {
    Match::Out(Interface::loopback())
}
