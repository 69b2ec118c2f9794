//! A mesh in memory and peers over real connections: who gets what, and what a change costs.

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

use std::sync::Arc;

use ironsail_discovery::{Kind, SyncStatus};
use ironsail_xds::{CDS, EDS, LDS, RDS, Variant};
use objects::{route, service, services, slice};
use peer::{Peer, node};
use server::{World, until};

const BOTH: [Variant; 2] = [Variant::Delta, Variant::StateOfTheWorld];

/// Waits until every proxy took everything.
async fn settled(world: &World) {
    until("all proxies are in sync", || {
        let connections = world.engine.connections();
        connections.iter().all(|connection| {
            let types = connection.types();
            types.len() >= 4 && types.values().all(|state| state.status() == SyncStatus::Synced)
        })
    })
    .await;
}

#[tokio::test]
async fn a_proxy_gets_clusters_endpoints_listeners_and_routes() {
    for variant in BOTH {
        let world = World::start(&services(3)).await;
        let peer = Peer::connect(world.address, node("svc-0", "foo", 0), variant);
        let got = peer.complete().await;
        let clusters = got.names(CDS);
        assert!(clusters.contains(&"outbound|80||svc-1.foo.svc.cluster.local"), "{clusters:?}");
        assert!(clusters.contains(&"BlackHoleCluster"), "{clusters:?}");
        assert_eq!(got.names(EDS).len(), 3);
        assert!(got.names(LDS).contains(&"virtualOutbound"));
        assert_eq!(got.names(RDS), ["80"]);
        settled(&world).await;
    }
}

#[tokio::test]
async fn one_endpoint_change_sends_only_its_load_assignment() {
    for variant in BOTH {
        let mut world = World::start(&services(20)).await;
        let peers: Vec<Peer> = (0..6)
            .map(|i| {
                Peer::connect(world.address, node(&format!("svc-{}", i % 2), "foo", i), variant)
            })
            .collect();
        for peer in &peers {
            peer.complete().await;
        }
        settled(&world).await;
        let (before, revision) = (world.engine.counts(), world.engine.revision());
        world.apply(&slice("svc-7", "foo", &["10.9.9.9"])).await;
        world.refreshed_after(revision).await;
        let name = "outbound|80||svc-7.foo.svc.cluster.local";
        for peer in &peers {
            let has = |got: &peer::Got| got.updates[EDS].last() == Some(&vec![name.to_owned()]);
            peer.until("the new endpoint", has).await;
        }
        settled(&world).await;
        let after = world.engine.counts();
        for kind in Kind::ALL {
            let (a, b) = (after.of(kind), before.of(kind));
            let (generated, pushed) = (a.generations - b.generations, a.pushes - b.pushes);
            match kind {
                // Two workloads, one place: they share it.
                Kind::Endpoint => assert_eq!((generated, pushed), (1, 6)),
                _ => assert_eq!((generated, pushed), (0, 0), "{kind}"),
            }
        }
        assert_eq!(after.of(Kind::Endpoint).resources - before.of(Kind::Endpoint).resources, 6);
    }
}

#[tokio::test]
async fn one_route_change_sends_only_the_route() {
    let yaml = services(10) + &route("svc-3", "foo", 5);
    let mut world = World::start(&yaml).await;
    let peer = Peer::connect(world.address, node("svc-0", "foo", 0), Variant::Delta);
    peer.complete().await;
    settled(&world).await;
    let (before, revision) = (world.engine.counts(), world.engine.revision());
    world.apply(&route("svc-3", "foo", 9)).await;
    world.refreshed_after(revision).await;
    peer.until("the new route", |got| got.updates[RDS].len() == 2).await;
    settled(&world).await;
    let after = world.engine.counts();
    for kind in Kind::ALL {
        let made = after.of(kind).generations - before.of(kind).generations;
        assert_eq!(made, u64::from(kind == Kind::Route), "{kind}");
    }
    assert_eq!(after.pushes() - before.pushes(), 1);
}

#[tokio::test]
async fn generations_grow_with_workloads_not_with_proxies() {
    let generated = |proxies: usize| async move {
        let world = World::start(&services(10)).await;
        let peers: Vec<Peer> = (0..proxies)
            .map(|i| Peer::connect(world.address, node("svc-0", "foo", i), Variant::Delta))
            .collect();
        for peer in &peers {
            peer.complete().await;
        }
        assert_eq!(world.engine.sizes().classes, 1);
        world.engine.counts().generations()
    };
    assert_eq!(generated(1).await, generated(25).await);
}

