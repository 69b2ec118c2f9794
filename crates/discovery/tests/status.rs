//! What can be asked about proxies and objects: over discovery itself, by client status, and who may.

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

use futures::future::BoxFuture;
use ironsail_discovery::{Authenticate, DEBUG, DEBUG_CONFIG_DUMP, DEBUG_SYNCZ, Identity, Settings};
use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use ironsail_proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use ironsail_proto::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
use ironsail_proto::envoy::service::status::v3::{ClientConfig, ClientStatusRequest, ConfigStatus};
use ironsail_xds::{CDS, Variant};
use objects::services;
use peer::{Peer, node};
use server::{World, settings, until};
use tonic::{Code, Request, Status};

/// The header says who calls; nothing in it is proven, which is enough for a test.
struct ByHeader;

impl Authenticate for ByHeader {
    fn authenticate<'a>(
        &'a self,
        headers: &'a http::HeaderMap,
        _: &'a http::Extensions,
    ) -> BoxFuture<'a, Result<Option<Identity>, Status>> {
        let said = headers.get("x-test-identity").and_then(|v| v.to_str().ok());
        let identity = said.map(|text| Identity(text.parse().unwrap()));
        Box::pin(std::future::ready(match identity {
            Some(identity) => Ok(Some(identity)),
            None => Err(Status::unauthenticated("nobody")),
        }))
    }
}

fn identity(namespace: &str, account: &str) -> String {
    format!("spiffe://cluster.local/ns/{namespace}/sa/{account}")
}

/// The first response to one request of the state of the world.
async fn ask(
    world: &World,
    who: &str,
    node: Node,
    type_url: &str,
    names: &[&str],
) -> Result<DiscoveryResponse, Status> {
    let request = DiscoveryRequest {
        node: Some(node),
        type_url: type_url.into(),
        resource_names: names.iter().map(|n| (*n).to_owned()).collect(),
        ..Default::default()
    };
    let (send, queue) = tokio::sync::mpsc::channel(1);
    send.send(request).await.unwrap();
    let requests = tokio_stream::wrappers::ReceiverStream::new(queue);
    let mut call = Request::new(requests);
    call.metadata_mut().insert("x-test-identity", who.parse().unwrap());
    let mut client = AggregatedDiscoveryServiceClient::new(world.channel());
    let mut stream = client.stream_aggregated_resources(call).await?.into_inner();
    stream.message().await.map(|message| message.unwrap())
}

fn istioctl() -> Node {
    Node { id: "debug~0.0.0.0~istioctl~cluster.local".into(), ..Node::default() }
}

#[tokio::test]
async fn istioctl_sees_where_every_proxy_stands() {
    let world = World::start(&services(3)).await;
    let peer = Peer::connect(world.address, node("svc-0", "foo", 0), Variant::Delta);
    peer.complete().await;
    let in_sync = |c: &Arc<ironsail_discovery::Connection>| {
        c.types().values().all(|t| t.status() == ironsail_discovery::SyncStatus::Synced)
    };
    until("all is taken", || world.engine.connections().iter().all(in_sync)).await;
    let all = ask(&world, "spiffe://c/ns/a/sa/b", istioctl(), DEBUG_SYNCZ, &[]).await.unwrap();
    assert_eq!(all.resources.len(), 1);
    assert!(all.resources[0].type_url.ends_with("envoy.service.status.v3.ClientConfig"));
    let config = ClientConfig::decode(all.resources[0].value.clone()).unwrap();
    assert_eq!(config.node.unwrap().id, "svc-0-0.foo");
    let clusters = config.generic_xds_configs.iter().find(|c| c.type_url == CDS).unwrap();
    assert_eq!(clusters.config_status, i32::from(ConfigStatus::Synced));
    let dump = ask(&world, "spiffe://c/ns/a/sa/b", istioctl(), DEBUG_CONFIG_DUMP, &["svc-0-0.foo"]);
    let dump = dump.await.unwrap();
    let types: Vec<&str> =
        dump.resources.iter().filter_map(|any| any.type_url.rsplit('.').next()).collect();
    assert!(
        types.contains(&"ClustersConfigDump") && types.contains(&"ListenersConfigDump"),
        "{types:?}"
    );
}

