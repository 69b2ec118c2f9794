//! Clients that are there, and clients that only seem to be.

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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toy::{Server, Toy, until};

#[tokio::test]
async fn a_client_that_vanished_is_noticed() {
    let toy = Toy::new();
    toy.put(CDS, [Resource::new("a", "x")]);
    let settings = Connections {
        keepalive_interval: Duration::from_millis(50),
        keepalive_timeout: Duration::from_millis(50),
        ..Connections::default()
    };
    let server = Server::start(&toy, settings).await;
    let client = deaf::client(&server).await;
    until("the stream is open", || server.discovery.streams() == 1).await;
    let mut frozen = tokio::net::TcpStream::connect(server.address).await.unwrap();
    // Preface, empty SETTINGS, and then nothing any more, not even answers to pings.
    frozen.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut said = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(10), frozen.read_to_end(&mut said)).await;
    assert!(closed.is_ok(), "the connection is still open");
    assert_eq!(server.discovery.streams(), 1);
    drop(client);
}

/// A client sends its first request before it knows how much the server allows. Whatever the size of
/// that request, it must be able to go on.
#[tokio::test]
async fn a_client_that_hears_late_what_it_may_send_goes_on() {
    for size in [100, 8_000, 20_000, 40_000, 60_000, 200_000] {
        let toy = Toy::new();
        toy.put(CDS, [Resource::new("a", "x")]);
        let server = Server::start(&toy, Connections::default()).await;
        let between = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = between.local_addr().unwrap();
        let (heard, waits) = tokio::sync::oneshot::channel();
        let behind = server.address;
        // Carries at once what the client says, and what the server says only when it is time.
        let way = tokio::spawn(async move {
            let (mut client, _) = between.accept().await.unwrap();
            let mut server = tokio::net::TcpStream::connect(behind).await.unwrap();
            let (mut from_client, mut to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            let up = tokio::io::copy(&mut from_client, &mut to_server);
            let down = async {
                let _ = waits.await;
                tokio::io::copy(&mut from_server, &mut to_client).await
            };
            let _ = tokio::join!(up, down);
        });
        let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
        let node = Node { id: "x".repeat(size), ..Node::default() };
        let (client, mut events) = Client::start(
            channel.unwrap().connect_lazy(),
            node,
            Variant::Delta,
            Backoff::default(),
        );
        client.subscribe_all(CDS).await;
        if size < 65_000 {
            until("the first request is read", || toy.feeds() == 1).await;
        }
        heard.send(()).unwrap();
        let answers = async {
            loop {
                if let Event::Update(pending) = events.recv().await.unwrap() {
                    return pending.accept();
                }
            }
        };
        let answered = tokio::time::timeout(Duration::from_secs(20), answers).await;
        assert!(answered.is_ok(), "no answer to a first request of {size} bytes");
        toy.accepted(CDS, 1).await;
        way.abort();
    }
}
