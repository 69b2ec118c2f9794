//! Further debug pages: what single proxies see and stand for, and policies by namespace.

use ironsail_api::wire::Wire;
use ironsail_discovery::{Access, Engine, Kind};
use ironsail_model::{ConfigTable, Scope};
use serde_json::{Map, Value, json};

use super::super::page::Asked;
use super::{everything, of_proxy, seen};

pub(super) fn extensions(asked: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    of_proxy(asked, engine, access, Kind::Extension)
}

/// The hosts and routes that reach a proxy, and the Sidecar that decides about it.
pub(super) fn scope(asked: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    let connection = engine.connection(asked.get("proxyID")?).filter(|c| access.sees(c))?;
    let snapshot = engine.snapshot()?;
    let class = snapshot.class_of(&connection.proxy);
    let scope = Scope::of(&snapshot, &class);
    let visible = &scope.visible;
    let hosts: Vec<String> = visible.services.iter().map(|s| s.hostname().to_string()).collect();
    let routes: Vec<String> = visible
        .virtual_services
        .iter()
        .map(|route| format!("{}/{}", route.meta.namespace, route.meta.name))
        .collect();
    Some(json!({
        "namespace": visible.namespace.as_str(),
        "sidecar": visible.sidecar.as_ref().map(|sidecar| &sidecar.meta.name),
        "services": hosts,
        "virtualServices": routes,
    }))
}

pub(super) fn instances(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    let snapshot = engine.snapshot()?;
    let rows = seen(engine, access).into_iter().map(|connection| {
        let class = snapshot.class_of(&connection.proxy);
        let own: Vec<Value> = class
            .instances
            .iter()
            .map(|instance| {
                json!({"service": instance.service.hostname.to_string(),
                    "namespace": instance.service.namespace.as_str(),
                    "port": instance.port, "targetPort": instance.target})
            })
            .collect();
        (connection.proxy.id.to_string(), Value::from(own))
    });
    Some(rows.collect::<Map<_, _>>().into())
}

pub(super) fn authorization(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    let snapshot = engine.snapshot()?;
    Some(json!({
        "namespaceToPolicies": by_namespace(&snapshot.config.authorization_policies),
        "rootNamespace": snapshot.root_namespace().as_str(),
    }))
}

pub(super) fn telemetry(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    let snapshot = engine.snapshot()?;
    Some(json!({
        "namespaceToTelemetries": by_namespace(&snapshot.config.telemetries),
        "rootNamespace": snapshot.root_namespace().as_str(),
        "defaultProviders": snapshot.mesh.config.default_providers.as_ref().map(Wire::write),
    }))
}

fn by_namespace<S: Wire>(table: &ConfigTable<S>) -> Value {
    let mut all = Map::new();
    for (key, object) in table.entries() {
        let list = all.entry(key.namespace.to_string()).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(json!({"name": object.meta.name, "namespace": object.meta.namespace,
                "spec": object.spec.write()}));
        }
    }
    all.into()
}

/// What all proxies together were given of each type.
pub(super) fn resources(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    let proxies = seen(engine, access);
    let rows = Kind::ALL.into_iter().map(|kind| {
        let counts = proxies.iter().filter_map(|connection| connection.resources(kind));
        let total: usize = counts.map(|set| set.len()).sum();
        (kind.type_url().to_owned(), json!(total))
    });
    Some(rows.collect::<Map<_, _>>().into())
}
