//! What only a running cluster knows, made up where files do not say it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::object::{each, name, namespace, selects, spec};

const WORKLOADS: [&str; 5] = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"];
/// Kinds that have no namespace.
const CLUSTER_WIDE: [&str; 4] = ["Namespace", "Node", "CustomResourceDefinition", "ClusterRole"];

/// The objects with pods, addresses and endpoints.
pub(super) fn complete(mut objects: Vec<Value>, own: &str) -> Vec<Value> {
    for object in &mut objects {
        let wide = CLUSTER_WIDE.iter().any(|kind| object["kind"] == *kind);
        if object.is_object() && !wide && object["metadata"]["namespace"].as_str().is_none() {
            object["metadata"]["namespace"] = json!(own);
        }
    }
    let mut addresses = Addresses::default();
    let pods = missing_pods(&objects, &mut addresses);
    objects.extend(pods);
    let known = objects.clone();
    for object in &mut objects {
        if object["kind"] == "Pod" && object["status"]["podIP"].as_str().is_none() {
            let space = namespace(object).to_owned();
            if is_injected(&known, &space, object) {
                inject(object);
            }
            run(object, &mut addresses);
        }
        if object["kind"] == "Service"
            && object["spec"]["clusterIP"].as_str().is_none()
            && object["spec"]["type"] != "ExternalName"
        {
            object["spec"]["clusterIP"] = json!(addresses.service());
        }
    }
    let slices = missing_slices(&objects);
    objects.extend(slices);
    objects
}

#[derive(Default)]
struct Addresses {
    pods: u16,
    services: u16,
}

impl Addresses {
    /// Ranges that real clusters seldom give out, since files may have real addresses too.
    fn pod(&mut self) -> String {
        self.pods += 1;
        format!("10.254.{}.{}", self.pods / 250, self.pods % 250 + 1)
    }

    fn service(&mut self) -> String {
        self.services += 1;
        format!("10.255.{}.{}", self.services / 250, self.services % 250 + 1)
    }
}

fn run(pod: &mut Value, addresses: &mut Addresses) {
    let ip = addresses.pod();
    pod["status"] = json!({
        "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": "True"}],
    });
}

/// A pod for each workload that has none, unless it has no replicas.
fn missing_pods(objects: &[Value], addresses: &mut Addresses) -> Vec<Value> {
    let have: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Pod").collect();
    let mut out = Vec::new();
    for object in objects.iter().filter(|o| WORKLOADS.iter().any(|kind| o["kind"] == *kind)) {
        let owned = object["metadata"]["ownerReferences"].as_array().is_some_and(|l| !l.is_empty());
        let labels = crate::object::labels_of(&spec(object)["template"]["metadata"]);
        let selector = &spec(object)["selector"]["matchLabels"];
        let exists = have.iter().any(|pod| {
            namespace(pod) == namespace(object)
                && selector.is_object()
                && selects(selector, &crate::object::labels_of(&pod["metadata"]))
        });
        if owned || exists || spec(object)["replicas"] == 0 {
            continue;
        }
        let template = &spec(object)["template"];
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{}-0", name(object)), "namespace": namespace(object),
                "labels": labels, "annotations": template["metadata"]["annotations"],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "name": format!("{}-0", name(object)), "uid": "0", "controller": true}],
            },
            "spec": template["spec"],
        });
        if pod["metadata"]["annotations"].is_null() {
            pod["metadata"]["annotations"] = json!({});
        }
        if is_injected(objects, namespace(object), template) {
            inject(&mut pod);
        }
        run(&mut pod, addresses);
        out.push(pod);
    }
    out
}

/// What the mesh would add to a pod, as far as it matters here.
fn inject(pod: &mut Value) {
    pod["metadata"]["labels"]["security.istio.io/tlsMode"] = json!("istio");
    if let Some(list) = pod["spec"]["containers"].as_array_mut()
        && list.iter().all(|one| one["name"] != "istio-proxy")
    {
        list.push(json!({"name": "istio-proxy"}));
    }
}

