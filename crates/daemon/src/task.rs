//! Tasks a program cannot do without: when one fails, ends early or panics, the program ends.

use std::future::Future;

use anyhow::{Context, anyhow};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Owns the critical tasks of a program.
pub struct Supervisor {
    stop: CancellationToken,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Supervisor {
    /// `stop` is what the tasks watch; it is cancelled when one of them fails.
    pub fn new(stop: CancellationToken) -> Self {
        Self { stop, tasks: JoinSet::new() }
    }

    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task that must run until the program is asked to stop.
    pub fn spawn<F>(&mut self, name: &'static str, task: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            task.await.with_context(|| format!("{name} failed"))?;
            if stop.is_cancelled() { Ok(()) } else { Err(anyhow!("{name} ended by itself")) }
        });
    }

    /// Waits for all tasks. The first failure stops the others and is returned.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut first = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            let ended = ended.unwrap_or_else(|e| Err(anyhow!("a task panicked: {e}")));
            if let Err(error) = ended {
                self.stop.cancel();
                match first {
                    Ok(()) => first = Err(error),
                    Err(_) => tracing::error!("while stopping: {error:#}"),
                }
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failed_task_stops_the_others_and_is_named() {
        let mut tasks = Supervisor::new(CancellationToken::new());
        let stop = tasks.stop_token();
        tasks.spawn("waiter", async move {
            stop.cancelled().await;
            Ok(())
        });
        tasks.spawn("api server", async { Err(anyhow!("port taken")) });
        assert_eq!(
            format!("{:#}", tasks.run().await.unwrap_err()),
            "api server failed: port taken"
        );
    }

    #[tokio::test]
    async fn a_task_that_ends_early_counts_as_failed() {
        let mut tasks = Supervisor::new(CancellationToken::new());
        tasks.spawn("dns", async { Ok(()) });
        assert_eq!(tasks.run().await.unwrap_err().to_string(), "dns ended by itself");
    }
}
