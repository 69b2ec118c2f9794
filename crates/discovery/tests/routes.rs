//! A thousand VirtualServices: what a change of one of them costs.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "world/objects.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod objects;
#[path = "world/peer.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod peer;
#[path = "world/server.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod server;

use std::fmt::Write as _;

use ironsail_discovery::Kind;
use ironsail_xds::{RDS, Variant};
use objects::services;
use peer::{Peer, node};
use server::World;

/// A VirtualService with ten routes, all of which wait so long.
fn ten_routes(index: usize, seconds: u32) -> String {
    let name = format!("svc-{index}");
    let mut out = format!(
        "---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: {name}, namespace: foo}}
spec:
  hosts: [{name}]
  http:
"
    );
    for i in 0..9 {
        let _ = writeln!(
            out,
            "  - {{match: [{{uri: {{prefix: /r{i}}}}}], timeout: {seconds}s, route: [{{destination: {{host: {name}}}}}]}}"
        );
    }
    let _ =
        writeln!(out, "  - {{timeout: {seconds}s, route: [{{destination: {{host: {name}}}}}]}}");
    out
}

/// What a change takes: translations of VirtualServices; translations and responses by type.
type Cost = (u64, Vec<(Kind, u64, u64)>);

/// The cost of a change of one of `count` VirtualServices with four proxies of two workloads.
async fn cost(count: usize) -> Cost {
    let rules: String = (0..count).map(|i| ten_routes(i, 5)).collect();
    let all = services(count) + &rules;
    // A file has a thousand documents at most.
    let documents: Vec<&str> = all.split("---\n").filter(|text| !text.is_empty()).collect();
    let mut files = documents.chunks(900).map(|some| some.join("---\n"));
    let mut world = World::start(&files.next().unwrap()).await;
    for file in files {
        world.apply(&file).await;
    }
    let connect = |i: usize| {
        Peer::connect(world.address, node(&format!("svc-{}", i % 2), "foo", i), Variant::Delta)
    };
    // All is there when the last route of the last object is.
    let last = format!("svc-{}.foo.svc.cluster.local:80/r8*", count - 1);
    let scout = connect(0);
    let has_last = |got: &peer::Got| {
        let mut bodies = got.have.get(RDS).into_iter().flat_map(|all| all.values());
        bodies.any(|b| b.windows(last.len()).any(|w| w == last.as_bytes()))
    };
    scout.until("everything", has_last).await;
    let mut peers = vec![scout];
    peers.extend((1..4).map(connect));
    let mut had = Vec::new();
    for peer in &peers {
        had.push(peer.complete().await.updates[RDS].len());
    }
    let (before, revision) = (world.engine.counts(), world.engine.revision());
    let made = world.engine.routes_made();
    world.apply(&ten_routes(7, 9)).await;
    world.refreshed_after(revision).await;
    for (peer, had) in peers.iter().zip(had) {
        peer.until("the new routes", |got| got.updates[RDS].len() == had + 1).await;
    }
    let after = world.engine.counts();
    let all = Kind::ALL.iter().map(|kind| {
        let (a, b) = (after.of(*kind), before.of(*kind));
        (*kind, a.generations - b.generations, a.pushes - b.pushes)
    });
    let all = all.filter(|(_, generated, pushed)| (*generated, *pushed) != (0, 0)).collect();
    (world.engine.routes_made() - made, all)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_costs_the_same_among_ten_and_among_a_thousand() {
    // The two workloads lie in one namespace, so they share the routes: one route configuration, in
    // which the routes of one VirtualService are new and all others are those from before.
    let once = (1, vec![(Kind::Route, 1, 4)]);
    assert_eq!(cost(10).await, once);
    assert_eq!(cost(1000).await, once);
}
