//! Where objects come from: Kubernetes, a folder of files, or a test. All become [`Event`]s on one
//! bounded channel.
//!
//! In: watches and files. Out: events, findings on the [`Board`], and the mesh configuration as a
//! watched value. A broken object costs only itself: it is named on the board, and its last good
//! state stays in force until it is repaired or deleted. Nothing here knows what objects mean.

mod backoff;
mod board;
pub mod files;
pub mod kube;
pub mod memory;
pub mod mesh;
pub mod selection;
mod table;

pub use backoff::Backoff;
pub use board::{Board, Finding, Findings};
pub use selection::{Selected, Selector, Selectors};

use ironsail_api::Event;
use tokio::sync::mpsc;

/// How many events may wait for their taker: enough that a list is not read in lockstep, few enough
/// that a slow taker slows the watches instead of filling the memory.
pub const WAITING: usize = 1024;

/// The channel that sources write to.
pub fn channel() -> (mpsc::Sender<Event>, mpsc::Receiver<Event>) {
    mpsc::channel(WAITING)
}
