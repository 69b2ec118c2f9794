//! Rules as nftables writes them: three tables of our own that hold both families.
//!
//! In: a [`RuleSet`]; out: one text for `nft -f -`, which the kernel takes as a whole or not at all.
//! It first removes what an earlier run left, so that running it twice is the same as once.

use std::fmt::Write;

use ipnet::IpNet;

use crate::config::{Interface, PortRange};
use crate::rule::{Action, Chain, Family, Match, Owner, Protocol, Rule, RuleSet, Table};

pub fn table_name(table: Table) -> &'static str {
    match table {
        Table::Nat => "istio-proxy-nat",
        Table::Mangle => "istio-proxy-mangle",
        Table::Raw => "istio-proxy-raw",
    }
}

pub fn chain_name(chain: Chain) -> &'static str {
    match chain {
        Chain::Prerouting => "prerouting",
        Chain::Output => "output",
        Chain::Inbound => "istio-inbound",
        Chain::Redirect => "istio-redirect",
        Chain::InRedirect => "istio-in-redirect",
        Chain::IstioOutput => "istio-output",
        Chain::OutputDns => "istio-output-dns",
        Chain::Divert => "istio-divert",
        Chain::Tproxy => "istio-tproxy",
        Chain::Drop => "istio-drop",
    }
}

/// The text that makes the set the only one there is.
pub fn script(set: &RuleSet) -> String {
    let mut text = remove();
    for table in Table::ALL {
        let chains: Vec<Chain> =
            Chain::ALL.into_iter().filter(|c| set.chain(table, *c).next().is_some()).collect();
        if chains.is_empty() {
            continue;
        }
        let name = table_name(table);
        let _ = writeln!(text, "add table inet {name}");
        for chain in &chains {
            let _ = writeln!(
                text,
                "add chain inet {name} {}{}",
                chain_name(*chain),
                hook(table, *chain)
            );
        }
        for chain in chains {
            for rule in set.chain(table, chain) {
                let _ =
                    writeln!(text, "add rule inet {name} {} {}", chain_name(chain), spell(rule));
            }
        }
    }
    text
}

/// The text that removes our tables. Adding first makes it right where there are none.
pub fn remove() -> String {
    let mut text = String::new();
    for table in Table::ALL {
        let name = table_name(table);
        let _ = writeln!(text, "add table inet {name}\ndelete table inet {name}");
    }
    text
}

fn hook(table: Table, chain: Chain) -> String {
    if !chain.is_hook() {
        return String::new();
    }
    // A mark set on a leaving packet must change its route, and only this type looks again.
    let (kind, priority) = match (table, chain) {
        (Table::Nat, _) => ("nat", -100),
        (Table::Mangle, Chain::Output) => ("route", -150),
        (Table::Mangle, _) => ("filter", -150),
        (Table::Raw, _) => ("filter", -300),
    };
    format!(" {{ type {kind} hook {} priority {priority} ; }}", chain_name(chain))
}

fn spell(rule: &Rule) -> String {
    let mut words: Vec<String> = Vec::new();
    let of_family = |one: &Match| {
        matches!(one, Match::Source(_) | Match::Destination(_) | Match::NotDestination(_))
    };
    match rule.family {
        Some(Family::V4) if !rule.matches.iter().any(of_family) => {
            words.push("meta nfproto ipv4".to_owned());
        }
        Some(Family::V6) if !rule.matches.iter().any(of_family) => {
            words.push("meta nfproto ipv6".to_owned());
        }
        _ => {}
    }
    let protocol = rule.matches.iter().find_map(|one| match one {
        Match::Protocol(Protocol::Tcp) => Some("tcp"),
        Match::Protocol(Protocol::Udp) => Some("udp"),
        _ => None,
    });
    words.extend(rule.matches.iter().map(|one| condition(one, protocol.unwrap_or("tcp"))));
    let family = rule.family.unwrap_or(Family::V4);
    words.push(action(rule.action, family));
    words.join(" ")
}

fn condition(one: &Match, protocol: &str) -> String {
    match one {
        Match::In(link) => format!("iifname {}", quote(link)),
        Match::Out(link) => format!("oifname {}", quote(link)),
        Match::Source(net) => format!("{} saddr {net}", address(*net)),
        Match::Destination(net) => format!("{} daddr {net}", address(*net)),
        Match::NotDestination(net) => format!("{} daddr != {net}", address(*net)),
        Match::Protocol(_) => format!("meta l4proto {protocol}"),
        Match::SourcePort(port) => format!("{protocol} sport {port}"),
        Match::DestinationPort(PortRange { first, last }) if first == last => {
            format!("{protocol} dport {first}")
        }
        Match::DestinationPort(PortRange { first, last }) => {
            format!("{protocol} dport {first}-{last}")
        }
        Match::NotDestinationPorts(ports) => not_ports(protocol, ports),
        Match::Owner(Owner::User(user)) => format!("meta skuid {user}"),
        Match::Owner(Owner::Group(group)) => format!("meta skgid {group}"),
        Match::NotOwner(Owner::User(user)) => format!("meta skuid != {user}"),
        Match::NotOwner(Owner::Group(group)) => format!("meta skgid != {group}"),
        Match::Mark(mark) => format!("meta mark {mark}"),
        Match::NotMark(mark) => format!("meta mark != {mark}"),
        Match::ConnectionMark(mark) => format!("ct mark {mark}"),
        Match::Established => "ct state related,established".to_owned(),
        Match::Invalid => "ct state invalid".to_owned(),
    }
}

fn not_ports(protocol: &str, ports: &[u16]) -> String {
    let list: Vec<String> = ports.iter().map(u16::to_string).collect();
    match list.as_slice() {
        [port] => format!("{protocol} dport != {port}"),
        list => format!("{protocol} dport != {{ {} }}", list.join(", ")),
    }
}

/// nftables writes the rest of a name as `*` where iptables writes `+`.
fn quote(link: &Interface) -> String {
    match link.as_str().strip_suffix('+') {
        Some(start) => format!("\"{start}*\""),
        None => format!("\"{link}\""),
    }
}

fn address(net: IpNet) -> &'static str {
    match net {
        IpNet::V4(_) => "ip",
        IpNet::V6(_) => "ip6",
    }
}

fn action(action: Action, family: Family) -> String {
    match action {
        Action::Return => "counter return".to_owned(),
        Action::Accept => "counter accept".to_owned(),
        Action::Drop => "counter drop".to_owned(),
        Action::Jump(chain) => format!("counter jump {}", chain_name(chain)),
        Action::Redirect(port) => format!("counter redirect to :{port}"),
        Action::Tproxy { port, mark } => {
            let ip = if family == Family::V4 { "ip" } else { "ip6" };
            format!("tproxy {ip} to :{port} meta mark set {mark} counter accept")
        }
        Action::SetMark(mark) => format!("counter meta mark set {mark}"),
        Action::SaveMark => "counter ct mark set meta mark".to_owned(),
        Action::RestoreMark => "counter meta mark set ct mark".to_owned(),
        Action::Zone(zone) => format!("counter ct zone set {zone}"),
    }
}
