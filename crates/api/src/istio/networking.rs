//! Group `networking.istio.io`: where traffic goes and how.

mod destination_rule;
mod envoy_filter;
mod gateway;
mod proxy_config;
mod service_entry;
mod sidecar;
mod virtual_service;
mod workload;

pub use destination_rule::*;
pub use envoy_filter::*;
pub use gateway::*;
pub use proxy_config::*;
pub use service_entry::*;
pub use sidecar::*;
pub use virtual_service::*;
pub use workload::*;

use std::collections::BTreeMap;

use crate::wire::message;

message! {
    /// Workloads by their labels, in the older spelling of this group.
    pub struct LabelSelector {
        /// Labels that a workload must have.
        pub labels: BTreeMap<String, String> => max_keys(256).each(|value| value.max_len(63)
            .rule("wildcard is not supported in selector", r#"!self.contains("*")"#)),
    }

    /// A service, or a subset of it, that traffic goes to.
    pub struct Destination {
        /// Host of the service; a short name is completed with the namespace of the rule.
        pub host: String => required(),
        /// Subset of the service, as its DestinationRule names it.
        pub subset: String,
        /// Port of the service; may be left out if it has one only.
        pub port: Option<PortSelector>,
    }

    /// A port by its number.
    pub struct PortSelector {
        /// Number of the port.
        pub number: u32,
    }
}

impl Destination {
    /// Number of the port, if it names one.
    #[must_use]
    pub fn port_number(&self) -> Option<u32> {
        self.port.as_ref().map(|port| port.number).filter(|number| *number != 0)
    }
}
