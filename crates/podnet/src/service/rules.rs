//! From Service ports to packet rules.
//!
//! In: a node's facts and its Service table; out: nft text. Pure. The way of a packet: one look
//! into a map by address, protocol and port finds the port's chain, which picks an endpoint by one
//! random number; so the cost of a packet does not grow with the number of Services.
//!
//! As kube-proxy does: no endpoints is a refusal, not silence; a pod that meets itself behind a
//! Service is masqueraded; traffic that came in through a node port or an external address is
//! masqueraded unless the policy is Local.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::program::Program;
use super::{Endpoint, NodeFacts, ServicePort, ServiceTable};
use crate::nft::family;

/// The bit of the packet mark that asks for masquerading; the one that kube-proxy uses.
const MASQUERADE: &str = "0x4000";

/// All rules of a node as one text, as `nft -f` takes it.
pub fn rules(facts: &NodeFacts, table: &ServiceTable) -> String {
    whole(facts, &program(facts, table)).concat()
}

/// The steps that make the table anew, whatever it held.
pub(super) fn whole(facts: &NodeFacts, program: &Program) -> Vec<String> {
    let start = format!("add table inet podlet\ndelete table inet podlet\n{}", frame(facts));
    let mut steps = vec![start];
    steps.extend(program.change_from(&Program::default()));
    steps
}

/// What does not depend on Services: the hooks, and the maps that Services fill.
fn frame(facts: &NodeFacts) -> String {
    let mut sets = String::new();
    for (f, kind) in [(4, "ipv4_addr"), (6, "ipv6_addr")] {
        let of_family = |ip: &IpAddr| ip.is_ipv4() == (f == 4);
        let node = join(facts.addresses.iter().filter(|a| of_family(a)));
        let ranges = facts.pod_cidrs.iter().chain(&facts.backbone_cidrs);
        let routed = facts.routed.iter().copied().map(IpNet::from);
        let inside = join(ranges.copied().chain(routed).filter(|n| of_family(&n.addr())));
        let _ = write!(
            sets,
            "  set node{f} {{ type {kind}; {node} }}
  set inside{f} {{ type {kind}; flags interval; {inside} }}
  set hairpin{f} {{ type {kind} . {kind}; }}
  set refused{f} {{ type {kind} . inet_proto . inet_service; }}
  map service{f} {{ type {kind} . inet_proto . inet_service : verdict; }}
  map nodeport{f} {{ type inet_proto . inet_service : verdict; }}
",
            node = elements(&node),
            inside = elements(&inside),
        );
    }
    let mut leaving = String::new();
    for range in &facts.pod_cidrs {
        let (ip, f) = (family(range.addr()), number(range.addr()));
        let _ = writeln!(leaving, "    {ip} saddr {range} {ip} daddr != @inside{f} masquerade");
    }
    let mut unserved = String::new();
    for range in &facts.service_cidrs {
        let _ = writeln!(unserved, "    {} daddr {range} goto refuse", family(range.addr()));
    }
    format!(
        "table inet podlet {{
{sets}  chain services {{
    ip daddr . meta l4proto . th dport vmap @service4
    ip6 daddr . meta l4proto . th dport vmap @service6
    ip daddr @node4 meta l4proto . th dport vmap @nodeport4
    ip6 daddr @node6 meta l4proto . th dport vmap @nodeport6
  }}
  chain prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    jump services
  }}
  chain output {{
    type nat hook output priority -100; policy accept;
    jump services
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    meta mark and {MASQUERADE} == {MASQUERADE} meta mark set meta mark xor {MASQUERADE} masquerade fully-random
    ip saddr . ip daddr @hairpin4 masquerade
    ip6 saddr . ip6 daddr @hairpin6 masquerade
{leaving}  }}
  chain refuse {{
    meta l4proto tcp reject with tcp reset
    reject with icmpx type port-unreachable
  }}
  chain unserved {{
    ip daddr . meta l4proto . th dport @refused4 goto refuse
    ip6 daddr . meta l4proto . th dport @refused6 goto refuse
{unserved}  }}
  chain unserved-forward {{
    type filter hook forward priority filter; policy accept;
    jump unserved
  }}
  chain unserved-output {{
    type filter hook output priority filter; policy accept;
    jump unserved
  }}
}}
"
    )
}

/// What the Services of `table` add to the frame.
pub(super) fn program(facts: &NodeFacts, table: &ServiceTable) -> Program {
    let mut program = Program::default();
    for port in &table.ports {
        add_port(&mut program, facts, port);
    }
    program
}

