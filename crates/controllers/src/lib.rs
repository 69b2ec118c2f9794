//! Whatever the control plane writes to Kubernetes; each controller is one task with a pure decision.
//!
//! In: watches, the root certificate, diagnostics. Out: Leases, ConfigMaps, webhook configurations,
//! status. Nothing here reads configuration of the mesh for translation; that is `source`'s.

pub mod address;
pub mod election;
pub mod ingress;
pub mod revision;
pub mod rootcert;
pub mod status;
pub mod webhook;

mod queue;