#[tokio::test]
async fn debug_pages_come_over_discovery_too() {
    let world = World::start(&services(1)).await;
    world.engine.set_pages(Box::new(|path, _| Some(format!("{{\"page\":\"{path}\"}}").into())));
    let answer = ask(&world, "x", istioctl(), DEBUG, &["registryz"]).await.unwrap();
    assert_eq!(&answer.resources[0].value[..], b"{\"page\":\"registryz\"}");
    assert_eq!(answer.resources[0].type_url, DEBUG);
}

#[tokio::test]
async fn a_proxy_gets_only_its_own_namespaces_configuration() {
    let world = World::start_with(&services(2), settings(), Arc::new(ByHeader)).await;
    let right = identity("foo", "svc-0");
    let own = ask(&world, &right, node("svc-0", "foo", 0), CDS, &[]).await;
    assert!(own.unwrap().resources.len() > 2);
    for wrong in [identity("bar", "svc-0"), identity("foo", "other")] {
        let refused = ask(&world, &wrong, node("svc-0", "foo", 0), CDS, &[]).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{wrong}");
    }
    assert_eq!(world.engine.counts().refused_streams, 2);
}

#[tokio::test]
async fn debug_data_needs_an_identity_and_shows_its_namespace_only() {
    let closed = Settings { open_debug: false, ..settings() };
    let world = World::start_with(&services(2), closed, Arc::new(ByHeader)).await;
    let held = {
        let mut session = ironsail_xds::client::ClientSession::new(
            Variant::StateOfTheWorld,
            node("svc-0", "foo", 0),
        );
        session.subscribe_all(&CDS.into());
        let requests: Vec<DiscoveryRequest> = session
            .connect()
            .into_iter()
            .filter_map(|o| match o {
                ironsail_xds::client::Outgoing::StateOfTheWorld(r) => Some(r),
                ironsail_xds::client::Outgoing::Delta(_) => None,
            })
            .collect();
        let (send, queue) = tokio::sync::mpsc::channel(4);
        for request in requests {
            send.send(request).await.unwrap();
        }
        let mut call = Request::new(tokio_stream::wrappers::ReceiverStream::new(queue));
        call.metadata_mut().insert("x-test-identity", identity("foo", "svc-0").parse().unwrap());
        let mut client = AggregatedDiscoveryServiceClient::new(world.channel());
        (send, client.stream_aggregated_resources(call).await.unwrap())
    };
    until("the proxy is there", || world.engine.connections().len() == 1).await;
    until("it asked", || !world.engine.connections()[0].types().is_empty()).await;
    let seen = async |who: String| {
        let answer = ask(&world, &who, istioctl(), DEBUG_SYNCZ, &[]).await.unwrap();
        answer.resources.len()
    };
    assert_eq!(seen(identity("istio-system", "istiod")).await, 1);
    assert_eq!(seen(identity("foo", "anybody")).await, 1);
    assert_eq!(seen(identity("bar", "anybody")).await, 0);
    drop(held);
}

#[tokio::test]
async fn client_status_tells_resource_by_resource() {
    let world = World::start(&services(3)).await;
    let peer = Peer::connect(world.address, node("svc-0", "foo", 0), Variant::Delta);
    peer.complete().await;
    let mut client = ClientStatusDiscoveryServiceClient::new(world.channel());
    let asked = ClientStatusRequest { exclude_resource_contents: true, ..Default::default() };
    let answer = client.fetch_client_status(asked).await.unwrap().into_inner();
    assert_eq!(answer.config.len(), 1);
    let clusters = answer.config[0].generic_xds_configs.iter().filter(|c| c.type_url == CDS);
    let names: Vec<&str> = clusters.map(|c| c.name.as_str()).collect();
    assert!(names.contains(&"outbound|80||svc-2.foo.svc.cluster.local"), "{names:?}");
}

#[tokio::test]
async fn a_broken_object_is_named_and_breaks_nothing_else() {
    let broken = "---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: broken, namespace: foo}
spec:
  hosts: [svc-1.foo.svc.cluster.local]
  http:
  - match: [{uri: {regex: '('}}]
    route: [{destination: {host: svc-1.foo.svc.cluster.local}}]
";
    let world = World::start(&(services(2) + broken)).await;
    let peer = Peer::connect(world.address, node("svc-0", "foo", 0), Variant::Delta);
    peer.complete().await;
    let found = world.engine.diagnostics();
    let named = found.iter().find(|d| d.name == "broken" && d.namespace == "foo");
    assert!(named.is_some_and(ironsail_api::Diagnostic::is_error), "{found:?}");
}
