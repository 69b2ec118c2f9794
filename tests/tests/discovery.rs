//! A real Envoy at the control plane's plain port: it takes everything, and after a change only what
//! changed. One test, so that nothing else changes meanwhile.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../crates/discovery/tests/world/envoy.rs"]
mod envoy;

use std::collections::BTreeMap;

use envoy::{Envoy, node};
use ironsail_testkit::{Case, eventually, mesh_case};
use serde_json::Value;

/// Resources sent of each type, of all proxies.
type Sent = BTreeMap<String, u64>;

async fn sent(case: &Case) -> Sent {
    let page = case.page(8080, "/debug/cachez").await.json();
    let types = page["types"].as_object().unwrap().clone();
    types.into_iter().map(|(kind, row)| (kind, row["resources"].as_u64().unwrap())).collect()
}

/// What was sent since `before`, without zeros.
async fn since(case: &Case, before: &Sent) -> Sent {
    let now = sent(case).await;
    let grown = now.into_iter().map(|(kind, count)| {
        let old = before.get(&kind).copied().unwrap_or(0);
        (kind, count - old)
    });
    grown.filter(|(_, count)| *count > 0).collect()
}

/// Waits until the one proxy has acknowledged everything.
async fn synced(case: &Case) -> Value {
    eventually("the proxy is in sync", async || {
        let rows = case.page(8080, "/debug/syncz").await.json();
        let row = rows[0].clone();
        let good = ["cluster", "listener", "route", "endpoint"]
            .iter()
            .all(|kind| row[format!("{kind}_status")] == "SYNCED");
        if good { Ok(row) } else { Err(rows.to_string()) }
    })
    .await
}

fn sorts(sent: &Sent) -> Vec<&str> {
    sent.keys().map(String::as_str).collect()
}

#[test]
fn an_envoy_gets_everything_and_then_only_what_changed() {
    mesh_case("plain", async |case| {
        let ns = &case.namespace;
        case.sample("httpbin/httpbin.yaml").await;
        case.ready("deployment/httpbin").await;
        let folder = tempfile::tempdir().unwrap();
        case.relay(&folder.path().join("xds"), &case.istiod().await, 15010);
        let envoy = Envoy::start(folder.path(), node("client", ns)).await;
        let row = synced(case).await;
        assert_eq!(row["proxy"], format!("client.{ns}"), "{row}");
        let cluster = format!("outbound|8000||httpbin.{ns}.svc.cluster.local");
        envoy.shows("/config_dump?include_eds", &cluster).await;
        envoy.shows("/listeners?format=json", "virtualOutbound").await;

        // A new port of a Service: its cluster, endpoints, listener and route, each once.
        let before = sent(case).await;
        case.apply(
            "{apiVersion: v1, kind: Service, metadata: {name: httpbin}, spec: {selector: {app: httpbin},
              ports: [{name: http, port: 8000, targetPort: 80}, {name: http-more, port: 8801, targetPort: 80}]}}",
        )
        .await;
        let cluster = format!("outbound|8801||httpbin.{ns}.svc.cluster.local");
        envoy.shows("/config_dump?include_eds", &cluster).await;
        envoy.shows("/listeners?format=json", "0.0.0.0_8801").await;
        synced(case).await;
        let new = eventually("something of each sort", async || {
            let new = since(case, &before).await;
            if new.len() >= 4 { Ok(new) } else { Err(format!("{new:?}")) }
        })
        .await;
        assert_eq!(sorts(&new), ["cds", "eds", "lds", "rds"], "{new:?}");
        assert!([new["cds"], new["lds"], new["rds"]] == [1, 1, 1] && new["eds"] <= 3, "{new:?}");

        // Another endpoint: nothing but endpoints.
        let before = sent(case).await;
        case.scale("deployment/httpbin", 2).await;
        case.ready("deployment/httpbin").await;
        eventually("both endpoints", async || {
            let page = envoy.get("/clusters").await?;
            let wanted = format!("outbound|8000||httpbin.{ns}.svc.cluster.local::10.");
            let healthy =
                |l: &&str| l.starts_with(&wanted) && l.contains("::health_flags::healthy");
            let found = page.lines().filter(healthy).count();
            if found == 2 { Ok(()) } else { Err(format!("{found} healthy endpoints")) }
        })
        .await;
        synced(case).await;
        let new = since(case, &before).await;
        assert_eq!(sorts(&new), ["eds"], "{new:?}");

        // A host outside: its own cluster and what leads there.
        let before = sent(case).await;
        case.apply(
            "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: outside},
              spec: {hosts: [outside.example.com], location: MESH_EXTERNAL, resolution: DNS,
              ports: [{number: 8443, name: tls, protocol: TLS}]}}",
        )
        .await;
        envoy.shows("/config_dump?include_eds", "outbound|8443||outside.example.com").await;
        synced(case).await;
        let new = since(case, &before).await;
        assert!(!new.contains_key("eds"), "nobody's endpoints changed: {new:?}");
        assert_eq!(new["cds"], 1, "{new:?}");
        assert!(new.values().sum::<u64>() <= 4, "its cluster and its listeners: {new:?}");

        let metrics = case.page(15014, "/metrics").await.body;
        let rejects = metrics.lines().filter(|l| l.starts_with("pilot_total_xds_rejects"));
        assert!(rejects.clone().all(|l| l.ends_with(" 0.0")), "{:?}", rejects.collect::<Vec<_>>());
        assert!(metrics.contains("pilot_xds_pushes{"), "{metrics}");
    });
}
