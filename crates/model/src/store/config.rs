//! Configuration objects: into their tables and indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::istio::networking::DestinationRule;
use ironsail_api::{Kind, Object, ObjectKey, Resource};

use super::Store;
use super::inventory::same;
use crate::config::{Config, ConfigTable, RouteIndex, RuleIndex, Selected};
use crate::proxy::PER_POD_LABELS;
use crate::service;
use crate::snapshot::class::NODE;
use crate::table::Map;

/// Stores it if it differs; `Some(former)` if so.
#[expect(clippy::option_option, reason = "outer: whether it differs; inner: whether there was one")]
fn put<S>(
    table: &mut ConfigTable<S>,
    key: &ObjectKey,
    object: Arc<Resource<S>>,
) -> Option<Option<Arc<Resource<S>>>> {
    match same(table.get(key), Some(&object)) {
        true => {
            // A change without a meaning is still what statuses speak of.
            if table.get(key).is_some_and(|known| known.meta.generation != object.meta.generation) {
                table.insert(key, object);
            }
            None
        }
        false => Some(table.insert(key, object)),
    }
}

/// Whether some failover of the rule goes by nodes.
fn names_nodes(rule: &DestinationRule) -> bool {
    let subsets = rule.subsets.iter().filter_map(|subset| subset.traffic_policy.as_ref());
    let policies = rule.traffic_policy.iter().chain(subsets);
    let ports = policies.clone().flat_map(|policy| &policy.port_level_settings);
    let balancers = policies
        .filter_map(|policy| policy.load_balancer.as_ref())
        .chain(ports.filter_map(|port| port.load_balancer.as_ref()));
    let settings = balancers.filter_map(|balancer| balancer.locality_lb_setting.as_ref());
    settings.flat_map(|setting| &setting.failover_priority).any(|label| label.starts_with(NODE))
}

/// Counts labels of single pods that objects select by.
fn count_selector<S: Selected>(
    config: &mut Map<String, usize>,
    object: Option<&Arc<Resource<S>>>,
    add: bool,
) {
    let Some(labels) = object.and_then(|object| object.spec.selector()) else { return };
    for label in PER_POD_LABELS.into_iter().filter(|label| labels.contains_key(*label)) {
        let count = config.get(label).copied().unwrap_or(0);
        match (add, count) {
            (true, _) => config.insert(label.to_owned(), count + 1),
            (false, 0 | 1) => drop(config.remove(label)),
            (false, _) => config.insert(label.to_owned(), count - 1),
        }
    }
}

impl Store {
    pub(super) fn put_config(&mut self, key: &ObjectKey, object: Object) {
        macro_rules! selected {
            ($table:ident, $object:ident) => {
                if let Some(old) = put(&mut self.current.config.$table, key, $object.clone()) {
                    count_selector(&mut self.current.config.selector_keys, old.as_ref(), false);
                    count_selector(&mut self.current.config.selector_keys, Some(&$object), true);
                    self.changes.objects.insert(key.clone());
                }
            };
        }
        match object {
            Object::VirtualService(object) => {
                if let Some(old) =
                    put(&mut self.current.config.virtual_services, key, object.clone())
                {
                    self.set_routes(key, old.as_ref(), Some(&object));
                }
            }
            Object::DestinationRule(object) => {
                if let Some(old) =
                    put(&mut self.current.config.destination_rules, key, object.clone())
                {
                    count_selector(&mut self.current.config.selector_keys, old.as_ref(), false);
                    count_selector(&mut self.current.config.selector_keys, Some(&object), true);
                    self.set_rules(key, old.as_ref(), Some(&object));
                }
            }
            Object::ServiceEntry(object) => {
                if let Some(old) =
                    put(&mut self.current.config.service_entries, key, object.clone())
                {
                    self.set_entry(key, old.as_ref(), Some(&object));
                }
            }
            Object::WorkloadEntry(object) => {
                if let Some(old) = put(&mut self.current.config.workload_entries, key, object) {
                    self.refresh_entry(key, old.as_ref());
                }
            }
            Object::WorkloadGroup(object) => {
                if put(&mut self.current.config.workload_groups, key, object).is_some() {
                    self.changes.objects.insert(key.clone());
                }
            }
            Object::Gateway(object) => selected!(gateways, object),
            Object::Sidecar(object) => selected!(sidecars, object),
            Object::EnvoyFilter(object) => selected!(envoy_filters, object),
            Object::ProxyConfig(object) => selected!(proxy_configs, object),
            Object::PeerAuthentication(object) => selected!(peer_authentications, object),
            Object::RequestAuthentication(object) => selected!(request_authentications, object),
            Object::RateLimitPolicy(object) => selected!(rate_limit_policies, object),
            Object::AuthorizationPolicy(object) => selected!(authorization_policies, object),
            Object::Telemetry(object) => selected!(telemetries, object),
            Object::WasmPlugin(object) => selected!(wasm_plugins, object),
            Object::TrafficExtension(object) => selected!(traffic_extensions, object),
            Object::Service(_)
            | Object::EndpointSlice(_)
            | Object::Pod(_)
            | Object::Node(_)
            | Object::Namespace(_)
            | Object::Secret(_)
            | Object::ConfigMap(_)
            | Object::ServiceAccount(_)
            | Object::Ingress(_)
            | Object::IngressClass(_) => {}
        }
    }

