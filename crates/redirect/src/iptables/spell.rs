//! One rule in the words of iptables, without its chain.

use std::fmt::Write;

use crate::config::PortRange;
use crate::rule::{Action, Match, Owner, Protocol, Rule};

use super::chain_name;

pub(crate) fn spell(rule: &Rule) -> String {
    let mut text = String::new();
    for one in &rule.matches {
        text.push_str(&condition(one));
        text.push(' ');
    }
    let _ = write!(text, "-j {}", action(rule.action));
    text
}

fn condition(one: &Match) -> String {
    match one {
        Match::In(link) => format!("-i {link}"),
        Match::Out(link) => format!("-o {link}"),
        Match::Source(net) => format!("-s {net}"),
        Match::Destination(net) => format!("-d {net}"),
        Match::NotDestination(net) => format!("! -d {net}"),
        Match::Protocol(Protocol::Tcp) => "-p tcp".to_owned(),
        Match::Protocol(Protocol::Udp) => "-p udp".to_owned(),
        Match::SourcePort(port) => format!("--sport {port}"),
        Match::DestinationPort(PortRange { first, last }) if first == last => {
            format!("--dport {first}")
        }
        Match::DestinationPort(PortRange { first, last }) => format!("--dport {first}:{last}"),
        Match::NotDestinationPorts(ports) => not_ports(ports),
        Match::Owner(who) => format!("-m owner {}", owner(who)),
        Match::NotOwner(who) => format!("-m owner ! {}", owner(who)),
        Match::Mark(mark) => format!("-m mark --mark {mark}"),
        Match::NotMark(mark) => format!("-m mark ! --mark {mark}"),
        Match::ConnectionMark(mark) => format!("-m connmark --mark {mark}"),
        Match::Established => "-m conntrack --ctstate RELATED,ESTABLISHED".to_owned(),
        Match::Invalid => "-m conntrack --ctstate INVALID".to_owned(),
    }
}

fn not_ports(ports: &[u16]) -> String {
    let list: Vec<String> = ports.iter().map(u16::to_string).collect();
    match list.as_slice() {
        [port] => format!("! --dport {port}"),
        list => format!("-m multiport ! --dports {}", list.join(",")),
    }
}

fn owner(who: &Owner) -> String {
    match who {
        Owner::User(user) => format!("--uid-owner {user}"),
        Owner::Group(group) => format!("--gid-owner {group}"),
    }
}

fn action(action: Action) -> String {
    match action {
        Action::Return => "RETURN".to_owned(),
        Action::Accept => "ACCEPT".to_owned(),
        Action::Drop => "DROP".to_owned(),
        Action::Jump(chain) => chain_name(chain).to_owned(),
        Action::Redirect(port) => format!("REDIRECT --to-ports {port}"),
        Action::Tproxy { port, mark } => {
            format!("TPROXY --tproxy-mark {mark}/0xffffffff --on-port {port}")
        }
        Action::SetMark(mark) => format!("MARK --set-mark {mark}"),
        Action::SaveMark => "CONNMARK --save-mark".to_owned(),
        Action::RestoreMark => "CONNMARK --restore-mark".to_owned(),
        Action::Zone(zone) => format!("CT --zone {zone}"),
    }
}
