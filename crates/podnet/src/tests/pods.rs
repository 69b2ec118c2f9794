//! Pods and nodes reaching each other.

use std::io::ErrorKind;

use super::bench::{ask, at, first, network, serve};
use crate::NetworkConfig;

#[tokio::test]
async fn pods_reach_each_other_with_their_own_addresses() {
    let (_network, nodes) = network(NetworkConfig::ipv4(), 2).await;
    let a = nodes[0].add_pod("a").await.unwrap();
    let b = nodes[0].add_pod("b").await.unwrap();
    let c = nodes[1].add_pod("c").await.unwrap();
    let _b = serve(&b.netns, at(&first(&b), 80), "b").await;
    let _c = serve(&c.netns, at(&first(&c), 80), "c").await;
    for (server, name) in [(&b, "b"), (&c, "c")] {
        let answer = ask(&a.netns, at(&first(server), 80)).await.unwrap();
        assert_eq!((answer.server.as_str(), answer.seen.ip()), (name, first(&a)));
    }
}

#[tokio::test]
async fn a_node_reaches_pods_anywhere_from_its_own_address() {
    let (_network, nodes) = network(NetworkConfig::ipv4(), 2).await;
    for node in &nodes {
        let pod = node.add_pod("pod").await.unwrap();
        let _server = serve(&pod.netns, at(&first(&pod), 80), "pod").await;
        let answer = ask(nodes[0].netns(), at(&first(&pod), 80)).await.unwrap();
        assert_eq!(answer.seen.ip(), nodes[0].addresses()[0]);
    }
}

#[tokio::test]
async fn both_families_work_with_dual_stack() {
    let (network, nodes) = network(NetworkConfig::dual_stack(), 2).await;
    let a = nodes[0].add_pod("a").await.unwrap();
    let b = nodes[1].add_pod("b").await.unwrap();
    assert_eq!(a.addresses.len(), 2);
    for (i, address) in b.addresses.iter().enumerate() {
        let _server = serve(&b.netns, at(address, 80), "b").await;
        let answer = ask(&a.netns, at(address, 80)).await.unwrap();
        assert_eq!(answer.seen.ip(), a.addresses[i]);
        let answer = ask(nodes[0].netns(), at(address, 80)).await.unwrap();
        assert_eq!(answer.seen.ip(), nodes[0].addresses()[i]);
    }
    // podlet itself is there in both families too.
    let listeners = network.listen(443).await.unwrap();
    for listener in &listeners {
        let to = listener.local_addr().unwrap();
        let dialer = a.netns.dialer().unwrap();
        let (called, accepted) = tokio::join!(dialer.tcp(to), listener.accept());
        called.unwrap();
        assert!(a.addresses.contains(&accepted.unwrap().1.ip()));
    }
    assert_eq!(listeners.len(), 2);
}

#[tokio::test]
async fn a_pod_asked_for_twice_is_the_same_and_a_new_one_gets_a_new_address() {
    let (_network, nodes) = network(NetworkConfig::ipv4(), 1).await;
    let a = nodes[0].add_pod("a").await.unwrap();
    let again = nodes[0].add_pod("a").await.unwrap();
    assert_eq!(a.addresses, again.addresses);
    assert_eq!(a.netns.inode().unwrap(), again.netns.inode().unwrap());
    nodes[0].remove_pod("a").await.unwrap();
    nodes[0].remove_pod("a").await.unwrap();
    let b = nodes[0].add_pod("b").await.unwrap();
    assert_ne!(a.addresses, b.addresses);
}

#[tokio::test]
async fn a_removed_pod_is_off_the_network_though_somebody_still_holds_it() {
    let (_network, nodes) = network(NetworkConfig::ipv4(), 1).await;
    let a = nodes[0].add_pod("a").await.unwrap();
    nodes[0].remove_pod("a").await.unwrap();
    let links =
        a.netns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    assert!(!links.contains("eth0"), "{links}");
}

#[tokio::test]
async fn a_pod_for_plugins_has_only_a_loopback_link() {
    let (_network, nodes) = network(NetworkConfig::ipv4(), 1).await;
    let pod = nodes[0].add_pod_netns_only("a").await.unwrap();
    assert!(pod.addresses.is_empty());
    let links =
        pod.netns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    assert!(links.contains("lo:") && !links.contains("eth0"), "{links}");
    nodes[0].remove_pod("a").await.unwrap();
}

#[tokio::test]
async fn a_pod_of_the_host_network_is_the_node() {
    let (_network, nodes) = network(NetworkConfig::ipv4(), 1).await;
    let pod = nodes[0].host_pod();
    assert_eq!(pod.addresses, nodes[0].addresses());
    assert_eq!(pod.netns.inode().unwrap(), nodes[0].netns().inode().unwrap());
}

#[tokio::test]
async fn a_node_that_is_cut_off_keeps_its_own_pods_and_comes_back() {
    let (_network, nodes) = network(NetworkConfig::ipv4(), 2).await;
    let a = nodes[0].add_pod("a").await.unwrap();
    let near = nodes[0].add_pod("near").await.unwrap();
    let far = nodes[1].add_pod("far").await.unwrap();
    let _near = serve(&near.netns, at(&first(&near), 80), "near").await;
    let _far = serve(&far.netns, at(&first(&far), 80), "far").await;
    ask(&a.netns, at(&first(&far), 80)).await.unwrap();

    nodes[0].cut().await.unwrap();
    assert!(nodes[0].is_cut());
    let lost = tokio::time::timeout(
        std::time::Duration::from_millis(300),
        ask(&a.netns, at(&first(&far), 80)),
    );
    assert!(!matches!(lost.await, Ok(Ok(_))), "a cut node must not reach the others");
    assert_eq!(ask(&a.netns, at(&first(&near), 80)).await.unwrap().server, "near");

    nodes[0].heal().await.unwrap();
    assert!(!nodes[0].is_cut());
    assert_eq!(ask(&a.netns, at(&first(&far), 80)).await.unwrap().server, "far");
}

#[tokio::test]
async fn a_removed_node_makes_room_for_another() {
    let (network, nodes) = network(NetworkConfig::dual_stack(), 2).await;
    let ranges = nodes[1].pod_ranges().to_vec();
    network.remove_node("node-1").await.unwrap();
    assert!(network.node("node-1").is_none());
    let again = network.add_node("node-2").await.unwrap();
    assert_eq!(again.pod_ranges(), ranges);
    let a = nodes[0].add_pod("a").await.unwrap();
    let b = again.add_pod("b").await.unwrap();
    let _server = serve(&b.netns, at(&first(&b), 80), "b").await;
    assert_eq!(ask(&a.netns, at(&first(&b), 80)).await.unwrap().seen.ip(), first(&a));
}

#[tokio::test]
async fn a_closed_port_of_a_pod_refuses() {
    let (_network, nodes) = network(NetworkConfig::ipv4(), 1).await;
    let a = nodes[0].add_pod("a").await.unwrap();
    let b = nodes[0].add_pod("b").await.unwrap();
    let error = ask(&a.netns, at(&first(&b), 80)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_hundred_pods_are_wired_in_a_few_seconds() {
    let (_network, nodes) = network(NetworkConfig::dual_stack(), 1).await;
    let start = tokio::time::Instant::now();
    for i in 0..100 {
        nodes[0].add_pod(&format!("pod-{i}")).await.unwrap();
    }
    // Generous: a busy machine with two cores takes about half a second.
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
}