fn add_port(program: &mut Program, facts: &NodeFacts, port: &ServicePort) {
    let v4 = port.cluster_ip.is_ipv4();
    let f = number(port.cluster_ip);
    let protocol = port.protocol.name();
    let id = format!("{}/{protocol}/{}", clean(&port.name), port.port);
    let service = if v4 { "service4" } else { "service6" };
    let key = |ip: &IpAddr| format!("{ip} . {protocol} . {}", port.port);
    let mut all: Vec<Endpoint> =
        port.endpoints.iter().filter(|e| e.address.is_ipv4() == v4).copied().collect();
    all.sort_unstable();
    all.dedup_by_key(|e| e.address);
    let local: Vec<Endpoint> = all.iter().filter(|e| e.local).copied().collect();

    for endpoint in &local {
        let ip = endpoint.address.ip();
        program.element(if v4 { "hairpin4" } else { "hairpin6" }, format!("{ip} . {ip}"), None);
    }
    let inner = format!("svc{f}/{id}");
    let internal = if port.internal_local { &local } else { &all };
    if !internal.is_empty() {
        let rules = balance(program, port, &id, internal);
        program.chains.insert(inner.clone(), rules);
        program.element(service, key(&port.cluster_ip), Some(format!("goto {inner}")));
    }

    let externals: Vec<&IpAddr> =
        port.external_ips.iter().filter(|ip| ip.is_ipv4() == v4).collect();
    if externals.is_empty() && port.node_port.is_none() {
        return;
    }
    let external = if port.external_local { &local } else { &all };
    if external.is_empty() && (all.is_empty() || !port.external_local) {
        for ip in externals {
            program.element(if v4 { "refused4" } else { "refused6" }, key(ip), None);
        }
        return;
    }
    let outer = format!("ext{f}/{id}");
    let rules = outer_rules(program, facts, port, &id, &all, external);
    program.chains.insert(outer.clone(), rules);
    let goto = Some(format!("goto {outer}"));
    for ip in externals {
        program.element(service, key(ip), goto.clone());
        // Whom the chain sends nowhere (no endpoint on this node) is refused.
        program.element(if v4 { "refused4" } else { "refused6" }, key(ip), None);
    }
    if let Some(node_port) = port.node_port {
        let map = if v4 { "nodeport4" } else { "nodeport6" };
        program.element(map, format!("{protocol} . {node_port}"), goto);
    }
}

/// The rules for traffic that did not come to the cluster IP.
fn outer_rules(
    program: &mut Program,
    facts: &NodeFacts,
    port: &ServicePort,
    id: &str,
    all: &[Endpoint],
    external: &[Endpoint],
) -> Vec<String> {
    if !port.external_local {
        let mut rules = vec![format!("meta mark set meta mark or {MASQUERADE}")];
        rules.extend(balance(program, port, id, external));
        return rules;
    }
    // A pod is not outside: it may use every endpoint, and its address says how to come back.
    let everywhere = format!("any{}/{id}", number(port.cluster_ip));
    let rules = balance(program, port, id, all);
    program.chains.insert(everywhere.clone(), rules);
    let pods = facts.pod_cidrs.iter().filter(|n| n.addr().is_ipv4() == port.cluster_ip.is_ipv4());
    let mut rules: Vec<String> =
        pods.map(|n| format!("{} saddr {n} goto {everywhere}", family(n.addr()))).collect();
    if !external.is_empty() {
        rules.extend(balance(program, port, id, external));
    }
    rules
}

/// The rules that pick one of `endpoints`.
fn balance(
    program: &mut Program,
    port: &ServicePort,
    id: &str,
    endpoints: &[Endpoint],
) -> Vec<String> {
    let protocol = port.protocol.name();
    let ip = family(port.cluster_ip);
    let to = |e: SocketAddr| format!("meta l4proto {protocol} dnat {ip} to {e}");
    let Some(affinity) = port.affinity else {
        return match endpoints {
            [one] => vec![to(one.address)],
            many => {
                let choices = many.iter().enumerate();
                let choices = join(
                    choices
                        .map(|(i, e)| format!("{i} : {} . {}", e.address.ip(), e.address.port())),
                );
                let n = many.len();
                vec![format!(
                    "meta l4proto {protocol} dnat {ip} to numgen random mod {n} map {{ {choices} }}"
                )]
            }
        };
    };
    let f = number(port.cluster_ip);
    let seconds = affinity.as_secs().max(1);
    let mut rules = Vec::new();
    let mut choices = Vec::new();
    for (i, endpoint) in endpoints.iter().enumerate() {
        let which = clean(&endpoint.address.to_string());
        let chain = format!("end{f}/{id}/{which}");
        let clients = format!("clients{f}/{id}/{seconds}s/{which}");
        let kind = if f == 4 { "ipv4_addr" } else { "ipv6_addr" };
        let declaration = format!("type {kind}; flags dynamic,timeout; timeout {seconds}s;");
        program.sets.insert(clients.clone(), declaration);
        rules.push(format!("{ip} saddr @{clients} goto {chain}"));
        choices.push(format!("{i} : goto {chain}"));
        let remember = format!("update @{clients} {{ {ip} saddr }}");
        program.chains.insert(chain, vec![remember, to(endpoint.address)]);
    }
    rules.push(format!("numgen random mod {} vmap {{ {} }}", endpoints.len(), choices.join(", ")));
    rules
}

fn number(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 4 } else { 6 }
}

/// A name as nft takes it unquoted.
fn clean(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '.' | '_');
    name.chars().map(|c| if keep(c) { c } else { '_' }).collect()
}

fn join<T: ToString>(items: impl Iterator<Item = T>) -> String {
    items.map(|i| i.to_string()).collect::<Vec<_>>().join(", ")
}

fn elements(list: &str) -> String {
    if list.is_empty() { String::new() } else { format!("elements = {{ {list} }};") }
}
