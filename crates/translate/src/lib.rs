//! From the model to Envoy's resources.
//!
//! In: a snapshot, the scope of a class of proxies and the class itself. Out: views, each of which
//! borrows exactly what one resource may depend on and hashes it (`key`), and for each view the
//! resource with its diagnostics. Nothing here does IO, reads a clock or fails: a bad object degrades
//! only itself.

pub mod address;
pub mod cluster;
pub mod compliance;
pub mod endpoint;
pub mod extend;
pub mod filter;
pub mod grpc;
pub mod key;
pub mod listener;
pub mod metadata;
pub mod mtls;
pub mod nametable;
pub mod patch;
mod place;
pub mod policy;
mod problem;
pub mod route;
pub mod secret;
mod stat;
mod telemetry;
pub mod tls;
mod translated;

pub use key::Key;
pub use translated::Translated;
