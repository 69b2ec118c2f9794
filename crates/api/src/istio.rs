//! Istio's resources as Rust types: what a spec says, not yet what it means.
//!
//! Each type is declared once by the macros of [`crate::wire`], which give its JSON and its schema.

pub mod extensions;
pub mod networking;
pub mod security;
pub mod selector;
pub mod status;
pub mod telemetry;

pub use selector::{PolicyTargetReference, WorkloadSelector};
