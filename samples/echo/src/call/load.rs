//! `echo load`: requests at a steady rate until told to stop, and one JSON object that says how they
//! ended.
//!
//! Each worker keeps its connection. Requests that find no worker free wait; their number is bounded,
//! so a server that does not answer makes the rate fall and nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior};

use super::{Outcome, dial, http};

/// Sends HTTP requests at a steady rate and prints one summary.
#[derive(Clone, clap::Args)]
#[group(id = "load")]
pub(crate) struct Args {
    #[command(flatten)]
    call: super::Args,
    /// Requests a second.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Connections.
    #[arg(long, default_value_t = 8)]
    workers: usize,
    /// The longest time.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Makes this file and goes on until somebody removes it.
    #[arg(long = "while")]
    file: Option<PathBuf>,
    /// At most so many requests.
    #[arg(long, default_value_t = u64::MAX)]
    total: u64,
}

/// How the requests ended.
#[derive(Debug, Default, Serialize)]
struct Summary {
    sent: u64,
    millis: u64,
    /// By status.
    statuses: BTreeMap<u16, u64>,
    /// By the version that answered.
    versions: BTreeMap<String, u64>,
    /// By what was wrong.
    errors: BTreeMap<String, u64>,
    /// The longest that one took.
    slowest: u64,
}

impl Summary {
    fn add(&mut self, outcome: anyhow::Result<Outcome>, millis: u64) {
        self.sent += 1;
        self.slowest = self.slowest.max(millis);
        match outcome {
            Ok(outcome) => {
                *self.statuses.entry(outcome.status.unwrap_or_default()).or_default() += 1;
                if let Some(version) = outcome.body["version"].as_str() {
                    *self.versions.entry(version.to_owned()).or_default() += 1;
                }
            }
            Err(error) => *self.errors.entry(format!("{error:#}")).or_default() += 1,
        }
    }
}

/// Waiting requests, at most; more would only measure the queue.
const QUEUE: usize = 1000;

/// True where every request had an answer, whatever its status.
pub(crate) async fn run(args: Args) -> anyhow::Result<bool> {
    if let Some(file) = &args.file {
        std::fs::write(file, "").with_context(|| format!("making {}", file.display()))?;
    }
    let call = Arc::new(super::Args { keep: true, ..args.call.clone() });
    let scheme = call.url.scheme_str().context("the URL needs a scheme, as in http://")?;
    let dial = Arc::new(dial::Dial::new(&call, scheme)?);
    let turns = Arc::new(Semaphore::new(0));
    let summary = Arc::new(Mutex::new(Summary::default()));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..args.workers {
        let (call, dial) = (call.clone(), dial.clone());
        let (turns, summary) = (turns.clone(), summary.clone());
        workers.spawn(async move {
            let mut session = http::Session::default();
            // Closed when it is over.
            while let Ok(turn) = turns.acquire().await {
                turn.forget();
                let start = Instant::now();
                let limit = Duration::from_millis(call.timeout);
                let outcome = match tokio::time::timeout(limit, session.call(&call, &dial)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(anyhow::anyhow!("no answer within {} ms", call.timeout)),
                };
                if outcome.is_err() {
                    session = http::Session::default();
                }
                let millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
                summary.lock().add(outcome, millis);
            }
        });
    }
    let start = Instant::now();
    let given = give_turns(&args, &turns).await;
    // A turn that was given counts until its request has ended.
    while summary.lock().sent < given {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    turns.close();
    while workers.join_next().await.is_some() {}
    let mut summary = summary.lock();
    summary.millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    println!("{}", serde_json::to_string(&*summary).context("printing the summary")?);
    Ok(summary.errors.is_empty())
}

/// Lets requests go at the rate; says how many.
async fn give_turns(args: &Args, turns: &Semaphore) -> u64 {
    let end = Instant::now() + Duration::from_secs(args.seconds);
    // Many turns at a tick: a timer is not exact enough for one each.
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut given, mut due) = (0_u64, 0.0);
    while Instant::now() < end && given < args.total {
        tick.tick().await;
        if args.file.as_ref().is_some_and(|file| !file.exists()) {
            break;
        }
        due += f64::from(args.rate) / 100.0;
        while due >= 1.0 {
            due -= 1.0;
            if turns.available_permits() < QUEUE && given < args.total {
                turns.add_permits(1);
                given += 1;
            }
        }
    }
    given
}
