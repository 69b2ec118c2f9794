//! Whether the proxy is ready: it has heard from the control plane and its workers run.

use anyhow::{bail, ensure};

use crate::proxy::admin::Admin;

const STATS: &str = "/stats?usedonly&filter=^(cluster_manager.cds.update_success|\
    cluster_manager.cds.update_rejected|listener_manager.lds.update_success|\
    listener_manager.lds.update_rejected|server.state|listener_manager.workers_started)$";

/// Says what the proxy still lacks.
pub(crate) async fn check(admin: &Admin) -> anyhow::Result<()> {
    judge(&admin.get(STATS).await?)
}

fn judge(stats: &str) -> anyhow::Result<()> {
    let number = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let heard = |kind: &str| {
        let of = |what: &str| number(&format!("{kind}.update_{what}")).unwrap_or_default();
        (of("success"), of("rejected"))
    };
    for (what, stat) in [("cds", "cluster_manager.cds"), ("lds", "listener_manager.lds")] {
        match heard(stat) {
            (0, 0) => bail!("config received from XDS server: {what} not received"),
            (0, rejected) => bail!("config not accepted: {rejected} {what} updates were rejected"),
            _ => {}
        }
    }
    // 0 is LIVE; only the numbers that were ever set are listed.
    match number("server.state") {
        Some(0) => {}
        state => bail!("server is not live: state {state:?}"),
    }
    ensure!(number("listener_manager.workers_started") == Some(1), "workers have not yet started");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::judge;

    const GOOD: &str = "cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_success: 2\n\
        listener_manager.workers_started: 1\nserver.state: 0\n";

    #[test]
    fn a_proxy_that_has_all_is_ready() {
        judge(GOOD).unwrap();
    }

    #[test]
    fn what_is_missing_is_said() {
        let why = |stats: &str| judge(stats).unwrap_err().to_string();
        assert_eq!(why(""), "config received from XDS server: cds not received");
        let rejected = GOOD.replace("lds.update_success: 2", "lds.update_rejected: 2");
        assert_eq!(why(&rejected), "config not accepted: 2 lds updates were rejected");
        assert!(why(&GOOD.replace("state: 0", "state: 2")).starts_with("server is not live"));
        assert!(why(&GOOD.replace("started: 1", "started: 0")).starts_with("workers"));
    }
}
