//! The words that rules are made of, common to iptables and nftables.
//!
//! A [`RuleSet`] is a plain list: the rules of one chain stand in it in the order in which a packet
//! meets them. How a rule is spelt is the business of `iptables` and `nftables`.

use ipnet::IpNet;

use crate::config::{Interface, PortRange};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    V4,
    V6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    Nat,
    Mangle,
    Raw,
}

impl Table {
    pub const ALL: [Table; 3] = [Table::Nat, Table::Mangle, Table::Raw];
}

/// The two hooks that are used, and the chains of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chain {
    Prerouting,
    Output,
    /// Decides which arriving connections go to the proxy.
    Inbound,
    /// To the proxy's outbound port.
    Redirect,
    /// To the proxy's inbound port.
    InRedirect,
    /// Decides which leaving connections go to the proxy.
    IstioOutput,
    /// Name lookups, to the agent.
    OutputDns,
    /// Marks packets of connections that the proxy already holds.
    Divert,
    /// To the proxy's inbound port without changing an address.
    Tproxy,
    Drop,
}

impl Chain {
    /// In the order in which nftables gets them.
    pub const ALL: [Chain; 10] = [
        Chain::Prerouting,
        Chain::Output,
        Chain::Divert,
        Chain::Tproxy,
        Chain::Inbound,
        Chain::Redirect,
        Chain::InRedirect,
        Chain::IstioOutput,
        Chain::OutputDns,
        Chain::Drop,
    ];

    /// A hook of the kernel, which others may have rules in too.
    pub fn is_hook(self) -> bool {
        matches!(self, Chain::Prerouting | Chain::Output)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// Whose socket a packet comes from. Numbers or names, as the settings gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    User(String),
    Group(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    In(Interface),
    Out(Interface),
    Source(IpNet),
    Destination(IpNet),
    NotDestination(IpNet),
    Protocol(Protocol),
    SourcePort(u16),
    DestinationPort(PortRange),
    NotDestinationPorts(Vec<u16>),
    Owner(Owner),
    NotOwner(Owner),
    Mark(u32),
    NotMark(u32),
    ConnectionMark(u32),
    /// The connection is known, or belongs to one that is.
    Established,
    /// The packet fits no connection.
    Invalid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Return,
    Accept,
    Drop,
    Jump(Chain),
    /// Rewrites the destination to this machine's given port.
    Redirect(u16),
    /// Hands the packet to the local port as it is, and marks it.
    Tproxy {
        port: u16,
        mark: u32,
    },
    SetMark(u32),
    /// Packet mark to connection mark.
    SaveMark,
    /// Connection mark to packet mark.
    RestoreMark,
    /// The connection-tracking zone, so that two flows with equal addresses stay apart.
    Zone(u16),
}

/// Where a rule goes in a hook that others use too: before their rules or behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Head,
    Tail,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub table: Table,
    pub chain: Chain,
    /// `None`: holds for both families.
    pub family: Option<Family>,
    pub place: Place,
    pub matches: Vec<Match>,
    pub action: Action,
}

/// All rules of one configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    rules: Vec<Rule>,
}

impl RuleSet {
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules that one family's tables hold.
    pub fn of(&self, table: Table, family: Family) -> impl Iterator<Item = &Rule> {
        self.rules
            .iter()
            .filter(move |r| r.table == table && r.family.is_none_or(|of| of == family))
    }

    /// The rules of one chain, for both families.
    pub fn chain(&self, table: Table, chain: Chain) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |r| r.table == table && r.chain == chain)
    }

    /// Behind all others of its chain.
    pub(crate) fn append(
        &mut self,
        (table, chain): (Table, Chain),
        family: Option<Family>,
        matches: Vec<Match>,
        action: Action,
    ) {
        self.rules.push(Rule { table, chain, family, place: Place::Tail, matches, action });
    }

    /// Before the rule that is number `position` of its chain, or at the end of a shorter one.
    /// Position 0 of a hook is also before the rules that others put there.
    pub(crate) fn insert(
        &mut self,
        (table, chain): (Table, Chain),
        position: usize,
        family: Option<Family>,
        matches: Vec<Match>,
        action: Action,
    ) {
        let place = if chain.is_hook() { Place::Head } else { Place::Tail };
        let rule = Rule { table, chain, family, place, matches, action };
        let mut of_chain = self
            .rules
            .iter()
            .enumerate()
            .filter(|(_, r)| r.table == table && r.chain == chain)
            .map(|(index, _)| index);
        match of_chain.nth(position) {
            Some(index) => self.rules.insert(index, rule),
            None => self.rules.push(rule),
        }
    }
}
