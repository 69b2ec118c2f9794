//! A running Envoy takes clusters and load assignments, uses them, and follows one endpoint alone.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;
#[path = "../../xds/tests/toy/envoy.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod envoy;
#[path = "../../xds/tests/toy/source.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod toy;

use std::net::SocketAddr;
use std::time::Duration;

use envoy::{Envoy, address, get};
use ironsail_api::ClusterId;
use ironsail_model::{Proxy, Scope};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::config::listener::v3::Listener;
use ironsail_proto::{Message, from_json};
use ironsail_translate::{cluster, endpoint};
use ironsail_xds::server::Connections;
use ironsail_xds::{CDS, EDS, LDS, Resource, Variant};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toy::{Server, Toy};

const BY_ENDPOINT: &str = "outbound|80||app.foo.svc.cluster.local";
const BY_NAME: &str = "outbound|80||name.example.com";

/// A Service whose endpoint is `to`, and a name that DNS leads to `named`.
fn objects(to: SocketAddr, named: SocketAddr) -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "app", "namespace": "foo"},
            "spec": {"clusterIP": "10.96.0.10", "ports": [{"name": "http", "port": 80}]}
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "app-x", "namespace": "foo",
                "labels": {"kubernetes.io/service-name": "app"}},
            "ports": [{"name": "http", "port": to.port(), "protocol": "TCP"}],
            "endpoints": [{"addresses": [to.ip().to_string()], "conditions": {"ready": true}}]
        }),
        json!({
            "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": "name", "namespace": "foo"},
            "spec": {"hosts": ["name.example.com"], "location": "MESH_EXTERNAL", "resolution": "DNS",
                "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
                "endpoints": [{"address": "localhost", "ports": {"http": named.port()}}]}
        }),
    ]
}

fn put(toy: &Toy, objects: &[Value]) {
    let snapshot = case::snapshot(objects);
    let node = json!({
        "id": "sidecar~127.0.0.99~toy.foo~foo.svc.cluster.local", "cluster": "toy.foo",
        "metadata": {"NAMESPACE": "foo", "CLUSTER_ID": "Kubernetes", "LABELS": {"app": "toy"}}
    });
    let node: Node = from_json(&node).unwrap();
    let proxy = Proxy::parse(&node, &ClusterId::from("Kubernetes")).unwrap();
    let class = snapshot.class_of(&proxy);
    let scope = Scope::of(&snapshot, &class);
    let clusters = cluster::views(&snapshot, &scope, &class);
    // Without an agent there are no certificates; these two need none.
    let wanted = clusters.iter().filter(|v| v.name() != BY_ENDPOINT);
    toy.put(
        CDS,
        wanted.map(|v| Resource::new(&*v.name(), cluster::translate(v).value.encode_to_vec())),
    );
    let plain = clusters.iter().find(|v| v.name() == BY_ENDPOINT).unwrap();
    let mut plain = cluster::translate(plain).value;
    plain.transport_socket_matches.retain(|m| m.name == "tlsMode-disabled");
    assert_eq!(plain.transport_socket_matches.len(), 1);
    toy.put(CDS, [Resource::new(BY_ENDPOINT, plain.encode_to_vec())]);
    for view in endpoint::views(&snapshot, &scope, &class) {
        let bytes = endpoint::translate(&view).value.encode_to_vec();
        toy.put(EDS, [Resource::new(&*view.name.to_string(), bytes)]);
    }
}

fn listener(name: &str, cluster: &str) -> Resource {
    let json = json!({
        "name": name, "address": address("127.0.0.1:0".parse().unwrap()),
        "filter_chains": [{"filters": [{"name": "tcp", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
            "stat_prefix": name, "cluster": cluster
        }}]}]
    });
    let listener: Listener = from_json(&json).unwrap();
    Resource::new(name, listener.encode_to_vec())
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
                while !seen.ends_with(b"\r\n\r\n")
                    && io.read_buf(&mut seen).await.is_ok_and(|n| n > 0)
                {}
                let length = name.len();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{name}");
                let _ = io.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}

async fn answers(at: SocketAddr, wanted: &str) {
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let found = get(at, "/").await;
        if found.as_ref().is_ok_and(|(_, body)| body == wanted) {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "{wanted} wanted, last was {found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_uses_clusters_and_follows_endpoints() {
    let (one, two, named) = (backend("one").await, backend("two").await, backend("named").await);
    let toy = Toy::new();
    put(&toy, &objects(one, named));
    toy.put(LDS, [listener("endpoint", BY_ENDPOINT), listener("name", BY_NAME)]);
    let server = Server::start(&toy, Connections::default()).await;
    let envoy = Envoy::start(server.address, Variant::Delta).await;
    toy.accepted(LDS, 1).await;
    toy.accepted(EDS, 1).await;
    let place = async |name: &str| loop {
        if let Some(found) = envoy.listener(name).await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let (by_endpoint, by_name) = (place("endpoint").await, place("name").await);
    answers(by_endpoint, "one").await;
    answers(by_name, "named").await;

    toy.clear();
    put(&toy, &objects(two, named));
    toy.accepted(EDS, 1).await;
    answers(by_endpoint, "two").await;
    assert_eq!(toy.sent(), [format!("ClusterLoadAssignment {BY_ENDPOINT}")]);
    assert!(
        toy.log().iter().all(|l| !matches!(l, toy::Logged::Rejected { .. })),
        "{:?}",
        toy.log()
    );
}
