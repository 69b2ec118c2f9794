//! The proxy: watches, and brings rules, forwards and statuses in line with what it sees.
//!
//! In: a client, a network, a configuration; out: effects until it is told to stop. Changes that
//! come together are carried out together.

use std::time::Duration;

use futures::future::join_all;
use ironsail_podnet::Network;
use ironsail_sys::clock::Clock;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::balancer::Balancers;
use crate::forward::{Forwards, wants};
use crate::report::Reporter;
use crate::table::table;
use crate::watch::Shared;
use crate::{Config, Error, Names};

/// When something could not be done (a port is taken), it is tried again after this.
const RETRY: Duration = Duration::from_secs(5);

pub struct Proxy {
    client: Client,
    network: Network,
    config: Config,
    shared: Shared,
    names: Names,
}

impl Proxy {
    pub fn new(client: Client, network: Network, config: Config) -> Result<Self, Error> {
        let shared = Shared::default();
        let names = Names::new(shared.model.clone(), &config)?;
        Ok(Self { client, network, config, shared, names })
    }

    /// The names it knows; they follow the watch while `run` does.
    pub fn names(&self) -> Names {
        self.names.clone()
    }

    /// Works until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let work = async {
            tokio::join!(
                self.shared.watch_services(&self.client),
                self.shared.watch_slices(&self.client),
                self.follow(&stop),
            );
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    async fn follow(&self, stop: &CancellationToken) {
        let mut nodes = self.network.changes();
        let mut forwards = Forwards::new(self.network.clone(), stop.child_token());
        let mut balancers = Balancers::new(self.client.clone(), self.config.balancer_range);
        let mut reporter = Reporter::new(self.client.clone(), Clock::system());
        let mut again = false;
        loop {
            tokio::select! {
                () = self.shared.changed.notified() => {}
                changed = nodes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(RETRY), if again => {}
            }
            tokio::time::sleep(self.config.settle).await;
            if !self.shared.is_complete() {
                continue;
            }
            again = !self.set_tables().await;
            let wanted = {
                let model = self.shared.model.read();
                balancers.assign(&model);
                wants(&model, self.config.node_port_address, balancers.assigned())
            };
            let failures = forwards.set(wanted).await;
            again |= !failures.is_empty();
            for error in balancers.write_statuses(&self.shared.model, &failures).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a load balancer's status"
                );
                again = true;
            }
            let unsupported = self.shared.model.read().unsupported_ports();
            for error in reporter.report(&failures, &unsupported).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "reporting a port");
            }
        }
    }

    /// Gives every node its table. Says whether all took it.
    async fn set_tables(&self) -> bool {
        let nodes = self.network.nodes();
        let tables: Vec<_> = {
            let model = self.shared.model.read();
            nodes.iter().map(|node| table(&model, node.name())).collect()
        };
        let set = nodes.iter().zip(tables).map(|(node, table)| async move {
            let done = node.set_services(table).await;
            if let Err(error) = &done {
                let error = error as &dyn std::error::Error;
                tracing::error!(
                    node = node.name(),
                    error,
                    "cannot set the Service rules of a node"
                );
            }
            done.is_ok()
        });
        join_all(set).await.into_iter().all(|ok| ok)
    }
}
