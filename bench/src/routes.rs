//! One VirtualService among many changes: what it costs the control plane, with 200 simulated proxies.
//!
//! Counts must hold, and end the run if they do not: one VirtualService translated, one RDS a proxy,
//! nothing else sent. Times are printed with the ratio between a hundred and a thousand VirtualServices
//! on the same port; what grows is looking through them and copying their bytes.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use ironsail_discovery::{Counts, Kind};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Endpoint;

use crate::extract::Extract;
use crate::measure::Measure;
use crate::node::{Shape, node};
use crate::objects::service;
use crate::proxy::{self, Shared, Variant};
use crate::server::World;

const PROXIES: usize = 200;
const WORKLOADS: usize = 20;
const ROUNDS: u32 = 9;
const NAMESPACE: &str = "load-0";
/// A file has a thousand documents at most.
const DOCUMENTS: usize = 900;

pub(crate) async fn run() -> anyhow::Result<()> {
    println!("one VirtualService of many changes: 10 routes each, one port, {PROXIES} proxies");
    let few = measured(100).await?;
    let many = measured(1000).await?;
    let line = |what: &str, few: String, many: String, ratio: String| {
        println!("  {what:<42} {few:>12} {many:>12} {ratio:>8}");
    };
    line("VirtualServices", "100".into(), "1000".into(), "ratio".into());
    let count = |what: &str, of: fn(&Cost) -> u64| {
        line(what, of(&few).to_string(), of(&many).to_string(), String::new());
    };
    count("translated by a change", |cost| cost.translated);
    count("route configurations made", |cost| cost.made);
    count("RDS responses", |cost| cost.responses);
    count("other responses", |cost| cost.others);
    let time = |what: &str, of: fn(&Cost) -> f64| {
        let (few, many) = (of(&few), of(&many));
        let ms = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
        line(what, ms(few), ms(many), format!("{:.1}", many / few));
    };
    time("control plane's work, all workloads", |cost| cost.work);
    time("  of it for each VirtualService", |cost| cost.work / cost.size);
    time("until the last proxy has it", |cost| cost.last);
    Ok(())
}

/// What one change cost; times are medians.
struct Cost {
    size: f64,
    translated: u64,
    made: u64,
    responses: u64,
    others: u64,
    work: f64,
    last: f64,
}

async fn measured(count: u16) -> anyhow::Result<Cost> {
    let mut world = world(count.into()).await;
    let target = Endpoint::from_shared(format!("http://{}", world.address)).context("address")?;
    let shared = Arc::new(Shared {
        target: target.initial_stream_window_size(1 << 20).initial_connection_window_size(1 << 20),
        variant: Variant::Delta,
        extract: Extract::default(),
        measure: Measure::new(PROXIES),
    });
    let shape = Shape { workloads: WORKLOADS, namespaces: 1, domain: "cluster.local".into() };
    let mut proxies = JoinSet::new();
    for index in 0..PROXIES {
        proxies.spawn(proxy::keep(shared.clone(), index, node(&shape, index)));
    }
    until("all proxies have everything", || shared.measure.ready() >= PROXIES).await?;
    let quiet = Duration::from_secs(1);
    let calm = || shared.measure.now().saturating_sub(shared.measure.last()) > quiet;
    until("nobody is sent anything", calm).await?;
    let mut costs = Vec::new();
    for round in 0..ROUNDS {
        costs.push(change(&mut world, &shared.measure, round).await?);
    }
    for cost in &costs {
        let counts = (cost.translated, cost.made, cost.responses, cost.others);
        ensure!(counts == (1, 1, PROXIES as u64, 0), "a change cost {counts:?}");
    }
    proxies.shutdown().await;
    world.stop().await;
    let median = |of: fn(&Cost) -> f64| {
        let mut all: Vec<f64> = costs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (work, last) = (median(|cost| cost.work), median(|cost| cost.last));
    let first = costs.first().context("there were rounds")?;
    Ok(Cost { size: count.into(), work, last, ..*first })
}

/// A change of one VirtualService, until every proxy has answered.
async fn change(world: &mut World, measure: &Measure, round: u32) -> anyhow::Result<Cost> {
    let engine = world.engine.clone();
    let read = || (engine.counts(), engine.routes_made(), engine.counters().refresh.read().sum);
    let (before, started) = (read(), measure.now());
    let revision = engine.revision();
    world.apply(&rule(7, 10 + round)).await;
    world.refreshed_after(revision).await;
    until("all proxies have the change", || measure.spread(started).proxies >= PROXIES).await?;
    let after = read();
    let (then, now) = (before.0, after.0);
    let sent = |counts: &Counts| counts.of(Kind::Route).pushes;
    let responses = sent(&now) - sent(&then);
    Ok(Cost {
        size: 0.0,
        translated: after.1 - before.1,
        made: now.generations() - then.generations(),
        responses,
        others: now.pushes() - then.pushes() - responses,
        work: after.2 - before.2,
        last: measure.spread(started).last.as_secs_f64(),
    })
}

async fn until(what: &str, is_so: impl Fn() -> bool) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        ensure!(Instant::now() < end, "{what}: not so after two minutes");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

async fn world(count: usize) -> World {
    let one = |i: usize| {
        let address = format!("10.{}.{}.{}", 1 + i / 60_000, i / 250 % 250, i % 250 + 1);
        service(&format!("svc-{i}"), NAMESPACE, i, &[&address]) + &rule(i, 5)
    };
    let all: String = (0..count).map(one).collect();
    let documents: Vec<&str> = all.split("---\n").filter(|text| !text.is_empty()).collect();
    let mut world = World::start("").await;
    for file in documents.chunks(DOCUMENTS) {
        world.apply(&file.join("---\n")).await;
    }
    world
}

/// A VirtualService with ten routes, all of which wait so long.
fn rule(index: usize, seconds: u32) -> String {
    let name = format!("svc-{index}");
    let mut out = format!(
        "---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: {name}, namespace: {NAMESPACE}}}
spec:
  hosts: [{name}]
  http:
"
    );
    let to = format!("timeout: {seconds}s, route: [{{destination: {{host: {name}}}}}]");
    for i in 0..9 {
        let _ = writeln!(out, "  - {{match: [{{uri: {{prefix: /r{i}}}}}], {to}}}");
    }
    let _ = writeln!(out, "  - {{{to}}}");
    out
}