    pub(super) fn remove_config(&mut self, key: &ObjectKey) {
        macro_rules! selected {
            ($table:ident) => {
                if let Some(old) = self.current.config.$table.remove(key) {
                    count_selector(&mut self.current.config.selector_keys, Some(&old), false);
                    self.changes.objects.insert(key.clone());
                }
            };
        }
        match key.kind {
            Kind::VirtualService => {
                if let Some(old) = self.current.config.virtual_services.remove(key) {
                    self.set_routes(key, Some(&old), None);
                }
            }
            Kind::DestinationRule => {
                if let Some(old) = self.current.config.destination_rules.remove(key) {
                    count_selector(&mut self.current.config.selector_keys, Some(&old), false);
                    self.set_rules(key, Some(&old), None);
                }
            }
            Kind::ServiceEntry => {
                if let Some(old) = self.current.config.service_entries.remove(key) {
                    self.set_entry(key, Some(&old), None);
                }
            }
            Kind::WorkloadEntry => {
                if let Some(old) = self.current.config.workload_entries.remove(key) {
                    self.refresh_entry(key, Some(&old));
                }
            }
            Kind::WorkloadGroup => {
                if self.current.config.workload_groups.remove(key).is_some() {
                    self.changes.objects.insert(key.clone());
                }
            }
            Kind::Gateway => selected!(gateways),
            Kind::Sidecar => selected!(sidecars),
            Kind::EnvoyFilter => selected!(envoy_filters),
            Kind::ProxyConfig => selected!(proxy_configs),
            Kind::PeerAuthentication => selected!(peer_authentications),
            Kind::RequestAuthentication => selected!(request_authentications),
            Kind::RateLimitPolicy => selected!(rate_limit_policies),
            Kind::AuthorizationPolicy => selected!(authorization_policies),
            Kind::Telemetry => selected!(telemetries),
            Kind::WasmPlugin => selected!(wasm_plugins),
            Kind::TrafficExtension => selected!(traffic_extensions),
            Kind::Service
            | Kind::EndpointSlice
            | Kind::Pod
            | Kind::Node
            | Kind::Namespace
            | Kind::Secret
            | Kind::ConfigMap
            | Kind::ServiceAccount
            | Kind::Ingress
            | Kind::IngressClass => {}
        }
    }

    fn set_routes(
        &mut self,
        key: &ObjectKey,
        old: Option<&Arc<Resource<ironsail_api::istio::networking::VirtualService>>>,
        new: Option<&Arc<Resource<ironsail_api::istio::networking::VirtualService>>>,
    ) {
        let defaults = &self.current.mesh.config.default_virtual_service_export_to;
        let routes = &mut self.current.config.routes;
        if let Some(old) = old {
            routes.remove(key, old);
        }
        if let Some(new) = new {
            routes.insert(key, new, defaults);
        }
        self.note_routes(key, old, new);
        self.changes.objects.insert(key.clone());
    }

    fn set_rules(
        &mut self,
        key: &ObjectKey,
        old: Option<&Arc<Resource<DestinationRule>>>,
        new: Option<&Arc<Resource<DestinationRule>>>,
    ) {
        let bound = |rule: Option<&Arc<Resource<DestinationRule>>>| {
            usize::from(rule.is_some_and(|rule| names_nodes(&rule.spec)))
        };
        self.current.node_bound -= bound(old);
        self.current.node_bound += bound(new);
        let Config { rules, .. } = &mut self.current.config;
        let defaults = &self.current.mesh.config.default_destination_rule_export_to;
        let domain = &self.current.settings.domain;
        if let Some(old) = old {
            rules.remove(key, old, domain, defaults);
        }
        if let Some(new) = new {
            rules.insert(key, new, domain, defaults);
        }
        self.changes.objects.insert(key.clone());
    }

    fn set_entry(
        &mut self,
        key: &ObjectKey,
        old: Option<&Arc<Resource<ironsail_api::istio::networking::ServiceEntry>>>,
        new: Option<&Arc<Resource<ironsail_api::istio::networking::ServiceEntry>>>,
    ) {
        let keys = |object: Option<&Arc<_>>| {
            object.map(|o| service::entry::keys(key, o)).unwrap_or_default()
        };
        let (old, new) = (keys(old), keys(new));
        for service in old.difference(&new) {
            self.declare(service, key, false);
        }
        for service in &new {
            self.declare(service, key, true);
        }
        self.changes.entries.insert(key.clone());
    }

    /// After a change of the mesh config: its defaults are in these indexes.
    pub(super) fn reindex(&mut self) {
        let config = &mut self.current.config;
        let mesh = &self.current.mesh.config;
        config.routes = RouteIndex::default();
        for (key, object) in config.virtual_services.entries() {
            config.routes.insert(key, object, &mesh.default_virtual_service_export_to);
        }
        config.rules = RuleIndex::default();
        let domain = &self.current.settings.domain;
        for (key, object) in config.destination_rules.entries() {
            config.rules.insert(key, object, domain, &mesh.default_destination_rule_export_to);
        }
        self.route_hosts = BTreeMap::new();
        let all: Vec<_> = self
            .current
            .config
            .virtual_services
            .entries()
            .map(|(k, o)| (k.clone(), o.clone()))
            .collect();
        for (key, object) in all {
            self.note_routes(&key, None, Some(&object));
        }
    }
}
