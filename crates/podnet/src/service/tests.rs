//! Service tables as rule text, word for word.

use std::net::SocketAddr;
use std::time::Duration;

use super::*;

fn facts() -> NodeFacts {
    NodeFacts {
        addresses: vec!["10.243.0.10".parse().unwrap(), "10.244.0.1".parse().unwrap()],
        pod_cidrs: vec!["10.244.0.0/16".parse().unwrap()],
        backbone_cidrs: vec!["10.243.0.0/24".parse().unwrap()],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        routed: BTreeSet::new(),
    }
}

fn port(endpoints: &[(&str, bool)]) -> ServicePort {
    let endpoint = |(address, local): &(&str, bool)| Endpoint {
        address: address.parse::<SocketAddr>().unwrap(),
        local: *local,
    };
    ServicePort {
        name: "demo/web".to_owned(),
        protocol: Protocol::Tcp,
        port: 80,
        cluster_ip: "10.96.0.5".parse().unwrap(),
        external_ips: vec![],
        node_port: None,
        affinity: None,
        internal_local: false,
        external_local: false,
        endpoints: endpoints.iter().map(endpoint).collect(),
    }
}

/// What a table adds to the frame.
fn added(ports: Vec<ServicePort>) -> String {
    rules::program(&facts(), &ServiceTable { ports }).change_from(&Program::default()).concat()
}

#[test]
fn a_cluster_ip_is_one_element_and_one_chain() {
    assert_eq!(
        added(vec![port(&[("10.244.1.9:8080", false), ("10.244.0.7:8080", true)])]),
        "add chain inet podlet svc4/demo/web/tcp/80
add rule inet podlet svc4/demo/web/tcp/80 meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.244.0.7 . 8080, 1 : 10.244.1.9 . 8080 }
add element inet podlet hairpin4 { 10.244.0.7 . 10.244.0.7 }
add element inet podlet service4 { 10.96.0.5 . tcp . 80 : goto svc4/demo/web/tcp/80 }
"
    );
}

#[test]
fn node_ports_and_external_addresses_are_masqueraded() {
    let mut web = port(&[("10.244.1.9:8080", false)]);
    web.node_port = Some(30080);
    web.external_ips = vec!["203.0.113.7".parse().unwrap()];
    assert_eq!(
        added(vec![web]),
        "add chain inet podlet ext4/demo/web/tcp/80
add chain inet podlet svc4/demo/web/tcp/80
add rule inet podlet ext4/demo/web/tcp/80 meta mark set meta mark or 0x4000
add rule inet podlet ext4/demo/web/tcp/80 meta l4proto tcp dnat ip to 10.244.1.9:8080
add rule inet podlet svc4/demo/web/tcp/80 meta l4proto tcp dnat ip to 10.244.1.9:8080
add element inet podlet nodeport4 { tcp . 30080 : goto ext4/demo/web/tcp/80 }
add element inet podlet refused4 { 203.0.113.7 . tcp . 80 }
add element inet podlet service4 { 10.96.0.5 . tcp . 80 : goto svc4/demo/web/tcp/80, 203.0.113.7 . tcp . 80 : goto ext4/demo/web/tcp/80 }
"
    );
}

#[test]
fn affinity_remembers_clients_per_endpoint() {
    let mut web = port(&[("10.244.1.9:8080", false)]);
    web.affinity = Some(Duration::from_secs(10800));
    assert_eq!(
        added(vec![web]),
        "add set inet podlet clients4/demo/web/tcp/80/10800s/10.244.1.9_8080 { type ipv4_addr; flags dynamic,timeout; timeout 10800s; }
add chain inet podlet end4/demo/web/tcp/80/10.244.1.9_8080
add chain inet podlet svc4/demo/web/tcp/80
add rule inet podlet end4/demo/web/tcp/80/10.244.1.9_8080 update @clients4/demo/web/tcp/80/10800s/10.244.1.9_8080 { ip saddr }
add rule inet podlet end4/demo/web/tcp/80/10.244.1.9_8080 meta l4proto tcp dnat ip to 10.244.1.9:8080
add rule inet podlet svc4/demo/web/tcp/80 ip saddr @clients4/demo/web/tcp/80/10800s/10.244.1.9_8080 goto end4/demo/web/tcp/80/10.244.1.9_8080
add rule inet podlet svc4/demo/web/tcp/80 numgen random mod 1 vmap { 0 : goto end4/demo/web/tcp/80/10.244.1.9_8080 }
add element inet podlet service4 { 10.96.0.5 . tcp . 80 : goto svc4/demo/web/tcp/80 }
"
    );
}

#[test]
fn a_port_without_endpoints_leaves_its_external_address_refused() {
    let mut web = port(&[]);
    web.external_ips = vec!["203.0.113.7".parse().unwrap()];
    assert_eq!(added(vec![web]), "add element inet podlet refused4 { 203.0.113.7 . tcp . 80 }\n");
}

#[test]
fn a_change_names_only_what_changed() {
    let mut other = port(&[("10.244.1.1:1", false)]);
    (other.name, other.cluster_ip) = ("demo/other".to_owned(), "10.96.0.6".parse().unwrap());
    let before = rules::program(
        &facts(),
        &ServiceTable { ports: vec![port(&[("10.244.1.9:8080", false)]), other.clone()] },
    );
    let after = rules::program(
        &facts(),
        &ServiceTable { ports: vec![port(&[("10.244.1.10:8080", false)]), other] },
    );
    assert_eq!(
        after.change_from(&before).concat(),
        "flush chain inet podlet svc4/demo/web/tcp/80
add rule inet podlet svc4/demo/web/tcp/80 meta l4proto tcp dnat ip to 10.244.1.10:8080
"
    );
    assert_eq!(after.change_from(&after), Vec::<String>::new());
}

#[test]
fn the_first_port_with_a_key_keeps_it() {
    let mut second = port(&[("10.244.1.1:1", false)]);
    second.name = "demo/zweb".to_owned();
    let text = added(vec![port(&[("10.244.1.9:8080", false)]), second]);
    assert!(text.contains("10.96.0.5 . tcp . 80 : goto svc4/demo/web/tcp/80 }"), "{text}");
}

#[test]
fn only_endpoints_that_went_away_from_udp_ports_are_forgotten() {
    let mut dns = port(&[("10.244.0.2:53", true), ("10.244.1.3:53", false)]);
    dns.protocol = Protocol::Udp;
    let web = port(&[("10.244.0.9:80", true)]);
    let mut less = dns.clone();
    less.endpoints.remove(0);
    let old = ServiceTable { ports: vec![dns, web] };
    let new = ServiceTable { ports: vec![less] };
    assert_eq!(
        removed_udp_endpoints(&old, &new),
        BTreeSet::from(["10.244.0.2:53".parse().unwrap()])
    );
}

#[test]
fn odd_names_cannot_break_out_of_the_rules() {
    let mut web = port(&[("10.244.1.9:8080", false)]);
    web.name = "demo/web; flush ruleset\n\"".to_owned();
    let text = added(vec![web]);
    assert!(text.lines().all(|l| l.starts_with("add ")), "{text}");
    assert!(!text.contains(';') && !text.contains('"'), "{text}");
}