/// Whether the mesh would put a proxy in. A namespace that the files do not have counts as in the mesh.
fn is_injected(objects: &[Value], space: &str, template: &Value) -> bool {
    let metadata = &template["metadata"];
    for key in ["labels", "annotations"] {
        match metadata[key]["sidecar.istio.io/inject"].as_str() {
            Some("true") => return true,
            Some("false") => return false,
            _ => {}
        }
    }
    let found = objects.iter().find(|o| o["kind"] == "Namespace" && name(o) == space);
    let Some(found) = found else { return true };
    let labels = &found["metadata"]["labels"];
    match labels["istio-injection"].as_str() {
        Some(word) => word == "enabled",
        None => labels["istio.io/rev"].is_string(),
    }
}

/// The endpoints of each Service that selects pods and has no slice.
fn missing_slices(objects: &[Value]) -> Vec<Value> {
    let have: BTreeSet<(&str, &str)> = objects
        .iter()
        .filter(|object| object["kind"] == "EndpointSlice")
        .filter_map(|slice| {
            let service = slice["metadata"]["labels"]["kubernetes.io/service-name"].as_str()?;
            Some((namespace(slice), service))
        })
        .collect();
    let services = objects.iter().filter(|object| object["kind"] == "Service");
    let wanted = services.filter(|service| {
        let selector = spec(service)["selector"].as_object();
        selector.is_some_and(|labels| !labels.is_empty())
            && !have.contains(&(namespace(service), name(service)))
    });
    wanted.flat_map(|service| slices(objects, service)).collect()
}

/// One for each set of target ports: a named port may mean another number in each pod.
fn slices(objects: &[Value], service: &Value) -> Vec<Value> {
    let mut by_ports: BTreeMap<String, (Value, Vec<Value>)> = BTreeMap::new();
    let pods = objects.iter().filter(|pod| {
        pod["kind"] == "Pod"
            && namespace(pod) == namespace(service)
            && selects(&spec(service)["selector"], &crate::object::labels_of(&pod["metadata"]))
    });
    for pod in pods {
        let ports: Vec<Value> = each(spec(service), "ports")
            .filter_map(|(_, port)| {
                let number = target(pod, port)?;
                let transport = port["protocol"].as_str().unwrap_or("TCP");
                let mut out = json!({"name": port["name"].as_str().unwrap_or_default(),
                    "port": number, "protocol": transport});
                if port["appProtocol"].is_string() {
                    out["appProtocol"] = port["appProtocol"].clone();
                }
                Some(out)
            })
            .collect();
        let ports = json!(ports);
        let ready = each(&pod["status"], "conditions")
            .any(|(_, one)| one["type"] == "Ready" && one["status"] == "True");
        let endpoint = json!({
            "addresses": [pod["status"]["podIP"]], "conditions": {"ready": ready},
            "targetRef": {"kind": "Pod", "name": name(pod), "namespace": namespace(pod)},
        });
        let entry = by_ports.entry(ports.to_string()).or_insert_with(|| (ports, Vec::new()));
        entry.1.push(endpoint);
    }
    let all = by_ports.into_values().enumerate();
    all.map(|(index, (ports, endpoints))| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("{}-{index}", name(service)), "namespace": namespace(service),
                "labels": {"kubernetes.io/service-name": name(service)}},
            "ports": ports, "endpoints": endpoints,
        })
    })
    .collect()
}

/// The number of the pod's port that a port of a Service means.
fn target(pod: &Value, port: &Value) -> Option<u64> {
    match &port["targetPort"] {
        Value::Null => port["port"].as_u64(),
        Value::Number(number) => number.as_u64(),
        Value::String(wanted) => each(spec(pod), "containers")
            .flat_map(|(_, container)| each(container, "ports"))
            .find(|(_, own)| own["name"] == *wanted)
            .and_then(|(_, own)| own["containerPort"].as_u64()),
        _ => None,
    }
}
