//! The controllers of a cluster: what turns Deployments into pods, Services into endpoints, and
//! deletions into absence. In comes a [`kube::Client`], out go requests on it; nothing else.
//!
//! Every kind is watched once, by [`store`]. A change puts a key into the [`queue`] of each
//! controller it concerns; a pure function decides what to do about it, and a thin shell does it.
//! Whatever is done is decided anew from the objects as they are, so it may be interrupted at any
//! moment, done twice, or done after a missed event.

mod account;
mod batch;
mod cache;
mod daemonset;
mod deployment;
mod discovery;
mod drive;
mod endpoint;
mod error;
mod event;
mod eventttl;
mod fraction;
mod garbage;
mod hash;
mod job;
mod key;
mod namespace;
mod node;
mod owner;
mod placement;
mod podgc;
mod podstate;
mod queue;
mod replicaset;
mod revision;
mod scheduler;
mod selector;
mod statefulset;
mod store;
mod task;
mod write;

use std::sync::Arc;
use std::time::Duration;

use ironsail_sys::clock::Clock;
use kube::Client;
use tokio_util::sync::CancellationToken;

pub use error::Error;
use store::{Ctx, Store};
use task::Tasks;

/// Settings of the controllers.
#[derive(Debug, Clone)]
pub struct Config {
    /// The API's certificate authority (PEM), published in every namespace as `kube-root-ca.crt`.
    pub root_ca: Option<String>,
    /// The `schedulerName` of the pods that our scheduler binds.
    pub scheduler_name: String,
    /// How long a node may be silent before its state counts as unknown.
    pub node_grace: Duration,
    /// How long pods stay on a node that is not ready, unless their tolerations say otherwise.
    pub eviction_after: Duration,
    /// How long pods outlive the deletion of their Node.
    pub lost_node_grace: Duration,
    /// How many ended pods are kept in all.
    pub finished_pods: usize,
    /// How long Events are kept.
    pub event_ttl: Duration,
    pub clock: Clock,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            root_ca: None,
            scheduler_name: "default-scheduler".into(),
            node_grace: Duration::from_secs(40),
            eviction_after: Duration::from_secs(300),
            lost_node_grace: Duration::from_secs(40),
            finished_pods: 1000,
            event_ttl: Duration::from_secs(3600),
            clock: Clock::system(),
        }
    }
}

/// Runs all controllers until `stop`. A controller that breaks down ends them all.
pub async fn run(client: Client, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let stop = stop.child_token();
    let _guard = stop.clone().drop_guard();
    let (events, inbox) = event::Recorder::new();
    let clock = config.clock.clone();
    let event_ttl = config.event_ttl;
    let ctx = Arc::new(Ctx { client: client.clone(), store: Store::new(), events, config });
    let controllers = vec![
        scheduler::controller(&ctx),
        deployment::controller(&ctx),
        replicaset::controller(&ctx),
        statefulset::controller(&ctx),
        daemonset::controller(&ctx),
        job::controller(&ctx),
        endpoint::controller(&ctx),
        account::controller(&ctx),
        node::controller(&ctx),
        namespace::controller(&ctx),
        podgc::controller(&ctx),
    ];
    let (collector, monitor) = garbage::controller(&ctx);
    let mut tasks = Tasks::new(stop.clone());
    tasks.start("event recorder", event::write(client.clone(), clock.clone(), inbox, stop.clone()));
    ctx.store.watch(&client, &mut tasks);
    tokio::select! {
        ended = tasks.wait() => return ended,
        () = ctx.store.synced() => {}
    }
    tasks.start("garbage monitor", monitor.run(stop.clone()));
    tasks.start("event cleaner", eventttl::run(client, clock, event_ttl, stop.clone()));
    for controller in controllers.into_iter().chain([collector]) {
        tasks.start(controller.name, drive::drive(controller, stop.clone()));
    }
    tasks.wait().await
}
