//! Runs the pods that are bound to one node.
//!
//! In come pods, config maps, secrets and Services from the Kubernetes API; out go processes in the
//! pod network, statuses, events and logs. The API is reached by a `kube::Client` and nothing else,
//! so this runs against any API server.
//!
//! ```text
//!  API ──watch──▶ kubelet ──▶ pod::worker (one task per pod)
//!                                │  facts in, steps out
//!                                ├─▶ pod::machine   what to do next (pure)
//!                                ├─▶ pod::status    what the API shows (pure)
//!                                └─▶ pod::container one task per container ──▶ runtime, probe, log
//! ```

#![cfg_attr(
    test,
    expect(
        clippy::needless_pass_by_value,
        reason = "tests write manifests in place, as arguments"
    )
)]

pub mod cni;
pub mod config;
pub mod context;
pub mod env;
pub mod etc;
pub mod event;
pub mod field;
pub mod image;
pub mod kubelet;
pub mod log;
pub mod network;
pub mod node;
pub mod object;
pub mod pod;
pub mod probe;
pub mod quantity;
pub mod runtime;
pub mod security;
pub mod stream;
#[cfg(test)]
mod testing;
pub mod volume;

pub use config::{Config, NodeConfig};
pub use kubelet::{Ground, Kubelet};
pub use stream::Streams;
