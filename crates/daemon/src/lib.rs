//! What every long-running program needs: logs, metrics, signals, supervised tasks and
//! durations as flags spell them.
//!
//! A program's `main` sets up [`log`], takes [`signal::stop_on_signals`], gives its parts to
//! [`task::Supervisor`] and returns what that returns.

pub mod duration;
pub mod log;
pub mod metrics;
pub mod signal;
pub mod task;
