//! The filters of listeners: what a connection passes before it reaches a cluster.
//!
//! In: settings that the mesh and a proxy's own configuration come to, and what is special about one
//! chain. Out: Envoy's filters, in Istio's order. Nothing here looks at services or routes.

pub mod access;
pub mod dynamic;
pub mod hcm;
pub mod http;
pub mod inspect;
pub mod network;
pub mod settings;
pub mod stats;
pub mod trace;
pub mod wire;

pub use hcm::{Class, Manager, Routes};
pub use settings::Settings;
