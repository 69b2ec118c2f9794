//! The machine's own network is never touched.

use ironsail_sys::exec;
use ironsail_sys::netns::Netns;

use super::bench::network;
use super::egress::on_a_machine_of_its_own;
use crate::{NetworkConfig, OutsideConfig, ServiceTable};

fn state(machine: &Netns) -> String {
    let files = ["dev", "route", "ipv6_route", "if_inet6", "fib_trie"];
    let mut state = machine
        .run(|| {
            // Names only: the counters of the loopback link move.
            let read = |f: &str| {
                std::fs::read_to_string(format!("/proc/thread-self/net/{f}")).unwrap_or_default()
            };
            let dev: Vec<String> =
                read("dev").lines().map(|l| l.split(':').next().unwrap_or("").to_owned()).collect();
            let rest: String = files[1..].iter().map(|f| read(f)).collect();
            format!("{dev:?}\n{rest}")
        })
        .unwrap();
    let rules =
        machine.output(exec::command("/usr/sbin/nft").args(["list", "ruleset"]), b"").unwrap();
    assert!(rules.status.success());
    state.push_str(&String::from_utf8_lossy(&rules.stdout));
    state
}

#[test]
fn the_machine_s_links_routes_and_rules_stay_as_they_were() {
    on_a_machine_of_its_own(|machine| async move {
        let before = state(&machine);
        let config = NetworkConfig { egress: true, ..NetworkConfig::dual_stack() };
        let (network, nodes) = network(config, 2).await;
        nodes[0].add_pod("a").await.unwrap();
        nodes[1].add_pod("b").await.unwrap();
        nodes[0].set_services(ServiceTable::default()).await.unwrap();
        let outside = OutsideConfig {
            name: "server".to_owned(),
            addresses: vec!["203.0.113.10".parse().unwrap()],
            hostnames: vec![],
            routed: true,
        };
        network.add_outside(outside).await.unwrap();
        assert_eq!(state(&machine), before, "while it runs");
        drop((network, nodes));
        assert_eq!(state(&machine), before, "after it ended");
    });
}

#[tokio::test]
async fn this_machine_has_what_podlet_needs() {
    crate::check(&NetworkConfig::dual_stack()).await.unwrap();
}
