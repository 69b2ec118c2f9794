//! A real Envoy takes everything, and what changes.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "world/envoy.rs"]
mod envoy;
#[path = "world/objects.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod objects;
#[path = "world/server.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod server;

use envoy::{Envoy, node};
use ironsail_discovery::{Kind, SyncStatus};
use objects::{route, service, services, slice};
use server::{World, until};

/// Listeners, routes, TCP, a ServiceEntry, a subset: a bit of everything.
fn mesh() -> String {
    services(5)
        + &route("svc-1", "foo", 5)
        + "---
apiVersion: v1
kind: Service
metadata: {name: tcp, namespace: foo}
spec:
  clusterIP: 172.16.9.9
  selector: {app: tcp}
  ports: [{name: tcp, port: 9000}, {name: other, port: 9001}]
---
apiVersion: v1
kind: Service
metadata: {name: silent, namespace: foo}
spec:
  clusterIP: None
  selector: {app: silent}
  ports: [{name: http, port: 7000}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: outside, namespace: foo}
spec:
  hosts: [outside.example.com]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: https, protocol: TLS}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: svc-2, namespace: foo}
spec:
  host: svc-2.foo.svc.cluster.local
  subsets: [{name: v1, labels: {version: v1}}]
  trafficPolicy: {outlierDetection: {consecutive5xxErrors: 3}}
"
}

fn in_sync(world: &World) -> bool {
    world.engine.connections().iter().any(|connection| {
        let types = connection.types();
        types.len() >= 4 && types.values().all(|state| state.status() == SyncStatus::Synced)
    })
}

#[tokio::test]
async fn a_real_envoy_takes_everything_and_what_changes() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(&mesh()).await;
    world.serve_unix(&folder.path().join("xds"));
    let envoy = Envoy::start(folder.path(), node("svc-0", "foo")).await;
    until("Envoy took everything", || in_sync(&world)).await;
    let counts = world.engine.counts();
    for kind in Kind::ALL {
        assert_eq!(counts.of(kind).rejected, 0, "{kind}: {}", envoy.log());
    }
    envoy.shows("/listeners?format=json", "virtualInbound").await;
    envoy.shows("/clusters?format=json", "outbound|80||svc-4.foo.svc.cluster.local").await;

    let before = world.engine.counts();
    world.apply(&slice("svc-4", "foo", &["10.77.0.1"])).await;
    envoy.shows("/clusters?format=json", "10.77.0.1").await;
    until("Envoy says so", || in_sync(&world)).await;
    let after = world.engine.counts();
    assert_eq!(after.pushes() - before.pushes(), 1, "only endpoints were sent");

    world.apply(&service("late", "foo", 200, &["10.88.0.1"])).await;
    envoy.shows("/clusters?format=json", "outbound|80||late.foo.svc.cluster.local").await;
    envoy.shows("/config_dump?include_eds", "late.foo.svc.cluster.local").await;
    until("Envoy says so", || in_sync(&world)).await;
    for kind in Kind::ALL {
        assert_eq!(world.engine.counts().of(kind).rejected, 0, "{kind}: {}", envoy.log());
    }
}
