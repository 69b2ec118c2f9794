//! A run: connect, wait until calm, change, wait until calm, say what it cost.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

use crate::extract::Extract;
use crate::measure::{Measure, counts_json};
use crate::node::{Shape, node};
use crate::process::{cpu_seconds, resident_mb};
use crate::proxy::{self, Shared, Variant};

#[derive(Debug, clap::Args)]
#[group(id = "load")]
pub(crate) struct Args {
    /// The plaintext discovery port, HOST:PORT
    #[arg(long, default_value = "127.0.0.1:15010")]
    target: String,
    /// Process of the server, to read its processor time and memory
    #[arg(long)]
    pid: Option<u32>,
    /// Simulated proxies, each with a connection of its own
    #[arg(long, default_value_t = 100)]
    proxies: usize,
    /// Different workloads that they belong to
    #[arg(long, default_value_t = 20)]
    workloads: usize,
    /// Namespaces that the workloads lie in
    #[arg(long, default_value_t = 10)]
    namespaces: usize,
    #[arg(long, default_value = "cluster.local")]
    domain: String,
    #[arg(long, value_enum, default_value_t = Variant::Delta)]
    variant: Variant,
    /// A shell command that changes something; may be given several times
    #[arg(long)]
    change: Vec<String>,
    /// New connections a second
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Milliseconds without an answer that count as calm
    #[arg(long, default_value_t = 2_000)]
    calm: u64,
    /// Seconds after which a run that does not become calm is given up
    #[arg(long, default_value_t = 300)]
    timeout: u64,
}

/// Runs and prints one JSON object a phase.
pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.proxies > 0 && args.workloads > 0 && args.namespaces > 0, "nothing to simulate");
    let shape = Shape {
        workloads: args.workloads,
        namespaces: args.namespaces,
        domain: args.domain.clone(),
    };
    let target = Endpoint::from_shared(format!("http://{}", args.target)).context("--target")?;
    let shared = Arc::new(Shared {
        target: target.initial_stream_window_size(1 << 20).initial_connection_window_size(1 << 20),
        variant: args.variant,
        extract: Extract::default(),
        measure: Measure::new(args.proxies),
    });
    let before = Usage::now(args.pid)?;
    let started = shared.measure.now();
    let mut tasks = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1) / args.rate.max(1));
    for index in 0..args.proxies {
        tick.tick().await;
        let (shared, node) = (shared.clone(), node(&shape, index));
        tasks.spawn(proxy::keep(shared, index, node));
    }
    calm(args, &shared.measure, started, true).await?;
    print(args, "connect", &shared.measure, started, &before)?;
    for command in &args.change {
        change(args, command, &shared.measure).await?;
    }
    tasks.shutdown().await;
    Ok(())
}

async fn change(args: &Args, command: &str, measure: &Measure) -> anyhow::Result<()> {
    let (before, started) = (Usage::now(args.pid)?, measure.now());
    let mut shell = ironsail_sys::exec::async_command("sh");
    let status = shell.arg("-c").arg(command).status().await.context("running --change")?;
    ensure!(status.success(), "--change {command:?} ended with {status}");
    calm(args, measure, started, false).await?;
    print(args, command, measure, started, &before)
}

/// Waits until nobody answered for a while.
async fn calm(args: &Args, measure: &Measure, from: Duration, all: bool) -> anyhow::Result<()> {
    let quiet = Duration::from_millis(args.calm);
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let is_ready = !all || measure.ready() >= args.proxies;
        if is_ready && measure.now().saturating_sub(measure.last().max(from)) > quiet {
            return Ok(());
        }
        let spent = measure.now().saturating_sub(from);
        let (ready, wanted) = (measure.ready(), args.proxies);
        ensure!(
            spent < Duration::from_secs(args.timeout),
            "not calm after {spent:?}: {ready} of {wanted} proxies have everything; {}",
            measure.broken_json()
        );
    }
}

fn print(
    args: &Args,
    phase: &str,
    measure: &Measure,
    started: Duration,
    before: &Usage,
) -> anyhow::Result<()> {
    let usage = Usage::now(args.pid)?;
    let counts = measure.take();
    let total: u64 = counts.values().map(|c| c.bytes).sum();
    let line = json!({
        "phase": phase, "proxies": args.proxies, "workloads": args.workloads,
        "answered": measure.spread(started).json(), "types": counts_json(&counts),
        "bytes": total, "broken": measure.broken_json(), "server": usage.since(before),
    });
    println!("{line}");
    Ok(())
}

/// What the server has used.
#[derive(Default)]
struct Usage(Option<(f64, f64)>);

impl Usage {
    fn now(pid: Option<u32>) -> anyhow::Result<Self> {
        pid.map(|pid| Ok((cpu_seconds(pid)?, resident_mb(pid)?))).transpose().map(Self)
    }

    fn since(&self, before: &Self) -> Value {
        match (self.0, before.0) {
            (Some((cpu, rss)), Some((cpu_before, _))) => {
                json!({"cpu_seconds": cpu - cpu_before, "rss_mb": rss})
            }
            _ => Value::Null,
        }
    }
}
