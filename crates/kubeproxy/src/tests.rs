//! The proxy against an API that the test plays, with a real network in namespaces.

mod api;
mod forwards;
mod rules;

use std::net::SocketAddr;
use std::time::Duration;

use ironsail_podnet::{Netns, Network, NetworkConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::{Config, Names, Proxy};
use api::FakeApi;

struct World {
    api: FakeApi,
    network: Network,
    names: Names,
    _stop: tokio_util::sync::DropGuard,
}

/// A network of so many nodes and a proxy on it.
async fn world(nodes: usize, instance: &str) -> World {
    let api = FakeApi::default();
    let network = Network::create(NetworkConfig::ipv4()).await.unwrap();
    for i in 0..nodes {
        network.add_node(&format!("node-{i}")).await.unwrap();
    }
    let config = Config::of_instance(instance);
    let proxy = Proxy::new(api.client(), network.clone(), config).unwrap();
    let names = proxy.names();
    let stop = CancellationToken::new();
    tokio::spawn(proxy.run(stop.clone()));
    World { api, network, names, _stop: stop.drop_guard() }
}

#[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
fn service(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": "demo", "uid": format!("uid-{name}") },
        "spec": spec,
    })
}

fn slice(service: &str, port: u16, endpoints: &[(&str, &str)]) -> Value {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|(address, node)| json!({ "addresses": [address], "nodeName": node, "conditions": { "ready": true } }))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-abcde"), "namespace": "demo",
            "labels": { "kubernetes.io/service-name": service },
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [
            { "name": "http", "protocol": "TCP", "port": port },
            { "name": "udp", "protocol": "UDP", "port": port },
        ],
    })
}

/// Answers every connection with `name` once the client has said its last word.
async fn serve(netns: &Netns, at: SocketAddr, name: &'static str) -> AbortOnDropHandle<()> {
    let listener = netns.dialer().unwrap().listen(at).await.unwrap();
    AbortOnDropHandle::new(tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut heard = String::new();
                if stream.read_to_string(&mut heard).await.is_ok() {
                    let _ = stream.write_all(format!("{name} heard {heard}").as_bytes()).await;
                }
            });
        }
    }))
}

/// Says "hi", closes its own half, and reads the answer.
async fn converse(mut stream: TcpStream) -> std::io::Result<String> {
    stream.write_all(b"hi").await?;
    stream.shutdown().await?;
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await?;
    if heard.is_empty() { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(heard) }
}

/// Waits until `check` gives something; the test fails after a while.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, check: impl Fn() -> F) -> T {
    let tries = async {
        loop {
            if let Some(found) = check().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    match tokio::time::timeout(Duration::from_secs(20), tries).await {
        Ok(found) => found,
        Err(_) => panic!("never happened: {what}"),
    }
}
