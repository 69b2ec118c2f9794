//! podlet: pods to readiness, memory at rest, a long list, many watchers.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use ironsail_testkit::Podlet;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent};
use serde_json::json;
use tokio::time::Instant;

use crate::process;

const OBJECTS: usize = 5_000;
const WATCHERS: usize = 50;
const CHANGES: usize = 1_000;

pub(crate) async fn run() -> anyhow::Result<()> {
    let podlet = Podlet::start("bench", &[]);
    let client = podlet.client().await;
    println!("{:<44} {:>12}", "podlet", "");
    pods(&podlet, &client).await?;
    lists(&client).await?;
    watches(&client).await?;
    Ok(())
}

fn line(what: &str, amount: impl std::fmt::Display) {
    println!("  {what:<42} {amount:>12}");
}

fn deployment(replicas: u32) -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "many"}},
            "template": {"metadata": {"labels": {"app": "many"}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "h", "image": "examples-helloworld-v1",
                    "readinessProbe": {"httpGet": {"path": "/health", "port": 5000}, "periodSeconds": 1}}]}}}})
}

async fn scale(client: &kube::Client, replicas: u32) -> anyhow::Result<()> {
    let api: Api<Deployment> = Api::default_namespaced(client.clone());
    let how = PatchParams::apply("bench").force();
    api.patch("many", &how, &Patch::Apply(deployment(replicas))).await.context("scaling")?;
    let ready = async {
        loop {
            let status = api.get("many").await?.status.unwrap_or_default();
            let counts = (status.ready_replicas.unwrap_or(0), status.replicas.unwrap_or(0));
            if counts == (replicas as i32, replicas as i32) {
                return Ok::<(), kube::Error>(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), ready)
        .await
        .with_context(|| format!("{replicas} pods were not ready within five minutes"))??;
    Ok(())
}

async fn pods(podlet: &Podlet, client: &kube::Client) -> anyhow::Result<()> {
    scale(client, 20).await?;
    // At rest: what a pause of some seconds costs tells whether anything polls.
    let cpu = process::cpu_seconds(podlet.pid())?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let idle = (process::cpu_seconds(podlet.pid())? - cpu) / 10.0 * 100.0;
    line("20 pods with a 1 s probe, CPU at rest", format!("{idle:.1} %"));
    let memory = process::resident_mb(podlet.pid())?;
    line("20 pods, resident memory (aim: 60 MB)", format!("{memory:.0} MB"));
    scale(client, 0).await?;
    let (start, cpu) = (Instant::now(), process::cpu_seconds(podlet.pid())?);
    scale(client, 100).await?;
    line("100 pods ready, wall time", format!("{:.1} s", start.elapsed().as_secs_f64()));
    let used = process::cpu_seconds(podlet.pid())? - cpu;
    line("100 pods ready, podlet's own CPU", format!("{used:.1} s"));
    let memory = process::resident_mb(podlet.pid())?;
    line("100 pods, resident memory", format!("{memory:.0} MB"));
    scale(client, 0).await
}

async fn lists(client: &kube::Client) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let start = Instant::now();
    futures::stream::iter(0..OBJECTS)
        .map(|i| {
            let maps = maps.clone();
            async move {
                let object = json!({"metadata": {"name": format!("m{i:05}"), "labels": {"bench": "list"}}, "data": {"text": "x".repeat(200)}});
                maps.create(&PostParams::default(), &serde_json::from_value(object).expect("a config map")).await
            }
        })
        .buffer_unordered(16)
        .try_for_each(|_| async { Ok(()) })
        .await
        .context("creating objects")?;
    line(
        "5,000 creates, 16 at a time, synced",
        format!("{:.0} /s", OBJECTS as f64 / start.elapsed().as_secs_f64()),
    );
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let request =
            Request::get("/api/v1/namespaces/default/configmaps?labelSelector=bench%3Dlist");
        let text = client.request_text(request.body(Vec::new())?).await.context("listing")?;
        best = best.min(start.elapsed());
        let found = text.matches("\"bench\":\"list\"").count();
        ensure!(found >= OBJECTS, "the list shows {found} of {OBJECTS} objects");
    }
    line("list of 5,000 objects, best of 5", format!("{:.0} ms", best.as_secs_f64() * 1e3));
    Ok(())
}

async fn watches(client: &kube::Client) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let from = maps
        .list_metadata(&Default::default())
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let mut watchers = tokio::task::JoinSet::new();
    for _ in 0..WATCHERS {
        let maps = maps.clone();
        let from = from.clone();
        watchers.spawn(async move {
            let how = kube::api::WatchParams::default().labels("bench=watch");
            let mut events = maps.watch(&how, &from).await.context("watching")?.boxed();
            let mut seen = 0;
            while seen < CHANGES {
                match events.try_next().await.context("watching")? {
                    Some(WatchEvent::Added(_)) => seen += 1,
                    Some(WatchEvent::Bookmark(_)) => {}
                    other => anyhow::bail!("after {seen} changes the watch sent {other:?}"),
                }
            }
            Ok(seen)
        });
    }
    let start = Instant::now();
    futures::stream::iter(0..CHANGES)
        .map(|i| {
            let maps = maps.clone();
            async move {
                let object =
                    json!({"metadata": {"name": format!("w{i:05}"), "labels": {"bench": "watch"}}});
                maps.create(
                    &PostParams::default(),
                    &serde_json::from_value(object).expect("a config map"),
                )
                .await
            }
        })
        .buffer_unordered(8)
        .try_for_each(|_| async { Ok(()) })
        .await
        .context("making changes")?;
    let mut delivered = 0;
    while let Some(seen) = watchers.join_next().await {
        delivered += seen.context("a watcher ended")??;
    }
    ensure!(delivered == WATCHERS * CHANGES, "{delivered} of {} events came", WATCHERS * CHANGES);
    line("50 watchers x 1,000 changes, events lost", 0);
    line("  all delivered within", format!("{:.1} s", start.elapsed().as_secs_f64()));
    Ok(())
}
