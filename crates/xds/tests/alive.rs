//! Clients that are there, and clients that only seem to be.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "toy/deaf.rs"]
mod deaf;
#[path = "toy/source.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod toy;

use std::time::Duration;

use ironsail_xds::server::Connections;
use ironsail_xds::{CDS, Resource};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toy::{Server, Toy, until};

#[tokio::test]
async fn a_client_that_vanished_is_noticed() {
    let toy = Toy::new();
    toy.put(CDS, [Resource::new("a", "x")]);
    let settings = Connections {
        keepalive_interval: Duration::from_millis(100),
        // Long enough for a busy machine to answer for the one that is there.
        keepalive_timeout: Duration::from_secs(3),
        ..Connections::default()
    };
    let server = Server::start(&toy, settings).await;
    let client = deaf::client(&server).await;
    until("the stream is open", || server.discovery.streams() == 1).await;
    let mut frozen = tokio::net::TcpStream::connect(server.address).await.unwrap();
    // Preface, empty SETTINGS, and then nothing any more, not even answers to pings.
    frozen.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut said = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(60), frozen.read_to_end(&mut said)).await;
    assert!(closed.is_ok(), "the connection is still open");
    assert_eq!(server.discovery.streams(), 1);
    drop(client);
}
