//! Whether a running Envoy still answers.
//!
//! In: Envoy's administration; out: the moment at which it counts as hanging. Tries are counted, not
//! time: when this process itself was held up, one try fails and the next one does not.

use std::time::Duration;

use crate::proxy::admin::Admin;

/// Tries that fail in a row before it hangs.
const TRIES: u32 = 3;
/// An Envoy that never answered may still be starting.
const FIRST_TRIES: u32 = 15;

/// Looks after one Envoy.
pub(crate) struct Watchdog {
    /// None: never barks.
    admin: Option<Admin>,
    silence: Duration,
}

impl Watchdog {
    /// `silence` without an answer is a hang; zero turns the watchdog off.
    pub(crate) fn new(admin: Admin, silence: Duration) -> Self {
        Self { admin: Some(admin).filter(|_| !silence.is_zero()), silence }
    }

    #[cfg(test)]
    pub(super) fn asleep() -> Self {
        Self { admin: None, silence: Duration::ZERO }
    }

    /// Returns how long Envoy was silent when it counts as hanging. Any answer is one, also that it is
    /// not ready.
    pub(super) async fn watch(&self) -> Duration {
        let Some(admin) = &self.admin else { return std::future::pending().await };
        let patience = self.silence / (2 * TRIES);
        let (mut answered, mut failures) = (false, 0);
        loop {
            tokio::time::sleep(patience).await;
            let asked = tokio::time::timeout(patience, admin.answers());
            match asked.await {
                Ok(true) => (answered, failures) = (true, 0),
                Ok(false) | Err(_) => failures += 1,
            }
            let most = if answered { TRIES } else { FIRST_TRIES };
            if failures >= most {
                return patience * 2 * failures;
            }
        }
    }
}
