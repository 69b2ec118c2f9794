//! Heap and CPU profiles of the running program, as `go tool pprof` reads them.
//!
//! In: requests under `/debug/pprof/`; out: gzipped profiles. A program that wants heap profiles
//! makes `Allocator` its global allocator; one in 512 KiB of allocations is sampled, as in Go. A small
//! program leaves the feature `heap` out and has CPU profiles only.

mod cpu;
mod encode;
mod heap;
mod page;

pub use cpu::cpu;
#[cfg(feature = "heap")]
pub use heap::Allocator;
pub use heap::heap;
pub use page::router;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a CPU profile is being taken already; try again when it is done")]
    Busy,
    #[error("taking a CPU profile: {0}")]
    Cpu(#[source] pprof::Error),
    #[error("this program's allocator takes no samples")]
    NoSamples,
    #[error("writing a heap profile: {0}")]
    Heap(String),
}
