//! Many connections.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "toy/source.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod toy;

use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_xds::client::{Backoff, Client, Event};
use ironsail_xds::server::Connections;
use ironsail_xds::{CDS, EDS, Resource, Variant};
use toy::{Server, Toy, until};

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn five_thousand_connections_leave_nothing_behind() {
    let toy = Toy::new();
    toy.put(CDS, (0..20).map(|i| Resource::new(format!("c{i}"), "x")));
    toy.put(EDS, (0..20).map(|i| Resource::new(format!("c{i}"), "x")));
    let server = Server::start(&toy, Connections::default()).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let files = open_files();
    for round in 0..50 {
        let mut clients = Vec::new();
        for i in 0..100 {
            let variant = if i % 2 == 0 { Variant::Delta } else { Variant::StateOfTheWorld };
            let node = Node { id: format!("{round}-{i}"), ..Default::default() };
            let (client, events) =
                Client::start(server.channel(), node, variant, Backoff::default());
            client.subscribe_all(CDS).await;
            // Every client has its own names, so that nothing is shared by chance.
            client.subscribe(EDS, [format!("c{}", i % 20).as_str(), &format!("{round}-{i}")]).await;
            clients.push((client, events));
        }
        for (i, (_, events)) in clients.iter_mut().enumerate() {
            // A third leaves before, a third while, a third after it was sent something.
            if i % 3 == 0 {
                continue;
            }
            let pending = loop {
                if let Some(Event::Update(pending)) = events.recv().await {
                    break pending;
                }
            };
            if i % 3 == 2 {
                pending.accept();
            }
        }
    }
    until("streams end", || server.discovery.streams() == 0).await;
    assert_eq!((toy.feeds(), server.discovery.subscribed_sets()), (0, 0));
    let metrics = tokio::runtime::Handle::current().metrics();
    until("tasks end", || metrics.num_alive_tasks() <= tasks).await;
    until("connections close", || open_files() <= files).await;
}
