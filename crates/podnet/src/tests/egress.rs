//! The way out, seen from a namespace that plays the machine.

use std::io::ErrorKind;
use std::net::SocketAddr;

use ipnet::IpNet;
use ironsail_sys::netns::Netns;

use super::bench::{ask, ask_udp, network, serve};
use crate::link::Links;
use crate::{NetworkConfig, OutsideConfig};

/// Runs `test` with a runtime whose thread lives in a namespace of its own, where the "world" is an
/// address of the loopback link.
pub(super) fn on_a_machine_of_its_own<F: Future<Output = ()>>(
    test: impl FnOnce(Netns) -> F + Send,
) {
    let machine = Netns::create().unwrap();
    machine
        .run(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(test(machine.clone()));
        })
        .unwrap();
}

#[test]
fn with_egress_tcp_is_carried_into_the_world_and_nothing_else() {
    on_a_machine_of_its_own(|machine| async move {
        let world: SocketAddr = "198.51.100.20:80".parse().unwrap();
        let links = Links::open(&machine).unwrap();
        let loopback = links.index("lo").await.unwrap();
        links.add_address(loopback, IpNet::from(world.ip())).await.unwrap();
        let _world = serve(&machine, world, "world").await;

        let config = NetworkConfig { egress: true, ..NetworkConfig::ipv4() };
        let (network, nodes) = network(config, 1).await;
        let pod = nodes[0].add_pod("pod").await.unwrap();
        let answer = ask(&pod.netns, world).await.unwrap();
        assert_eq!((answer.server.as_str(), answer.seen.ip()), ("world", world.ip()));

        // A closed port of the world resets, and UDP is refused.
        let closed: SocketAddr = "198.51.100.20:81".parse().unwrap();
        assert!(ask(&pod.netns, closed).await.is_err());
        let error = ask_udp(&pod.netns, world).await.unwrap_err();
        assert_ne!(error.kind(), ErrorKind::TimedOut);

        // An outside host is not the world.
        let outside = OutsideConfig {
            name: "server".to_owned(),
            addresses: vec!["203.0.113.10".parse().unwrap()],
            hostnames: vec![],
            routed: false,
        };
        let outside = network.add_outside(outside).await.unwrap();
        let to = SocketAddr::new(outside.addresses()[0], 80);
        let _server = serve(outside.netns(), to, "outside").await;
        assert_eq!(ask(&pod.netns, to).await.unwrap().server, "outside");
        // Unused Service addresses stay refused.
        let error = ask(&pod.netns, "10.96.7.7:80".parse().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}
