//! The mesh as data: objects go in, a snapshot of services, endpoints, workloads and configuration
//! comes out, and what of it a proxy may see.
//!
//! Pure: no IO, no clock, nothing async. One task owns the [`Store`] and hands it events; everybody
//! else reads [`Snapshot`]s. What is odd about objects becomes a diagnostic, never a failure.

mod allocate;
mod change;
pub mod config;
pub mod endpoint;
pub mod hashed;
pub mod ingress;
mod key;
pub mod keys;
mod mesh;
pub mod network;
mod protocol;
pub mod proxy;
pub mod scope;
pub mod select;
pub mod service;
mod settings;
pub mod snapshot;
mod store;
pub mod table;
#[cfg(test)]
mod testing;
mod visibility;
pub mod workload;

pub use change::{ChangeSet, Update};
pub use config::{Config, ConfigTable, GatewayRef, MergedRule, PeerMode, full_host};
pub use endpoint::{Address, Endpoint, EndpointTable, Health, ServiceEndpoints};
pub use hashed::{Hashed, digest};
pub use key::ServiceKey;
pub use keys::{Fetched, KeyFetch, KeySource};
pub use mesh::Mesh;
pub use network::{NetworkGateway, NetworkGateways};
pub use protocol::Protocol;
pub use proxy::{Instance, NodeMetadata, Proxy, ProxyClass, ProxyKind};
pub use scope::{Egress, OwnPort, Scope, ScopeKey, Visible};
pub use service::{
    Labels, Registry, Resolution, Service, ServiceKind, ServicePort, ServiceTable, TargetPort,
    TrafficDistribution,
};
pub use settings::Settings;
pub use snapshot::{Counts, Snapshot, WorkloadTable};
pub use store::{Store, Work};
pub use visibility::Visibility;
pub use workload::{TlsMode, Workload};
