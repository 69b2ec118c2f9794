//! The server and the client over real connections.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "toy/source.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod toy;

use std::time::Duration;

use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_xds::client::{Backoff, Client, Event};
use ironsail_xds::server::Connections;
use ironsail_xds::{CDS, EDS, Resource, Variant};
use tokio::sync::mpsc;
use toy::{Logged, Server, Toy, until};

const BOTH: [Variant; 2] = [Variant::Delta, Variant::StateOfTheWorld];

/// A resource as Envoy's are: the first field is the name.
fn resource(name: &str, content: &str) -> Resource {
    let length = u8::try_from(name.len()).unwrap();
    let rest = content.as_bytes();
    let body = [&[0x0a, length], name.as_bytes(), &[0x12, u8::try_from(rest.len()).unwrap()], rest];
    Resource::new(name, body.concat())
}

fn node(id: &str) -> Node {
    Node { id: id.into(), ..Default::default() }
}

fn quick() -> Backoff {
    Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(50) }
}

/// The next update, accepted, as `+name -removed`; connections come and go.
async fn accept(events: &mut mpsc::Receiver<Event>) -> String {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(30), events.recv()).await;
        if let Event::Update(pending) = event.expect("an event in time").expect("a live client") {
            let put = pending.update.put.iter().map(|r| format!("+{}", r.name));
            let removed = pending.update.removed.iter().map(|n| format!("-{n}"));
            let said: Vec<String> = put.chain(removed).collect();
            pending.accept();
            return said.join(" ");
        }
    }
}

#[tokio::test]
async fn a_client_gets_what_it_asks_for_and_what_changes() {
    for variant in BOTH {
        let toy = Toy::new();
        toy.put(CDS, [resource("a", "1"), resource("b", "1")]);
        toy.put(EDS, [resource("a", "1"), resource("b", "1"), resource("c", "1")]);
        let server = Server::start(&toy, Connections::default()).await;
        let (client, mut events) = Client::start(server.channel(), node("n"), variant, quick());
        client.subscribe_all(CDS).await;
        assert_eq!(accept(&mut events).await, "+a +b");
        client.subscribe(EDS, ["a", "b"]).await;
        assert_eq!(accept(&mut events).await, "+a +b");
        toy.accepted(EDS, 1).await;
        toy.clear();
        toy.put(EDS, [resource("a", "2"), resource("c", "2")]);
        assert_eq!(accept(&mut events).await, "+a");
        toy.accepted(EDS, 1).await;
        assert_eq!(toy.sent(), ["ClusterLoadAssignment a"]);
        toy.remove(CDS, "b");
        let gone = if variant == Variant::Delta { "-b" } else { "+a -b" };
        assert_eq!(accept(&mut events).await, gone);
        toy.accepted(CDS, 1).await;
        drop((client, events));
        until("the stream ends", || server.discovery.streams() == 0 && toy.feeds() == 0).await;
    }
}

#[tokio::test]
async fn a_refusal_is_reported_with_its_reason() {
    for variant in BOTH {
        let toy = Toy::new();
        toy.put(CDS, [resource("good", "1"), resource("bad", "1")]);
        let server = Server::start(&toy, Connections::default()).await;
        let (client, mut events) = Client::start(server.channel(), node("n"), variant, quick());
        client.subscribe_all(CDS).await;
        loop {
            match events.recv().await.unwrap() {
                Event::Update(pending) => break pending.reject("cluster bad: no such thing"),
                Event::Connected | Event::Disconnected(_) => {}
            }
        }
        let expected = Logged::Rejected {
            type_url: CDS.into(),
            message: "cluster bad: no such thing".into(),
            blamed: vec!["bad".into()],
        };
        toy.wait("the refusal", |log| log.contains(&expected)).await;
    }
}

