//! The tasks that make up the controllers: all run until stopped, and the first to end or panic
//! before that ends them all, with its name.

use rustc_hash::FxHashMap;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::error::Error;

pub(crate) struct Tasks {
    set: JoinSet<()>,
    names: FxHashMap<Id, &'static str>,
    stop: CancellationToken,
}

impl Tasks {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self { set: JoinSet::new(), names: FxHashMap::default(), stop }
    }

    pub(crate) fn start(
        &mut self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let handle = self.set.spawn(work);
        self.names.insert(handle.id(), name);
    }

    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Waits until all tasks have ended, or one has ended that should not.
    pub(crate) async fn wait(&mut self) -> Result<(), Error> {
        while let Some(ended) = self.set.join_next_with_id().await {
            let name = |id: Id| self.names.get(&id).copied().unwrap_or("unknown");
            match ended {
                Err(source) => return Err(Error::Controller { name: name(source.id()), source }),
                Ok((id, ())) if !self.stop.is_cancelled() => {
                    return Err(Error::Ended { name: name(id) });
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_all_and_names_the_task() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        tasks.start("steady", async move { stop.cancelled().await });
        tasks.start("shaky", async { panic!("by design of the test") });
        let error = tasks.wait().await.unwrap_err();
        assert_eq!(error.to_string(), "the shaky controller broke down");
    }

    #[tokio::test]
    async fn an_early_end_is_an_error_and_a_stop_is_not() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        tasks.start("short", async {});
        assert_eq!(
            tasks.wait().await.unwrap_err().to_string(),
            "the short controller ended by itself"
        );
        stop.cancel();
        tasks.start("short", async {});
        assert!(tasks.wait().await.is_ok());
    }
}
