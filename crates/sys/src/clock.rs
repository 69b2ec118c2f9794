//! Wall-clock time, as a value that can be passed in.
//!
//! Durations and timers use `tokio::time`, which tests can pause; this is for time stamps.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Tells the time of day. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Arc::new(SystemTime::now))
    }

    /// A clock that always tells `now`, for tests.
    pub fn fixed(now: SystemTime) -> Self {
        Self(Arc::new(move || now))
    }

    /// A clock that asks `tell`, for tests that move time themselves.
    pub fn from_fn(tell: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub fn now(&self) -> SystemTime {
        (self.0)()
    }

    /// Time since the Unix epoch; zero on a machine whose clock stands before it.
    pub fn since_epoch(&self) -> Duration {
        self.now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
