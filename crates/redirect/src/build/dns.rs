//! Name lookups: to the agent, and kept apart from the agent's own.
//!
//! In: the configuration; out: rules of `nat` that redirect, and of `raw` that set zones. An
//! application's lookup and the agent's forwarded copy can have the same addresses and ports; without
//! two zones the kernel would now and then take one for the other and lose the answer.

use ipnet::IpNet;

use super::outbound::{DNS_PORT, dns_port};
use super::{Builder, TCP, UDP};
use crate::config::Dns;
use crate::rule::{Action, Chain, Family, Match, Owner, Table};

/// Where the agent answers.
const AGENT_PORT: u16 = 15053;
/// Between the agent and the name servers.
const UPSTREAM: Action = Action::Zone(1);
/// Between the application and the agent.
const DOWNSTREAM: Action = Action::Zone(2);

const RAW_OUTPUT: (Table, Chain) = (Table::Raw, Chain::OutputDns);
const RAW_INBOUND: (Table, Chain) = (Table::Raw, Chain::Inbound);

pub(super) fn capture(rules: &mut Builder<'_>) {
    let servers: Vec<IpNet> = match &rules.config.dns {
        Dns::Off => return,
        Dns::All => Vec::new(),
        // Only lookups to these: a name server of the pod's own asks others and must reach them.
        Dns::Servers(servers) => servers.iter().copied().map(IpNet::from).collect(),
    };
    let everything = rules.config.dns == Dns::All;
    let families = if everything { None } else { common_family(&servers) };
    let to_dns = Action::Jump(Chain::OutputDns);
    rules.append((Table::Raw, Chain::Output), Vec::new(), to_dns);
    rules.set.append((Table::Nat, Chain::IstioOutput), families, Vec::new(), to_dns);
    redirect(rules, everything, &servers);
    zones_of_agent(rules);
    let to_inbound = Action::Jump(Chain::Inbound);
    rules.set.append((Table::Raw, Chain::Prerouting), families, Vec::new(), to_inbound);
    if everything {
        rules.append(RAW_OUTPUT, vec![UDP, dns_port()], DOWNSTREAM);
        rules.append(RAW_INBOUND, vec![UDP, Match::SourcePort(DNS_PORT)], UPSTREAM);
    }
    for server in servers {
        let asked = vec![UDP, dns_port(), Match::Destination(server)];
        rules.append_for(RAW_OUTPUT, server, asked, DOWNSTREAM);
        let answered = vec![UDP, Match::SourcePort(DNS_PORT), Match::Source(server)];
        rules.append_for(RAW_INBOUND, server, answered, UPSTREAM);
    }
}

fn redirect(rules: &mut Builder<'_>, everything: bool, servers: &[IpNet]) {
    let at = (Table::Nat, Chain::OutputDns);
    let to_agent = Action::Redirect(AGENT_PORT);
    for protocol in [TCP, UDP] {
        if everything {
            rules.append(at, vec![protocol.clone(), dns_port()], to_agent);
        }
        for server in servers {
            let matches = vec![protocol.clone(), dns_port(), Match::Destination(*server)];
            rules.append_for(at, *server, matches, to_agent);
        }
    }
}

/// The first zone that a packet gets stays, so these come before the rules for everybody.
fn zones_of_agent(rules: &mut Builder<'_>) {
    let users = rules.config.proxy_users.iter().cloned().map(Owner::User);
    let groups = rules.config.proxy_groups.iter().cloned().map(Owner::Group);
    for owner in users.chain(groups) {
        let asks = vec![UDP, dns_port(), Match::Owner(owner.clone())];
        rules.append(RAW_OUTPUT, asks, UPSTREAM);
        let answers = vec![UDP, Match::SourcePort(AGENT_PORT), Match::Owner(owner)];
        rules.append(RAW_OUTPUT, answers, DOWNSTREAM);
    }
}

/// The family of all, or `None` if there are both.
fn common_family(servers: &[IpNet]) -> Option<Family> {
    let v4 = servers.iter().filter(|s| matches!(s, IpNet::V4(_))).count();
    match v4 {
        0 => Some(Family::V6),
        n if n == servers.len() => Some(Family::V4),
        _ => None,
    }
}
