//! The end of a proxy: what it still serves is finished first.

use std::time::Duration;

use tracing::{info, warn};

use super::admin::Admin;

/// How a proxy ends.
#[derive(Clone, Debug)]
pub(crate) struct Drain {
    /// Time that connections get.
    pub(crate) duration: Duration,
    /// Instead of a fixed time: until none is left, but at least this long.
    pub(crate) until_idle: Option<Duration>,
}

/// How often connections are counted.
const LOOK: Duration = Duration::from_secs(1);

impl Drain {
    /// New connections go elsewhere, old ones are finished; returns when the proxy may end.
    pub(crate) async fn run(&self, admin: &Admin) {
        info!(target: "agent", "draining the proxy");
        if let Err(error) = admin.post("/drain_listeners?inboundonly&graceful").await {
            warn!(target: "agent", "draining: {error:#}");
        }
        let Some(least) = self.until_idle else {
            tokio::time::sleep(self.duration).await;
            return;
        };
        tokio::time::sleep(least).await;
        loop {
            match active_connections(admin).await {
                Ok(0) => return info!(target: "agent", "there are no more active connections"),
                Ok(count) => info!(target: "agent", "there are still {count} active connections"),
                Err(error) => return warn!(target: "agent", "counting connections: {error:#}"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Connections that others opened to this proxy; its own status listeners do not count.
async fn active_connections(admin: &Admin) -> anyhow::Result<u64> {
    let text = admin.get("/stats?usedonly&filter=downstream_cx_active$").await?;
    Ok(count(&text))
}

fn count(stats: &str) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(": "));
    lines
        .filter(|(name, _)| {
            name.starts_with("listener.")
                && !name.starts_with("listener.admin.")
                && !name.contains(".worker_")
                && !name.contains("_15090.")
                && !name.contains("_15021.")
        })
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_connections_of_others_count() {
        let stats = "http.agent.downstream_cx_active: 1\nlistener.0.0.0.0_15006.downstream_cx_active: 2\n\
                     listener.0.0.0.0_15090.downstream_cx_active: 1\nlistener.admin.downstream_cx_active: 1\n\
                     listener.0.0.0.0_15006.worker_0.downstream_cx_active: 2\n\
                     listener.0.0.0.0_15001.downstream_cx_active: 3\n";
        assert_eq!(super::count(stats), 5);
    }
}
