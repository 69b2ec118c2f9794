//! Many proxies that come, go and come back; one that does not read.

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
use std::time::Duration;

use ironsail_discovery::{Plaintext, SyncStatus};
use ironsail_proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use ironsail_proto::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use ironsail_xds::client::{ClientSession, Outgoing};
use ironsail_xds::{CDS, EDS, LDS, Variant};
use objects::{services, slice};
use peer::{Peer, node};
use server::{World, settings, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_all_are_back_and_nothing_is_sent_again() {
    const PEERS: usize = 200;
    let yaml = services(30);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let world = World::start_on(listener, &yaml, settings(), Arc::new(Plaintext)).await;
    let peers: Vec<Peer> = (0..PEERS)
        .map(|i| Peer::connect(address, node(&format!("svc-{}", i % 10), "foo", i), Variant::Delta))
        .collect();
    for peer in &peers {
        peer.complete().await;
    }
    world.stop().await;
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let world = World::start_on(listener, &yaml, settings(), Arc::new(Plaintext)).await;
    until("all are back and have everything", || {
        let connections = world.engine.connections();
        connections.len() == PEERS && connections.iter().all(|c| c.types().len() >= 4)
    })
    .await;
    for peer in &peers {
        peer.until("it connects again", |got| got.connects >= 2).await;
    }
    // What would be sent again is sent by now, or goes out before this change.
    let mut world = world;
    world.apply(&slice("svc-3", "foo", &["10.8.8.8"])).await;
    for peer in &peers {
        let one = vec!["outbound|80||svc-3.foo.svc.cluster.local".to_owned()];
        peer.until("the change", |got| got.updates[EDS].last() == Some(&one)).await;
    }
    let counts = world.engine.counts();
    let sent: u64 = ironsail_discovery::Kind::ALL.iter().map(|k| counts.of(*k).resources).sum();
    assert_eq!(sent, PEERS as u64, "only the change was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_connections_leave_nothing_behind() {
    const ROUNDS: usize = 25;
    const AT_ONCE: usize = 200;
    let world = World::start(&services(5)).await;
    for round in 0..ROUNDS {
        let peers: Vec<Peer> = (0..AT_ONCE)
            .map(|i| {
                let app = format!("svc-{}-{}", round, i % 40);
                Peer::connect(world.address, node(&app, "foo", i), Variant::Delta)
            })
            .collect();
        for peer in &peers {
            peer.until("clusters", |got| got.have.contains_key(CDS)).await;
        }
    }
    until("all are gone", || {
        let sizes = world.engine.sizes();
        world.discovery.streams() == 0
            && (sizes.connections, sizes.classes, sizes.resources, sizes.sets) == (0, 0, 0, 0)
    })
    .await;
    assert_eq!(world.engine.counts().streams, (ROUNDS * AT_ONCE) as u64);
}

#[tokio::test]
async fn newcomers_take_turns_and_all_get_theirs() {
    let one_by_one = ironsail_discovery::Settings { newcomers: 2, ..settings() };
    let world = World::start_with(&services(5), one_by_one, Arc::new(Plaintext)).await;
    let silent = deaf(world.channel()).await;
    let peers: Vec<Peer> = (0..30)
        .map(|i| Peer::connect(world.address, node("svc-0", "foo", i), Variant::Delta))
        .collect();
    for peer in &peers {
        peer.complete().await;
    }
    drop(silent);
}

/// A stream that asks for everything and then never reads.
async fn deaf(channel: tonic::transport::Channel) -> impl Sized {
    let mut session = ClientSession::new(Variant::Delta, node("svc-0", "foo", 999));
    for type_url in [CDS, LDS] {
        session.subscribe_all(&type_url.into());
    }
    let (send, queue) = tokio::sync::mpsc::channel::<DeltaDiscoveryRequest>(8);
    for request in session.connect() {
        if let Outgoing::Delta(request) = request {
            send.send(request).await.unwrap();
        }
    }
    let mut client = AggregatedDiscoveryServiceClient::new(channel);
    let requests = tokio_stream::wrappers::ReceiverStream::new(queue);
    let stream = client.delta_aggregated_resources(requests).await.unwrap();
    (send, stream)
}

#[tokio::test]
async fn who_does_not_read_holds_up_nobody() {
    let mut world = World::start(&services(50)).await;
    let silent = deaf(world.channel()).await;
    let peer = Peer::connect(world.address, node("svc-0", "foo", 1), Variant::Delta);
    peer.complete().await;
    for i in 0..20_u8 {
        let ip = format!("10.5.5.{}", i + 1);
        world.apply(&slice("svc-2", "foo", &[&ip])).await;
        let name = "outbound|80||svc-2.foo.svc.cluster.local";
        let has = |got: &peer::Got| {
            let body = got.have[EDS].get(name);
            body.is_some_and(|b| b.windows(ip.len()).any(|w| w == ip.as_bytes()))
        };
        tokio::time::timeout(Duration::from_secs(10), peer.until("the change", has)).await.unwrap();
    }
    let mute = world.engine.connection("svc-0-999.foo").unwrap();
    assert_eq!(mute.types()[CDS].status(), SyncStatus::Stale);
    assert!(mute.types()[CDS].pushes <= 1, "one response waits at most");
    drop(silent);
}
