//! A world from files: what the control plane would make of the objects in them.
//!
//! In: objects as files have them. Out: a world in which every pod with a proxy has the configuration
//! that it would get. What only a running cluster knows is filled in: a pod for each workload, an
//! address for each pod and Service, the pods behind each Service.

mod fill;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::mesh::{MeshConfig, MeshNetworks};
use ironsail_api::{ClusterId, Event, decode_any};
use ironsail_model::{Proxy, Scope, Settings, Snapshot, Store};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::from_json;
use ironsail_translate::extend::Extensions;
use ironsail_translate::patch::Patches;
use ironsail_translate::{cluster, endpoint, listener, route};
use serde_json::{Value, json};

use crate::config::Config;
use crate::object::{Objects, name, namespace, spec};
use crate::world::{Pod, World};

const CLUSTER: &str = "Kubernetes";

/// A world of files, and what was wrong with them.
#[derive(Debug, Default)]
pub struct Offline {
    pub world: World,
    /// Objects that could not be used, and why.
    pub problems: Vec<String>,
}

/// The world of `documents`; `own` is the namespace of objects that name none, `root` the control
/// plane's.
pub fn world(documents: Vec<Value>, own: &str, root: &str) -> Offline {
    let mut problems = Vec::new();
    let objects = fill::complete(documents, own);
    let snapshot = snapshot(&objects, root, &mut problems);
    let mut world = World::new(Objects::new(objects.clone(), root));
    for object in objects.iter().filter(|object| object["kind"] == "Pod") {
        let mut pod = pod(object);
        if let Some(snapshot) = snapshot.as_ref().filter(|_| pod.proxied) {
            match config(snapshot, &pod) {
                Ok(config) => pod.config = Some(config),
                Err(why) => problems.push(format!("Pod {}/{}: {why}", pod.namespace, name(object))),
            }
        }
        world.add(pod);
    }
    Offline { world, problems }
}

fn snapshot(objects: &[Value], root: &str, problems: &mut Vec<String>) -> Option<Arc<Snapshot>> {
    let mut settings = Settings::default();
    match root.parse() {
        Ok(root) => settings.root_namespace = root,
        Err(error) => problems.push(format!("namespace {root}: {error}")),
    }
    let mut store = Store::new(settings);
    for object in objects {
        if object["kind"] == "ConfigMap" && name(object) == "istio" && namespace(object) == root {
            mesh(object, &mut store, problems);
            continue;
        }
        let Some(decoded) = decode_any(object) else { continue };
        match decoded.object {
            Ok(object) => store.apply(Event::Apply { cluster: ClusterId::from(CLUSTER), object }),
            Err(error) => problems.push(error.to_string()),
        }
    }
    store.take().map(|update| update.snapshot)
}

fn mesh(object: &Value, store: &mut Store, problems: &mut Vec<String>) {
    let mut read = |key: &str| {
        let text = object["data"][key].as_str().unwrap_or("{}");
        ironsail_yaml::parse::<Value>(text).unwrap_or_else(|error| {
            problems.push(format!("{}: {key}: {error}", crate::object::title(object)));
            json!({})
        })
    };
    let (config, networks) = (read("mesh"), read("meshNetworks"));
    store.set_mesh(MeshConfig::parse(&config).value, MeshNetworks::parse(&networks).value);
}

/// A pod as the API shows it.
pub fn pod(object: &Value) -> Pod {
    let metadata = &object["metadata"];
    let status = &object["status"];
    let mut ips: Vec<IpAddr> = Vec::new();
    for one in status["podIPs"].as_array().into_iter().flatten() {
        ips.extend(one["ip"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok()));
    }
    if ips.is_empty() {
        ips.extend(status["podIP"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok()));
    }
    let containers = ["containers", "initContainers"];
    let mut all = containers.iter().flat_map(|key| spec(object)[*key].as_array()).flatten();
    let proxied = all.any(|one| one["name"] == "istio-proxy");
    let labels = metadata["labels"].as_object();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let excluded = &metadata["annotations"]["traffic.sidecar.istio.io/excludeInboundPorts"];
    let bypassed = excluded.as_str().unwrap_or_default().split(',');
    Pod {
        id: format!("{}.{}", name(object), namespace(object)),
        namespace: namespace(object).to_owned(),
        ips,
        labels: labels.into_iter().flatten().filter_map(text).collect(),
        account: spec(object)["serviceAccountName"].as_str().unwrap_or("default").to_owned(),
        proxied,
        config: None,
        bypassed: bypassed.filter_map(|port| port.trim().parse().ok()).collect(),
    }
}

/// What the proxy of a pod would get.
fn config(snapshot: &Snapshot, pod: &Pod) -> Result<Config, String> {
    let ip = pod.ips.first().ok_or("it has no address")?;
    let (id, space) = (&pod.id, &pod.namespace);
    let node = json!({
        "id": format!("sidecar~{ip}~{id}~{space}.svc.cluster.local"),
        "cluster": id,
        "metadata": {"NAMESPACE": space, "CLUSTER_ID": CLUSTER, "LABELS": pod.labels,
            "SERVICE_ACCOUNT": pod.account, "INSTANCE_IPS": ip.to_string()},
    });
    let node: Node = from_json(&node).map_err(|error| error.to_string())?;
    let proxy =
        Proxy::parse(&node, &ClusterId::from(CLUSTER)).map_err(|error| error.to_string())?;
    let class = snapshot.class_of(&proxy);
    let scope = Scope::of(snapshot, &class);
    let patches = Patches::of(snapshot, &class);
    let extensions = Extensions::of(snapshot, &scope, &class);
    let mut out = Config::default();
    for view in cluster::views(snapshot, &scope, &class) {
        let made = patches.cluster(view.context(), &view.own_hosts(), cluster::translate(&view));
        out.clusters.extend(made.value.map(|one| (one.name.clone(), one)));
    }
    for view in endpoint::views(snapshot, &scope, &class) {
        let made = endpoint::translate(&view).value;
        out.endpoints.insert(view.asked_as(), made);
    }
    for view in listener::views(snapshot, &scope, &class) {
        let context = view.context();
        let made = extensions.listener(context, listener::translate(&view));
        let made = patches.listener(context, made).value;
        out.listeners.extend(made.map(|one| (one.name.clone(), one)));
    }
    for view in route::views(snapshot, &scope, &class) {
        let made = patches.route(view.context(), route::translate(&view)).value;
        out.routes.insert(made.name.clone(), made);
    }
    Ok(out)
}

/// The pods of a workload or Service, by what a user calls it: kind (if said), name, namespace.
pub fn pods_of<'a>(
    world: &'a World,
    kind: Option<&str>,
    wanted: &str,
    space: &str,
) -> Vec<&'a Pod> {
    let id = format!("{wanted}.{space}");
    if matches!(kind, None | Some("Pod"))
        && let Some(pod) = world.pod(&id)
    {
        return vec![pod];
    }
    let kinds: Vec<&str> = match kind {
        Some(kind) => vec![kind],
        None => vec!["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"],
    };
    for kind in kinds {
        let Some(object) = world.objects.find(kind, space, wanted) else { continue };
        let selector = match kind {
            "Service" => &spec(object)["selector"],
            _ => &spec(object)["selector"]["matchLabels"],
        };
        let labels: BTreeMap<String, String> =
            serde_json::from_value(selector.clone()).unwrap_or_default();
        let fits = |pod: &&Pod| {
            pod.namespace == space
                && !labels.is_empty()
                && labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
        };
        return world.pods().filter(fits).collect();
    }
    Vec::new()
}

#[cfg(test)]
mod tests;
