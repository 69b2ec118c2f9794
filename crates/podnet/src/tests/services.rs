//! Services as packets meet them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::bench::{Server, ask, ask_by, ask_udp, at, first, network, serve, serve_udp};
use crate::{Endpoint, Network, NetworkConfig, Node, PodLink, Protocol, ServicePort, ServiceTable};

const VIP: &str = "10.96.0.50";

fn vip(port: u16) -> SocketAddr {
    at(&VIP.parse().unwrap(), port)
}

fn port(protocol: Protocol, endpoints: &[(&PodLink, &Node)]) -> ServicePort {
    ServicePort {
        name: "demo/web".to_owned(),
        protocol,
        port: 80,
        cluster_ip: VIP.parse().unwrap(),
        external_ips: vec!["203.0.113.7".parse().unwrap()],
        node_port: Some(30080),
        affinity: None,
        internal_local: false,
        external_local: false,
        endpoints: endpoints
            .iter()
            .map(|(pod, _)| Endpoint { address: at(&first(pod), 8080), local: false })
            .collect(),
    }
}

/// Gives every node the table, with the endpoints of its own pods marked so.
async fn set(nodes: &[Node], ports: &[ServicePort]) {
    for node in nodes {
        let mut ports = ports.to_vec();
        for endpoint in ports.iter_mut().flat_map(|p| &mut p.endpoints) {
            let ip = endpoint.address.ip();
            endpoint.local = node.pod_ranges().iter().any(|r| r.contains(&ip));
        }
        node.set_services(ServiceTable { ports }).await.unwrap();
    }
}

struct World {
    _network: Network,
    nodes: Vec<Node>,
    /// `client` and `a` on the first node, `b` on the second.
    client: PodLink,
    a: PodLink,
    b: PodLink,
    _servers: Vec<Server>,
}

async fn world() -> World {
    let (_network, nodes) = network(NetworkConfig::ipv4(), 2).await;
    let client = nodes[0].add_pod("client").await.unwrap();
    let a = nodes[0].add_pod("a").await.unwrap();
    let b = nodes[1].add_pod("b").await.unwrap();
    let mut servers = Vec::new();
    for (pod, name) in [(&a, "a"), (&b, "b")] {
        servers.push(serve(&pod.netns, at(&first(pod), 8080), name).await);
        servers.push(serve_udp(&pod.netns, at(&first(pod), 8080), name).await);
    }
    World { _network, nodes, client, a, b, _servers: servers }
}

async fn count(world: &World, to: SocketAddr, times: usize) -> BTreeMap<String, usize> {
    let mut answers = BTreeMap::new();
    for _ in 0..times {
        let answer = ask(&world.client.netns, to).await.unwrap();
        *answers.entry(answer.server).or_default() += 1;
    }
    answers
}

#[tokio::test]
async fn a_service_balances_over_its_endpoints_and_keeps_the_caller_address() {
    let w = world().await;
    set(&w.nodes, &[port(Protocol::Tcp, &[(&w.a, &w.nodes[0]), (&w.b, &w.nodes[1])])]).await;
    let answers = count(&w, vip(80), 40).await;
    assert!(answers["a"] > 4 && answers["b"] > 4, "{answers:?}");
    for _ in 0..8 {
        let answer = ask(&w.client.netns, vip(80)).await.unwrap();
        assert_eq!(answer.seen.ip(), first(&w.client), "{answer:?}");
        let answer = ask(w.nodes[1].netns(), vip(80)).await.unwrap();
        assert_eq!(answer.seen.ip(), w.nodes[1].addresses()[0], "{answer:?}");
    }
}

#[tokio::test]
async fn a_client_with_affinity_stays_with_its_endpoint_while_it_lasts() {
    let w = world().await;
    let mut both = port(Protocol::Tcp, &[(&w.a, &w.nodes[0]), (&w.b, &w.nodes[1])]);
    both.affinity = Some(Duration::from_secs(60));
    set(&w.nodes, std::slice::from_ref(&both)).await;
    let answers = count(&w, vip(80), 20).await;
    assert_eq!(answers.len(), 1, "{answers:?}");
    // A change elsewhere does not shake it off.
    let mut other = both.clone();
    other.name = "demo/other".to_owned();
    other.cluster_ip = "10.96.0.51".parse().unwrap();
    other.external_ips.clear();
    other.node_port = None;
    set(&w.nodes, &[both.clone(), other]).await;
    assert_eq!(count(&w, vip(80), 10).await.keys().next(), answers.keys().next());
    // When its endpoint goes, it gets the other one.
    let gone = if answers.contains_key("a") { first(&w.a) } else { first(&w.b) };
    both.endpoints.retain(|e| e.address.ip() != gone);
    set(&w.nodes, &[both]).await;
    assert_ne!(count(&w, vip(80), 5).await.keys().next(), answers.keys().next());
}

