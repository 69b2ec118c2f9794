//! Clients that do not read, alone in their process so that its memory tells something.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "toy/deaf.rs"]
mod deaf;
#[path = "toy/source.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod toy;

use std::time::Duration;

use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_xds::client::{Backoff, Client, Event};
use ironsail_xds::server::Connections;
use ironsail_xds::{CDS, Resource, Variant};
use toy::{Server, Toy, until};

fn resident_kilobytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn clients_that_never_read_cost_little_and_slow_nobody() {
    let toy = Toy::new();
    // 20 MB; every deaf client is sent all of it.
    let body = vec![7_u8; 40_000];
    toy.put(CDS, (0..500).map(|i| Resource::new(format!("c{i}"), body.clone())));
    let server = Server::start(&toy, Connections::default()).await;
    let (client, mut events) =
        Client::start(server.channel(), Node::default(), Variant::Delta, Backoff::default());
    client.subscribe_all(CDS).await;
    let mut next = async || loop {
        let event = tokio::time::timeout(Duration::from_secs(20), events.recv()).await;
        if let Event::Update(pending) = event.expect("not slowed down").unwrap() {
            let count = pending.update.put.len();
            pending.accept();
            return count;
        }
    };
    assert_eq!(next().await, 500);
    let before = resident_kilobytes();
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(deaf::client(&server).await);
    }
    until("all are there", || server.discovery.streams() == 101).await;
    for i in 0..50_u8 {
        toy.put(CDS, [Resource::new("c0", vec![i; 40_000])]);
        assert_eq!(next().await, 1);
    }
    let grown = resident_kilobytes().saturating_sub(before);
    // A copy of what each was sent would be 2 GB. Windows and kernel buffers are part of this.
    assert!(grown < 60_000, "{grown} kB for 100 clients");
    println!("{grown} kB for 100 clients that do not read");
    drop(clients);
    until("they are gone", || server.discovery.streams() == 1).await;
}
