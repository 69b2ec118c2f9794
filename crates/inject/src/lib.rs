//! Sidecar injection: a pod, or anything that makes pods, comes in; the same with a proxy goes out,
//! or the reason why not.
//!
//! Pure: templates, values, mesh configuration and the version of Kubernetes are given, nothing is
//! read from files, clocks or the network. No input makes it panic, and the same input gives the same
//! bytes. [`review`] speaks to a Kubernetes API server, [`manifest`] to `kube-inject`; both end in
//! [`Injector::inject`].

mod annotation;
mod config;
mod container;
mod diff;
mod error;
mod image;
mod injector;
mod manifest;
mod mesh;
mod object;
mod order;
mod overrides;
mod owner;
mod pod;
pub mod policy;
mod probe;
mod prometheus;
mod proxyconfig;
mod quantity;
mod render;
mod review;
mod selector;
mod settings;
mod status;
mod values;

pub use config::{Config, Policy};
pub use diff::json_patch_between;
pub use error::Error;
pub use injector::{Injector, Outcome, Subject};
pub use manifest::{Manifest, manifest};
pub use mesh::Mesh;
pub use owner::Owner;
pub use policy::Skip;
pub use proxyconfig::Overlay;
pub use review::review;
pub use selector::Selector;
pub use settings::{KubeVersion, NativeSidecars, Settings};
pub use values::Values;
