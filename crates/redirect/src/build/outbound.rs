//! Leaving connections: which of them go to the proxy.
//!
//! In: the configuration; out: rules of OUTPUT, and of PREROUTING for virtual machines. The proxy's own
//! connections pass, or they would come back to it for ever.

use ipnet::IpNet;

use super::{Builder, PASSTHROUGH_V4, PASSTHROUGH_V6, TCP, UDP, dns, on_loopback};
use crate::config::{Destinations, Dns, Groups, PortRange};
use crate::rule::{Action, Chain, Match, Owner, Table};

const OUTPUT: (Table, Chain) = (Table::Nat, Chain::IstioOutput);
const TO_PROXY: Action = Action::Jump(Chain::Redirect);

pub(super) const DNS_PORT: u16 = 53;

pub(super) fn capture(rules: &mut Builder<'_>) {
    rules.append((Table::Nat, Chain::Output), Vec::new(), Action::Jump(Chain::IstioOutput));
    for port in &rules.config.outbound_ports_exclude {
        for protocol in [TCP, UDP] {
            let matches = vec![protocol, Match::DestinationPort(*port)];
            rules.append(OUTPUT, matches, Action::Return);
        }
    }
    let from_proxy = |source| vec![on_loopback(), Match::Source(source)];
    let passthrough = (PASSTHROUGH_V4, PASSTHROUGH_V6);
    rules.append_per_family(OUTPUT, passthrough, from_proxy, Action::Return);
    rules.config.proxy_users.iter().for_each(|user| of_owner(rules, &Owner::User(user.clone())));
    rules.config.proxy_groups.iter().for_each(|g| of_owner(rules, &Owner::Group(g.clone())));
    owner_groups(rules);
    dns::capture(rules);
    let own = rules.loopback();
    rules.append_per_family(OUTPUT, own, |own| vec![Match::Destination(own)], Action::Return);
    for range in v4_first(&rules.config.outbound_ranges_exclude) {
        rules.append_for(OUTPUT, range, vec![Match::Destination(range)], Action::Return);
    }
    for port in &rules.config.outbound_ports_include {
        rules.append(OUTPUT, vec![TCP, Match::DestinationPort(*port)], TO_PROXY);
    }
    destinations(rules);
}

/// The proxy itself, by its user or group.
fn of_owner(rules: &mut Builder<'_>, owner: &Owner) {
    let dns = rules.config.dns != Dns::Off;
    let tunnel = rules.config.inbound_tunnel_port;
    // Lookups of the agent go straight to the server. Only users are asked: that is how the agent
    // and the proxy are told apart from the application.
    let not_captured = match owner {
        Owner::User(_) if dns => vec![DNS_PORT, tunnel],
        Owner::User(_) | Owner::Group(_) => vec![tunnel],
    };
    // The proxy calls its own pod: the application called itself by a service's name, and the
    // proxy's inbound side is to see that too.
    let to_self = |own| {
        vec![
            on_loopback(),
            Match::NotDestination(own),
            TCP,
            Match::NotDestinationPorts(not_captured.clone()),
            Match::Owner(owner.clone()),
        ]
    };
    let back = Action::Jump(Chain::InRedirect);
    rules.append_per_family(OUTPUT, rules.loopback(), to_self, back);
    if !rules.config.captures_loopback() {
        // The application calls itself by its pod's address: nobody's business. A name server may
        // listen on this machine too, so lookups are looked at further down.
        let mut matches = vec![on_loopback()];
        if dns {
            matches.extend([TCP, Match::NotDestinationPorts(vec![DNS_PORT])]);
        }
        matches.push(Match::NotOwner(owner.clone()));
        rules.append(OUTPUT, matches, Action::Return);
    }
    rules.append(OUTPUT, vec![Match::Owner(owner.clone())], Action::Return);
}

fn owner_groups(rules: &mut Builder<'_>) {
    match &rules.config.owner_groups {
        Groups::AllExcept(groups) => {
            for group in groups {
                let matches = vec![Match::Owner(Owner::Group(group.clone()))];
                rules.append(OUTPUT, matches, Action::Return);
            }
        }
        Groups::Only(groups) => {
            let matches = groups.iter().map(|g| Match::NotOwner(Owner::Group(g.clone()))).collect();
            rules.append(OUTPUT, matches, Action::Return);
        }
    }
}

fn destinations(rules: &mut Builder<'_>) {
    let hook = (Table::Nat, Chain::Prerouting);
    let machines = &rules.config.virtual_interfaces;
    match &rules.config.outbound_ranges {
        Destinations::All => {
            rules.append(OUTPUT, Vec::new(), TO_PROXY);
            for link in machines {
                rules.set.insert(hook, 0, None, vec![Match::In(link.clone())], TO_PROXY);
            }
        }
        Destinations::Only(ranges) => {
            for range in v4_first(ranges) {
                let Some(family) = rules.family_of(range) else { continue };
                for link in machines {
                    let matches = vec![Match::In(link.clone()), Match::Destination(range)];
                    rules.set.insert(hook, 0, Some(family), matches, TO_PROXY);
                }
                rules.append_for(OUTPUT, range, vec![Match::Destination(range)], TO_PROXY);
            }
        }
    }
}

fn v4_first(ranges: &[IpNet]) -> Vec<IpNet> {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| matches!(range, IpNet::V6(_)));
    sorted
}

/// The port of name lookups, as a range.
pub(super) fn dns_port() -> Match {
    Match::DestinationPort(PortRange::one(DNS_PORT))
}
