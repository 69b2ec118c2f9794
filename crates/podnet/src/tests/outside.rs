//! Hosts beside the nodes, and addresses of nobody.

use std::io::ErrorKind;

use super::bench::{ask, ask_udp, at, first, network, serve};
use crate::{Error, NetworkConfig, OutsideConfig};

fn host(name: &str, addresses: &[&str], routed: bool) -> OutsideConfig {
    OutsideConfig {
        name: name.to_owned(),
        addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
        hostnames: vec![],
        routed,
    }
}

#[tokio::test]
async fn pods_reach_the_outside_from_their_node_s_address_and_are_not_reached_from_there() {
    let (network, nodes) = network(NetworkConfig::dual_stack(), 2).await;
    let pod = nodes[1].add_pod("pod").await.unwrap();
    let server = network
        .add_outside(host("server", &["203.0.113.10", "2001:db8::10"], false))
        .await
        .unwrap();
    for (i, address) in server.addresses().iter().enumerate() {
        let _server = serve(server.netns(), at(address, 80), "outside").await;
        let answer = ask(&pod.netns, at(address, 80)).await.unwrap();
        assert_eq!(answer.seen.ip(), nodes[1].addresses()[i]);
        let _pod = serve(&pod.netns, at(&pod.addresses[i], 80), "pod").await;
        let error = ask(server.netns(), at(&pod.addresses[i], 80)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let _node = serve(nodes[1].netns(), at(&nodes[1].addresses()[i], 80), "node").await;
        let answer = ask(server.netns(), at(&nodes[1].addresses()[i], 80)).await.unwrap();
        assert_eq!(answer.seen.ip(), *address);
    }
}

#[tokio::test]
async fn a_routed_outside_host_and_pods_see_each_other_s_own_addresses() {
    let (network, mut nodes) = network(NetworkConfig::ipv4(), 1).await;
    let machine = network.add_outside(host("vm", &["192.0.2.5"], true)).await.unwrap();
    nodes.push(network.add_node("late").await.unwrap());
    let to = at(&machine.addresses()[0], 80);
    let _server = serve(machine.netns(), to, "vm").await;
    for node in &nodes {
        let pod = node.add_pod("pod").await.unwrap();
        assert_eq!(ask(&pod.netns, to).await.unwrap().seen.ip(), first(&pod));
        let _pod = serve(&pod.netns, at(&first(&pod), 80), "pod").await;
        let answer = ask(machine.netns(), at(&first(&pod), 80)).await.unwrap();
        assert_eq!(answer.seen.ip(), machine.addresses()[0]);
    }
}

#[tokio::test]
async fn without_egress_everything_else_is_refused_at_once() {
    let (_network, nodes) = network(NetworkConfig::dual_stack(), 1).await;
    let pod = nodes[0].add_pod("pod").await.unwrap();
    for netns in [&pod.netns, nodes[0].netns()] {
        for to in ["198.51.100.1:443", "[2001:db8::1]:443", "10.9.9.9:80"] {
            let error = ask(netns, to.parse().unwrap()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{to}: {error}");
            let error = ask_udp(netns, to.parse().unwrap()).await.unwrap_err();
            assert_ne!(error.kind(), ErrorKind::TimedOut, "{to}: {error}");
        }
    }
}

#[tokio::test]
async fn an_outside_host_may_not_take_an_address_of_the_cluster() {
    let (network, _) = network(NetworkConfig::ipv4(), 1).await;
    let taken = network.add_outside(host("thief", &["10.244.0.9"], false)).await;
    assert!(matches!(taken, Err(Error::AddressInside { .. })));
}
