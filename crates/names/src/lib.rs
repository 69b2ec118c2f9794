//! The names of a mesh: parsed once at the edge, never wrong after that.
//!
//! In: text of users, of Kubernetes and of proxies; out: typed names, and the same text again. No IO
//! and no lookups: whether something of that name exists is for others to say.

pub mod annotation;
mod cluster;
mod domain;
mod error;
mod hostname;
pub mod label;
mod listener;
mod locality;
mod namespace;
pub mod port;
mod route;
mod spiffe;
mod trust;

pub use cluster::{
    BLACK_HOLE_CLUSTER, ClusterName, Direction, INBOUND_PASSTHROUGH_CLUSTER, PASSTHROUGH_CLUSTER,
};
pub use domain::{ClusterDomain, ServiceHost};
pub use error::Error;
pub use hostname::Hostname;
pub use listener::{
    Bind, CONNECT_ORIGINATE, CONNECT_TERMINATE, ListenerName, MAIN_INTERNAL, VIRTUAL_INBOUND,
    VIRTUAL_OUTBOUND,
};
pub use locality::Locality;
pub use namespace::{Namespace, ServiceAccount};
pub use route::RouteName;
pub use spiffe::SpiffeId;
pub use trust::{TrustDomain, TrustDomains};
