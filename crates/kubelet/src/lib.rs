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

pub mod env;
pub mod etc;
pub mod event;
pub mod field;
pub mod image;
pub mod log;
pub mod network;
pub mod object;
pub mod pod;
pub mod quantity;
pub mod runtime;
pub mod security;
pub mod volume;