#[tokio::test]
async fn affinity_ends_after_its_time() {
    let w = world().await;
    let mut both = port(Protocol::Tcp, &[(&w.a, &w.nodes[0]), (&w.b, &w.nodes[1])]);
    both.affinity = Some(Duration::from_secs(1));
    set(&w.nodes, &[both]).await;
    let mut seen = std::collections::BTreeSet::new();
    // Each round waits for the kernel to forget; within two dozen rounds both must have been seen.
    for _ in 0..24 {
        seen.insert(ask(&w.client.netns, vip(80)).await.unwrap().server);
        if seen.len() == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }
    panic!("the client stayed with {seen:?}");
}

#[tokio::test]
async fn a_pod_reaches_itself_through_its_service() {
    let w = world().await;
    set(&w.nodes, &[port(Protocol::Tcp, &[(&w.a, &w.nodes[0])])]).await;
    assert_eq!(ask(&w.a.netns, vip(80)).await.unwrap().server, "a");
}

#[tokio::test]
async fn a_service_without_endpoints_refuses_at_once() {
    let w = world().await;
    set(&w.nodes, &[port(Protocol::Tcp, &[]), port(Protocol::Udp, &[])]).await;
    let targets =
        [vip(80), vip(81), "10.96.9.9:80".parse().unwrap(), "203.0.113.7:80".parse().unwrap()];
    for to in targets {
        for netns in [&w.client.netns, w.nodes[0].netns()] {
            let error = ask(netns, to).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{to} {error}");
            // The node itself is told by its own send call, pods by a message from the node.
            let error = ask_udp(netns, to).await.unwrap_err();
            let expected = [ErrorKind::ConnectionRefused, ErrorKind::PermissionDenied];
            assert!(expected.contains(&error.kind()), "{to} {error}");
        }
    }
    let node_port = at(&w.nodes[0].addresses()[0], 30080);
    let error = ask(&w.client.netns, node_port).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn node_ports_and_external_addresses_lead_to_the_service_from_everywhere() {
    let w = world().await;
    set(&w.nodes, &[port(Protocol::Tcp, &[(&w.b, &w.nodes[1])])]).await;
    let to: Vec<SocketAddr> = vec![
        at(&w.nodes[0].addresses()[0], 30080),
        at(&w.nodes[1].addresses()[0], 30080),
        "203.0.113.7:80".parse().unwrap(),
    ];
    for to in to {
        for netns in [&w.client.netns, &w.b.netns, w.nodes[0].netns(), w.nodes[1].netns()] {
            assert_eq!(ask(netns, to).await.unwrap().server, "b", "{to}");
        }
    }
}

#[tokio::test]
async fn the_local_policy_uses_only_endpoints_of_the_node() {
    let w = world().await;
    let mut both = port(Protocol::Tcp, &[(&w.a, &w.nodes[0]), (&w.b, &w.nodes[1])]);
    both.internal_local = true;
    both.external_local = true;
    set(&w.nodes, std::slice::from_ref(&both)).await;
    for _ in 0..10 {
        assert_eq!(ask(&w.client.netns, vip(80)).await.unwrap().server, "a");
        // A node calls another's port from outside, so to speak: its address is kept.
        let answer = ask(w.nodes[0].netns(), at(&w.nodes[1].addresses()[0], 30080)).await.unwrap();
        assert_eq!((answer.server.as_str(), answer.seen.ip()), ("b", w.nodes[0].addresses()[0]));
    }
    both.endpoints.truncate(1);
    set(&w.nodes, &[both]).await;
    let error = ask(w.nodes[0].netns(), at(&w.nodes[1].addresses()[0], 30080)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    // A pod is inside and may use every endpoint.
    assert_eq!(ask(&w.b.netns, at(&w.nodes[1].addresses()[0], 30080)).await.unwrap().server, "a");
}

#[tokio::test]
async fn a_udp_flow_moves_on_when_its_endpoint_goes() {
    let w = world().await;
    set(&w.nodes, &[port(Protocol::Udp, &[(&w.a, &w.nodes[0])])]).await;
    let socket = w.client.netns.dialer().unwrap().udp("0.0.0.0:0".parse().unwrap()).await.unwrap();
    let answer = ask_by(&socket, vip(80)).await.unwrap();
    assert_eq!((answer.server.as_str(), answer.seen.ip()), ("a", first(&w.client)));
    set(&w.nodes, &[port(Protocol::Udp, &[(&w.b, &w.nodes[1])])]).await;
    assert_eq!(ask_by(&socket, vip(80)).await.unwrap().server, "b");
}

#[tokio::test]
async fn services_come_and_go_without_a_trace() {
    let w = world().await;
    let mut service = port(Protocol::Tcp, &[(&w.a, &w.nodes[0]), (&w.b, &w.nodes[1])]);
    service.affinity = Some(Duration::from_secs(60));
    let before = listing(&w.nodes[0]);
    set(&w.nodes, &[service]).await;
    assert_ne!(listing(&w.nodes[0]), before);
    set(&w.nodes, &[]).await;
    assert_eq!(listing(&w.nodes[0]), before);
}

#[tokio::test]
async fn rules_that_somebody_removed_come_back_with_the_next_change() {
    let w = world().await;
    set(&w.nodes, &[port(Protocol::Tcp, &[(&w.a, &w.nodes[0])])]).await;
    let flush =
        crate::nft::apply(w.nodes[0].netns(), "a test", "delete table inet podlet".to_owned());
    flush.await.unwrap();
    set(&w.nodes, &[port(Protocol::Tcp, &[(&w.b, &w.nodes[1])])]).await;
    assert_eq!(ask(&w.client.netns, vip(80)).await.unwrap().server, "b");
}

#[tokio::test]
async fn services_have_both_families_with_dual_stack() {
    let (_network, nodes) = network(NetworkConfig::dual_stack(), 2).await;
    let client = nodes[0].add_pod("client").await.unwrap();
    let server = nodes[1].add_pod("server").await.unwrap();
    let vips: [IpAddr; 2] = [VIP.parse().unwrap(), "fd00:10:96::50".parse().unwrap()];
    let mut ports = Vec::new();
    let mut servers = Vec::new();
    for (vip, address) in vips.iter().zip(&server.addresses) {
        servers.push(serve(&server.netns, at(address, 8080), "server").await);
        let endpoints = vec![Endpoint { address: at(address, 8080), local: false }];
        let mut tcp = port(Protocol::Tcp, &[]);
        (tcp.cluster_ip, tcp.endpoints) = (*vip, endpoints);
        ports.push(tcp);
    }
    set(&nodes, &ports).await;
    for (i, vip) in vips.iter().enumerate() {
        for to in [at(vip, 80), at(&nodes[1].addresses()[i], 30080)] {
            let answer = ask(&client.netns, to).await.unwrap();
            assert_eq!(answer.server, "server");
        }
        assert_eq!(ask(&client.netns, at(vip, 80)).await.unwrap().seen.ip(), client.addresses[i]);
        let refused = ask(&client.netns, at(vip, 81)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(ask(&server.netns, at(vip, 80)).await.unwrap().server, "server");
    }
}

#[tokio::test]
async fn a_thousand_services_of_many_endpoints_are_set_in_one_go() {
    let (_network, nodes) = network(NetworkConfig::ipv4(), 1).await;
    let many = |changed: u8| ServiceTable {
        ports: (0..1000u16)
            .map(|i| {
                let [x, y] = i.to_be_bytes();
                let mut service = port(Protocol::Tcp, &[]);
                service.name = format!("demo/service-{i}");
                service.cluster_ip = IpAddr::from([10, 96, 1 + x, y]);
                service.external_ips.clear();
                service.node_port = Some(30000 + i);
                let last = if i == 500 { changed } else { 1 };
                service.endpoints = (0..5)
                    .map(|e| Endpoint {
                        address: SocketAddr::from(([10, 244, 100 + e, last], 8080)),
                        local: false,
                    })
                    .collect();
                service
            })
            .collect(),
    };
    nodes[0].set_services(many(1)).await.unwrap();
    // One changed Service costs a few lines, not the table again: this is well under a second.
    let changed = nodes[0].set_services(many(2));
    tokio::time::timeout(Duration::from_secs(3), changed).await.unwrap().unwrap();
}

fn listing(node: &Node) -> String {
    let nft = &mut ironsail_sys::exec::command("/usr/sbin/nft");
    let output = node.netns().output(nft.args(["list", "ruleset"]), b"").unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}
