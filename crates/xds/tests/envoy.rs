//! The real Envoy takes what the server sends, in both variants.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "toy/envoy.rs"]
mod envoy;
#[path = "toy/source.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod toy;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use envoy::{Envoy, address, get};
use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::endpoint::v3::ClusterLoadAssignment;
use ironsail_proto::envoy::config::listener::v3::Listener;
use ironsail_proto::envoy::config::route::v3::RouteConfiguration;
use ironsail_proto::{Message, Name, from_json};
use ironsail_xds::server::Connections;
use ironsail_xds::{CDS, EDS, LDS, RDS, Resource, Variant};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toy::{Logged, Server, Toy};

fn resource<M: Name + Default>(name: &str, json: &Value) -> Resource {
    let message: M = from_json(json).unwrap();
    Resource::new(name, message.encode_to_vec())
}

fn cluster(name: &str, timeout: &str) -> Resource {
    let json = json!({
        "name": name, "type": "EDS", "connect_timeout": timeout,
        "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}}
    });
    resource::<Cluster>(name, &json)
}

fn endpoints(name: &str, to: SocketAddr, weight: u32) -> Resource {
    let json = json!({"cluster_name": name, "endpoints": [{"lb_endpoints": [
        {"endpoint": {"address": address(to)}, "load_balancing_weight": weight}
    ]}]});
    resource::<ClusterLoadAssignment>(name, &json)
}

fn listener(name: &str, filter: &str) -> Resource {
    let json = json!({
        "name": name, "address": address("127.0.0.1:0".parse().unwrap()),
        "filter_chains": [{"filters": [{"name": filter, "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "toy",
            "rds": {"route_config_name": "r", "config_source": {"ads": {}, "resource_api_version": "V3"}},
            "http_filters": [{"name": "router", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
            }}]
        }}]}]
    });
    resource::<Listener>(name, &json)
}

/// Valid as a message; Envoy knows no such filter.
fn bad_listener(name: &str) -> Resource {
    let json = json!({
        "name": name, "address": address("127.0.0.1:0".parse().unwrap()),
        "filter_chains": [{"filters": [{"name": "no.such.filter", "typed_config": {
            "@type": "type.googleapis.com/google.protobuf.StringValue", "value": "x"
        }}]}]
    });
    resource::<Listener>(name, &json)
}

fn route(to: &str) -> Resource {
    let json = json!({"name": "r", "virtual_hosts": [{
        "name": "all", "domains": ["*"],
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": to}}]
    }]});
    resource::<RouteConfiguration>("r", &json)
}

/// An HTTP server that says who it is.
async fn backend(name: &'static str) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut io, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while io.read_buf(&mut seen).await.is_ok_and(|n| n > 0) {
                    if seen.ends_with(b"\r\n\r\n") {
                        seen.clear();
                        let answer = format!(
                            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{name}",
                            name.len()
                        );
                        let _ = io.write_all(answer.as_bytes()).await;
                    }
                }
            });
        }
    });
    address
}

/// A server with one listener, route, cluster and endpoint, and an Envoy that has them.
async fn connected(variant: Variant) -> (Toy, Server, Envoy, SocketAddr) {
    let toy = Toy::new();
    toy.put(CDS, [cluster("one", "1s")]);
    toy.put(EDS, [endpoints("one", backend("one").await, 1)]);
    toy.put(LDS, [listener("l", "hcm")]);
    toy.put(RDS, [route("one")]);
    let server = Server::start(&toy, Connections::default()).await;
    let envoy = Envoy::start(server.address, variant).await;
    for type_url in [CDS, EDS, LDS, RDS] {
        toy.accepted(type_url, 1).await;
    }
    let port = wait("the listener", async || envoy.listener("l").await).await;
    let answer = wait("an answer", async || get(port, "/").await.ok().filter(|a| a.0 == 200)).await;
    assert_eq!(answer.1, "one");
    toy.clear();
    (toy, server, envoy, port)
}

/// Asks until there is an answer.
async fn wait<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let end = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < end, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn one_change_sends_one_resource(variant: Variant) {
    let (toy, _server, envoy, port) = connected(variant).await;
    toy.put(EDS, [endpoints("one", backend("other").await, 2)]);
    toy.accepted(EDS, 1).await;
    assert_eq!(toy.sent(), ["ClusterLoadAssignment one"]);
    wait("the new endpoint", async || get(port, "/").await.ok().filter(|a| a.1 == "other")).await;

    toy.clear();
    toy.put(RDS, [Resource::new("r", route_with_header().encode_to_vec())]);
    toy.accepted(RDS, 1).await;
    assert_eq!(toy.sent(), ["RouteConfiguration r"]);

    // A changed cluster is warm at once, because its endpoints come again.
    toy.clear();
    toy.put(CDS, [cluster("one", "2s")]);
    toy.accepted(CDS, 1).await;
    toy.accepted(EDS, 1).await;
    assert_eq!(toy.sent(), ["Cluster one", "ClusterLoadAssignment one"]);
    let timeout =
        async || envoy.active_cluster("one").await.filter(|c| c["connect_timeout"] == "2s");
    wait("the warm cluster", timeout).await;
}

