//! The objects of the mesh in one pass, and what is wrong with them.

use std::collections::BTreeMap;

use ironsail_api::wire::Wire;
use ironsail_api::{Meta, ObjectKey};
use ironsail_console::Finding;
use ironsail_discovery::Engine;
use ironsail_model::{Config, ConfigTable, Snapshot, full_host};
use serde_json::{Value, json};

type See<'a> = &'a mut dyn FnMut(&ObjectKey, &Meta, &dyn Fn() -> Value);

/// Shows every object; its specification is written only for who asks.
pub(super) fn visit(config: &Config, see: See<'_>) {
    table(&config.virtual_services, see);
    table(&config.destination_rules, see);
    table(&config.gateways, see);
    table(&config.service_entries, see);
    table(&config.workload_entries, see);
    table(&config.workload_groups, see);
    table(&config.sidecars, see);
    table(&config.envoy_filters, see);
    table(&config.proxy_configs, see);
    table(&config.peer_authentications, see);
    table(&config.request_authentications, see);
    table(&config.authorization_policies, see);
    table(&config.telemetries, see);
    table(&config.rate_limit_policies, see);
    table(&config.wasm_plugins, see);
    table(&config.traffic_extensions, see);
}

fn table<S: Wire>(table: &ConfigTable<S>, see: See<'_>) {
    for (key, object) in table.entries() {
        see(key, &object.meta, &|| object.spec.write());
    }
}

pub(super) fn whole(key: &ObjectKey, meta: &Meta, spec: &Value) -> Value {
    json!({
        "apiVersion": key.kind.api_version(),
        "kind": key.kind.name(),
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": meta.labels,
            "annotations": meta.annotations,
            "creationTimestamp": meta.created.map(|at| at.to_string()),
        },
        "spec": spec,
    })
}

/// By kind, namespace and name.
pub(super) fn findings(engine: &Engine) -> BTreeMap<(String, String, String), Vec<Finding>> {
    let mut all: BTreeMap<_, Vec<Finding>> = BTreeMap::new();
    for found in engine.diagnostics() {
        let place = (found.kind.name().to_owned(), found.namespace, found.name);
        all.entry(place).or_default().push(Finding {
            code: found.code.to_string(),
            severity: found.severity.to_string(),
            field: found.field,
            message: found.message,
        });
    }
    all
}

/// The objects that say something about each host, as `KIND/NAMESPACE/NAME`.
pub(super) fn by_host(snapshot: &Snapshot) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let domain = &snapshot.settings.domain;
    let mut add = |host: &str, key: &ObjectKey| {
        let Ok(namespace) = key.namespace.parse() else { return };
        let Ok(host) = full_host(host, &namespace, domain) else { return };
        let name = format!("{}/{}/{}", key.kind.name(), key.namespace, key.name);
        all.entry(host.to_string()).or_default().push(name);
    };
    for (key, object) in snapshot.config.virtual_services.entries() {
        object.spec.hosts.iter().for_each(|host| add(host, key));
    }
    for (key, object) in snapshot.config.destination_rules.entries() {
        add(&object.spec.host, key);
    }
    for (key, object) in snapshot.config.service_entries.entries() {
        object.spec.hosts.iter().for_each(|host| add(host, key));
    }
    all
}