#[tokio::test]
async fn another_workload_costs_only_what_is_its_own() {
    let world = World::start(&services(10)).await;
    let first = Peer::connect(world.address, node("svc-0", "foo", 0), Variant::Delta);
    first.complete().await;
    let before = world.engine.counts();
    let other = Peer::connect(world.address, node("svc-1", "foo", 1), Variant::Delta);
    other.complete().await;
    let far = Peer::connect(world.address, node("curl", "bar", 2), Variant::Delta);
    far.complete().await;
    let after = world.engine.counts();
    for kind in Kind::ALL {
        let made = after.of(kind).generations - before.of(kind).generations;
        println!("{kind}: {made} of {}", after.of(kind).generations);
        let own = match kind {
            // The port that each serves.
            Kind::Cluster => 1,
            // virtualInbound of both.
            Kind::Listener => 2,
            // Short names are those of a namespace.
            Kind::Route => 1,
            _ => 0,
        };
        assert!(made <= own, "{kind}: {made}");
    }
}

#[tokio::test]
async fn a_new_service_comes_and_goes() {
    for variant in BOTH {
        let mut world = World::start(&services(2)).await;
        let peer = Peer::connect(world.address, node("svc-0", "foo", 0), variant);
        peer.complete().await;
        world.apply(&service("late", "foo", 100, &["10.7.7.7"])).await;
        let name = "outbound|80||late.foo.svc.cluster.local";
        let came =
            |got: &peer::Got| got.names(CDS).contains(&name) && got.names(EDS).contains(&name);
        peer.until("the new service", came).await;
        let key = ironsail_api::ObjectKey {
            cluster: "Kubernetes".into(),
            kind: ironsail_api::Kind::Service,
            namespace: "foo".into(),
            name: "late".into(),
        };
        world.memory.delete(&key).await.unwrap();
        peer.until("the service goes", |got| !got.names(CDS).contains(&name)).await;
    }
}

#[tokio::test]
async fn a_refusal_is_kept_with_its_reason_and_object() {
    let yaml = services(2) + &route("svc-1", "foo", 5);
    let world = World::start(&yaml).await;
    let refuse_routes: peer::Judge = Arc::new(|update| match &*update.type_url {
        RDS => Err("80: a test does not like it".into()),
        _ => Ok(()),
    });
    let peer = Peer::judging(world.address, node("svc-0", "foo", 0), Variant::Delta, refuse_routes);
    until("the refusal", || world.engine.counts().of(Kind::Route).rejected > 0).await;
    let connection = world.engine.connection("svc-0-0.foo").unwrap();
    let state = connection.types()[RDS].clone();
    assert_eq!(state.status(), SyncStatus::Error);
    let nack = state.nack.unwrap();
    assert_eq!(nack.rejection.message, "80: a test does not like it");
    assert_eq!(nack.rejection.resources, ["80".into()]);
    let object = "/namespaces/foo/virtual-service/svc-1";
    assert!(nack.objects.iter().any(|o| o.ends_with(object)), "{:?}", nack.objects);
    drop(peer);
}

#[tokio::test]
async fn a_control_plane_that_starts_fetches_keys_before_it_speaks() {
    let rule = "{apiVersion: security.istio.io/v1, kind: RequestAuthentication, metadata: {name: a, namespace: foo},
        spec: {jwtRules: [{issuer: me, jwksUri: 'https://keys.example.com/all'}]}}";
    let world = World::start(&format!("{}\n---\n{rule}", services(1))).await;
    let keys = world.engine.keys();
    let peer = Peer::connect(world.address, node("svc-0", "foo", 0), Variant::Delta);
    until("the proxy is there", || world.discovery.streams() == 1).await;
    let source = ironsail_model::KeySource::Uri("https://keys.example.com/all".into());
    let found = ironsail_model::Fetched::Keys(r#"{"keys":[{"kid":"first"}]}"#.into());
    keys.send((source, Some(found))).await.unwrap();
    let got = peer.complete().await;
    let listener = &got.have[LDS]["virtualInbound"];
    assert!(listener.windows(5).any(|word| word == b"first"));
    assert_eq!(got.updates[LDS].len(), 1, "{:?}", got.updates);
}
