//! The users' configuration, indexed the way proxies ask for it.

mod clash;
mod host;
mod peer;
mod route;
mod rule;
mod select;
mod table;

use ironsail_api::istio::{
    extensions as ext, networking as net, security as sec, telemetry as tel,
};
use ironsail_api::{Kind, ObjectKey};

use ironsail_api::ratelimit::RateLimitPolicy;

use crate::table::Map;

pub use host::{GatewayRef, full_host};
pub use peer::PeerMode;
pub(crate) use route::gateways_of;
pub use route::{Bound, RouteIndex};
pub use rule::{Client, MergedRule, RuleIndex};
pub use select::{Selected, Target};
pub use table::{ConfigTable, Order};

/// All configuration objects. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub virtual_services: ConfigTable<net::VirtualService>,
    pub destination_rules: ConfigTable<net::DestinationRule>,
    pub gateways: ConfigTable<net::Gateway>,
    pub service_entries: ConfigTable<net::ServiceEntry>,
    pub workload_entries: ConfigTable<net::WorkloadEntry>,
    pub workload_groups: ConfigTable<net::WorkloadGroup>,
    pub sidecars: ConfigTable<net::Sidecar>,
    pub envoy_filters: ConfigTable<net::EnvoyFilter>,
    pub proxy_configs: ConfigTable<net::ProxyConfig>,
    pub peer_authentications: ConfigTable<sec::PeerAuthentication>,
    pub request_authentications: ConfigTable<sec::RequestAuthentication>,
    pub authorization_policies: ConfigTable<sec::AuthorizationPolicy>,
    pub telemetries: ConfigTable<tel::Telemetry>,
    pub rate_limit_policies: ConfigTable<RateLimitPolicy>,
    pub wasm_plugins: ConfigTable<ext::WasmPlugin>,
    pub traffic_extensions: ConfigTable<ext::TrafficExtension>,
    /// VirtualServices by gateway.
    pub routes: RouteIndex,
    /// DestinationRules by host.
    pub rules: RuleIndex,
    /// Labels of single pods that some object selects by, and how many do.
    pub(crate) selector_keys: Map<String, usize>,
}

impl Config {
    /// The generation of an object, if it is there.
    pub fn generation(&self, key: &ObjectKey) -> Option<i64> {
        fn of<S>(table: &ConfigTable<S>, key: &ObjectKey) -> Option<i64> {
            table.get(key).map(|object| object.meta.generation)
        }
        match key.kind {
            Kind::VirtualService => of(&self.virtual_services, key),
            Kind::DestinationRule => of(&self.destination_rules, key),
            Kind::Gateway => of(&self.gateways, key),
            Kind::ServiceEntry => of(&self.service_entries, key),
            Kind::WorkloadEntry => of(&self.workload_entries, key),
            Kind::WorkloadGroup => of(&self.workload_groups, key),
            Kind::Sidecar => of(&self.sidecars, key),
            Kind::EnvoyFilter => of(&self.envoy_filters, key),
            Kind::ProxyConfig => of(&self.proxy_configs, key),
            Kind::PeerAuthentication => of(&self.peer_authentications, key),
            Kind::RequestAuthentication => of(&self.request_authentications, key),
            Kind::AuthorizationPolicy => of(&self.authorization_policies, key),
            Kind::Telemetry => of(&self.telemetries, key),
            Kind::WasmPlugin => of(&self.wasm_plugins, key),
            Kind::TrafficExtension => of(&self.traffic_extensions, key),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