fn route_with_header() -> RouteConfiguration {
    from_json(&json!({"name": "r", "virtual_hosts": [{
        "name": "all", "domains": ["*"],
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "one"}}]
    }], "response_headers_to_add": [{"header": {"key": "x-toy", "value": "1"}}]}))
    .unwrap()
}

async fn a_bad_resource_is_refused_alone(variant: Variant) {
    let (toy, _server, envoy, port) = connected(variant).await;
    toy.put(LDS, [bad_listener("bad"), listener("good", "hcm")]);
    let refused = |logged: &Logged| match logged {
        Logged::Rejected { type_url, message, blamed } => {
            &**type_url == LDS && message.contains("no.such.filter") && *blamed == ["bad".into()]
        }
        _ => false,
    };
    toy.wait("the refusal", |log| log.iter().any(refused)).await;
    wait("the good one", async || envoy.listener("good").await).await;
    assert!(envoy.listener("bad").await.is_none());
    assert_eq!(get(port, "/").await.unwrap().1, "one");
    toy.clear();
    toy.put(LDS, [listener("bad", "hcm")]);
    toy.accepted(LDS, 1).await;
    wait("the mended one", async || envoy.listener("bad").await).await;
}

async fn traffic_moves_without_a_gap(variant: Variant) {
    let (toy, _server, envoy, port) = connected(variant).await;
    let failed = Arc::new(AtomicUsize::new(0));
    let (counter, asked) = (failed.clone(), Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    let traffic = tokio::spawn(async move {
        loop {
            let answer = get(port, "/").await;
            count.fetch_add(1, Ordering::SeqCst);
            if answer.as_ref().map_or(0, |a| a.0) != 200 {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let two = backend("two").await;
    toy.put(EDS, [endpoints("two", two, 1)]);
    // All at once: the new cluster, the route to it, and the old one gone.
    toy.put(CDS, [cluster("two", "1s")]);
    toy.put(RDS, [route("two")]);
    toy.remove(CDS, "one");
    toy.remove(EDS, "one");
    wait("the move", async || get(port, "/").await.ok().filter(|a| a.1 == "two")).await;
    wait("the end of the old cluster", async || match envoy.active_cluster("one").await {
        None => Some(()),
        Some(_) => None,
    })
    .await;
    let seen = asked.load(Ordering::SeqCst);
    wait("more traffic", async || (asked.load(Ordering::SeqCst) > seen + 20).then_some(())).await;
    traffic.abort();
    assert_eq!(failed.load(Ordering::SeqCst), 0, "of {}", asked.load(Ordering::SeqCst));
}

#[tokio::test]
async fn one_change_sends_one_resource_delta() {
    one_change_sends_one_resource(Variant::Delta).await;
}

#[tokio::test]
async fn one_change_sends_one_resource_state_of_the_world() {
    one_change_sends_one_resource(Variant::StateOfTheWorld).await;
}

#[tokio::test]
async fn a_bad_resource_is_refused_alone_delta() {
    a_bad_resource_is_refused_alone(Variant::Delta).await;
}

#[tokio::test]
async fn a_bad_resource_is_refused_alone_state_of_the_world() {
    a_bad_resource_is_refused_alone(Variant::StateOfTheWorld).await;
}

#[tokio::test]
async fn traffic_moves_without_a_gap_delta() {
    traffic_moves_without_a_gap(Variant::Delta).await;
}

#[tokio::test]
async fn traffic_moves_without_a_gap_state_of_the_world() {
    traffic_moves_without_a_gap(Variant::StateOfTheWorld).await;
}

#[tokio::test]
async fn a_new_server_sends_an_envoy_only_what_it_lacks() {
    let (toy, server, envoy, port) = connected(Variant::Delta).await;
    server.drain.start(Duration::from_millis(10));
    server.ended.await.unwrap();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(server.address).unwrap();
    toy.put(RDS, [Resource::new("r", route_with_header().encode_to_vec())]);
    let listener = socket.listen(16).unwrap();
    let _second = Server::start_on(&toy, Connections::default(), listener);
    toy.accepted(RDS, 1).await;
    assert_eq!(toy.sent(), ["RouteConfiguration r"]);
    assert_eq!(get(port, "/").await.unwrap().1, "one");
    drop(envoy);
}