#[tokio::test]
async fn an_old_connection_ends_and_nothing_is_sent_again() {
    let toy = Toy::new();
    toy.put(CDS, [resource("a", "1"), resource("b", "1")]);
    toy.put(EDS, [resource("a", "1")]);
    let age = Connections { max_age: Some(Duration::from_millis(100)), ..Connections::default() };
    let server = Server::start(&toy, age).await;
    let (client, mut events) = Client::start(server.channel(), node("n"), Variant::Delta, quick());
    client.subscribe_all(CDS).await;
    client.subscribe(EDS, ["a"]).await;
    accept(&mut events).await;
    accept(&mut events).await;
    toy.accepted(EDS, 1).await;
    toy.accepted(CDS, 1).await;
    toy.clear();
    let mut connected = 0;
    while connected < 3 {
        match events.recv().await.unwrap() {
            Event::Connected => connected += 1,
            Event::Disconnected(status) => assert_eq!(status.code(), tonic::Code::Ok, "{status}"),
            Event::Update(pending) => panic!("{:?}", pending.update),
        }
    }
    toy.put(CDS, [resource("b", "2")]);
    assert_eq!(accept(&mut events).await, "+b");
    assert_eq!(toy.sent(), ["Cluster b"]);
}

#[tokio::test]
async fn a_new_server_sends_nothing_that_a_client_has() {
    let toy = Toy::new();
    toy.put(CDS, [resource("a", "1"), resource("b", "1")]);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let first = Server::start_on(&toy, Connections::default(), listener);
    let (client, mut events) = Client::start(first.channel(), node("n"), Variant::Delta, quick());
    client.subscribe_all(CDS).await;
    accept(&mut events).await;
    toy.accepted(CDS, 1).await;
    first.drain.start(Duration::from_millis(50));
    first.ended.await.unwrap();
    toy.clear();
    toy.put(CDS, [resource("b", "2")]);
    // The client tries in vain until the next server is there.
    let listener = tokio::net::TcpSocket::new_v4().unwrap();
    listener.set_reuseaddr(true).unwrap();
    listener.bind(address).unwrap();
    let _second = Server::start_on(&toy, Connections::default(), listener.listen(16).unwrap());
    assert_eq!(accept(&mut events).await, "+b");
    assert_eq!(toy.sent(), ["Cluster b"]);
    drop(client);
}

#[tokio::test]
async fn a_caller_without_a_name_and_a_stranger_are_refused() {
    let toy = Toy::new();
    let server = Server::start(&toy, Connections::default()).await;
    let (client, mut events) =
        Client::start(server.channel(), node("stranger"), Variant::Delta, quick());
    client.subscribe_all(CDS).await;
    let refused = async {
        loop {
            if let Event::Disconnected(status) = events.recv().await.unwrap() {
                return status;
            }
        }
    };
    let status = tokio::time::timeout(Duration::from_secs(10), refused).await.unwrap();
    assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
    use ironsail_proto::envoy::service::discovery::v3 as discovery;
    type Raw = discovery::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient<
        tonic::transport::Channel,
    >;
    let mut raw = Raw::new(server.channel());
    let request = discovery::DiscoveryRequest { type_url: CDS.into(), ..Default::default() };
    let mut stream = raw
        .stream_aggregated_resources(futures::stream::iter([request]))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(stream.message().await.unwrap_err().code(), tonic::Code::InvalidArgument);
    assert_eq!(toy.feeds(), 0);
}

#[test]
fn a_server_that_was_held_up_does_not_end_connections_that_answered() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let toy = Toy::new();
    let quickly = Duration::from_millis(40);
    let connections = Connections {
        keepalive_interval: quickly,
        keepalive_timeout: quickly,
        ..Connections::default()
    };
    let server = runtime.block_on(Server::start(&toy, connections));
    let address = server.address;
    toy.put(CDS, [resource("a", "1")]);
    // The client has a thread of its own, and answers pings whatever the server does.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let uri = format!("http://{address}");
            let channel = tonic::transport::Endpoint::from_shared(uri).unwrap().connect_lazy();
            let (client, mut events) = Client::start(channel, node("n"), Variant::Delta, quick());
            client.subscribe_all(CDS).await;
            while let Some(event) = events.recv().await {
                let ended = matches!(event, Event::Disconnected(_));
                if let Event::Update(pending) = event {
                    pending.accept();
                }
                let _ = tell.send(ended);
            }
        });
    });
    runtime.block_on(async {
        until("the client is there", || toy.feeds() == 1).await;
        for _ in 0..10 {
            // A ping goes out in this time, and its answer comes in the next.
            tokio::time::sleep(quickly * 3 / 2).await;
            std::thread::sleep(quickly * 3);
        }
        tokio::time::sleep(quickly).await;
    });
    drop(server);
    assert!(!told.try_iter().any(|ended| ended), "the connection was ended");
}
