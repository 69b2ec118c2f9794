//! Arriving connections: which of them go to the proxy, and how.
//!
//! In: the configuration; out: rules of PREROUTING and, for transparent capture, the marks that keep
//! a captured connection's packets on this machine.

use super::{Builder, PASSTHROUGH_V4, PASSTHROUGH_V6, TCP, on_loopback};
use crate::config::{InboundPorts, Interface, Mode, PortRange};
use crate::rule::{Action, Chain, Family, Match, Owner, Table};

/// The mark of a connection that the proxy makes to its own pod's address: it comes in again by the
/// loopback link and is to be captured, unlike what the application sends to itself.
const PROXY_TO_SELF: u32 = 1338;

const MANGLE_INBOUND: (Table, Chain) = (Table::Mangle, Chain::Inbound);

pub(super) fn capture(rules: &mut Builder<'_>) {
    if !rules.config.captures_inbound() {
        return;
    }
    let table = match rules.config.mode {
        Mode::Tproxy => {
            tproxy_targets(rules);
            Table::Mangle
        }
        Mode::Redirect | Mode::None => Table::Nat,
    };
    rules.append((table, Chain::Prerouting), vec![TCP], Action::Jump(Chain::Inbound));
    match &rules.config.inbound_ports {
        InboundPorts::AllExcept(except) => {
            for port in except {
                let matches = vec![TCP, Match::DestinationPort(*port)];
                rules.append((table, Chain::Inbound), matches, Action::Return);
            }
            take(rules, table, None);
        }
        InboundPorts::Only(ports) => ports.iter().for_each(|port| take(rules, table, Some(*port))),
    }
}

fn take(rules: &mut Builder<'_>, table: Table, port: Option<PortRange>) {
    let matches = || [TCP].into_iter().chain(port.map(Match::DestinationPort));
    if table == Table::Mangle {
        let known = matches().chain([Match::Established]).collect();
        rules.append(MANGLE_INBOUND, known, Action::Jump(Chain::Divert));
        rules.append(MANGLE_INBOUND, matches().collect(), Action::Jump(Chain::Tproxy));
    } else {
        let to_proxy = Action::Jump(Chain::InRedirect);
        rules.append((table, Chain::Inbound), matches().collect(), to_proxy);
    }
}

fn tproxy_targets(rules: &mut Builder<'_>) {
    let mark = rules.config.tproxy_mark;
    // The policy route for this mark delivers the packet here, whatever its destination.
    rules.append((Table::Mangle, Chain::Divert), Vec::new(), Action::SetMark(mark));
    rules.append((Table::Mangle, Chain::Divert), Vec::new(), Action::Accept);
    let matches = |own| vec![Match::NotDestination(own), TCP];
    let take = Action::Tproxy { port: rules.config.inbound_capture_port, mark };
    rules.append_per_family((Table::Mangle, Chain::Tproxy), rules.loopback(), matches, take);
}

/// Marks by which packets of captured connections find their way, in both directions.
pub(super) fn tproxy_marks(rules: &mut Builder<'_>) {
    let mark = rules.config.tproxy_mark;
    let (prerouting, output) = ((Table::Mangle, Chain::Prerouting), (Table::Mangle, Chain::Output));
    rules.append(prerouting, vec![TCP, Match::Mark(mark)], Action::SaveMark);
    // Proxy to application, marked already.
    rules.append(output, vec![TCP, on_loopback(), Match::Mark(mark)], Action::Return);
    let users = rules.config.proxy_users.iter().cloned().map(Owner::User);
    let groups = rules.config.proxy_groups.iter().cloned().map(Owner::Group);
    for owner in users.chain(groups) {
        let matches =
            |own| vec![Match::NotDestination(own), TCP, on_loopback(), Match::Owner(owner.clone())];
        rules.append_per_family(output, rules.loopback(), matches, Action::SetMark(PROXY_TO_SELF));
    }
    rules.append(output, vec![TCP, Match::ConnectionMark(mark)], Action::RestoreMark);
    // What must not be captured (again): before all that `capture` put into the chain.
    let from_self = Match::In(Interface::loopback());
    let mut position = 0;
    let mut insert = |family, matches| {
        rules.set.insert(MANGLE_INBOUND, position, family, matches, Action::Return);
        position += 1;
    };
    insert(None, vec![TCP, Match::Mark(mark)]);
    let passthrough = |source| vec![TCP, Match::Source(source), from_self.clone()];
    insert(Some(Family::V4), passthrough(PASSTHROUGH_V4.into()));
    if rules.config.ipv6 {
        insert(Some(Family::V6), passthrough(PASSTHROUGH_V6.into()));
    }
    insert(None, vec![TCP, from_self.clone(), Match::NotMark(PROXY_TO_SELF)]);
}
