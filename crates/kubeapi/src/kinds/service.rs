//! Services. Addresses and node ports come from an allocator; here is what follows from the text.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::at::{as_map, each, object, set_default, set_if_zero};
use super::table::{AGE, Column, NAME, column, created, joined, name, wide};
use super::{Behaviour, Kind, NameRule, STORED, selector};

mod update;
mod validate;

pub(super) const KINDS: &[Kind] = &[Kind {
    kind: "Service",
    plural: "services",
    singular: "service",
    short_names: &["svc"],
    categories: &["all"],
    subresources: &["status"],
    names: NameRule::Label,
    behaviour: Behaviour {
        default,
        prepare_create,
        prepare_update: update::prepare,
        validate: validate::service,
        validate_update: update::validate,
        columns: COLUMNS,
        row,
        selectable: &["spec.clusterIP", "spec.type"],
    },
    ..STORED
}];

const COLUMNS: &[Column] = &[
    NAME,
    column("Type"),
    column("Cluster-IP"),
    column("External-IP"),
    column("Port(s)"),
    AGE,
    wide("Selector"),
];

/// Three hours.
const AFFINITY_SECONDS: i64 = 10800;

fn default(service: &mut Value) {
    let spec = object(service, "spec");
    set_if_zero(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None" {
        as_map(spec).remove("sessionAffinityConfig");
    } else if spec["sessionAffinity"] == "ClientIP" {
        let config = object(object(spec, "sessionAffinityConfig"), "clientIP");
        set_default(config, "timeoutSeconds", AFFINITY_SECONDS);
    }
    set_if_zero(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
        set_if_zero(port, "protocol", "TCP");
        let number = port["port"].clone();
        set_if_zero(port, "targetPort", number);
    }
    if is_external(spec) {
        set_if_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind(spec), "ClusterIP" | "NodePort" | "LoadBalancer") {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind(spec) == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
        for ingress in service
            .get_mut("status")
            .into_iter()
            .flat_map(|s| s.get_mut("loadBalancer").into_iter().flat_map(|l| each(l, "ingress")))
        {
            if !ingress["ip"].as_str().unwrap_or_default().is_empty() {
                set_default(ingress, "ipMode", "VIP");
            }
        }
    }
}

/// `clusterIP` is the first of `clusterIPs`.
fn prepare_create(service: &mut Value) {
    let spec = object(service, "spec");
    let own = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    if !own.is_empty() && spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
        as_map(spec).insert("clusterIPs".to_owned(), json!([own]));
    }
}

fn kind(spec: &Value) -> &str {
    spec["type"].as_str().unwrap_or_default()
}

/// Whether the service can be reached from outside the cluster.
fn is_external(spec: &Value) -> bool {
    let addresses = spec["externalIPs"].as_array().is_some_and(|a| !a.is_empty());
    match kind(spec) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => addresses,
        _ => false,
    }
}

fn needs_node_ports(spec: &Value) -> bool {
    matches!(kind(spec), "NodePort")
        || (kind(spec) == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false)
}

fn row(service: &Value, now: SystemTime) -> Vec<Value> {
    let spec = &service["spec"];
    let ports: Vec<String> =
        spec["ports"].as_array().into_iter().flatten().map(port_text).collect();
    vec![
        name(service),
        json!(kind(spec)),
        json!(spec["clusterIPs"][0].as_str().unwrap_or("<none>")),
        json!(external(service)),
        json!(joined(ports.iter().map(String::as_str))),
        created(service, now),
        json!(selector::labels_text(&spec["selector"])),
    ]
}

fn port_text(port: &Value) -> String {
    let protocol = port["protocol"].as_str().unwrap_or_default();
    match port["nodePort"].as_i64() {
        Some(node) if node > 0 => format!("{}:{node}/{protocol}", port["port"]),
        _ => format!("{}/{protocol}", port["port"]),
    }
}

fn external(service: &Value) -> String {
    let spec = &service["spec"];
    let texts = |list: &Value, key: Option<&str>| -> Vec<String> {
        list.as_array()
            .into_iter()
            .flatten()
            .filter_map(|v| match key {
                None => v.as_str(),
                Some(key) => v[key].as_str().filter(|s| !s.is_empty()).or(v["hostname"].as_str()),
            })
            .map(str::to_owned)
            .collect()
    };
    let own = texts(&spec["externalIPs"], None);
    match kind(spec) {
        "ClusterIP" | "NodePort" => joined(own.iter().map(String::as_str)),
        "LoadBalancer" => {
            let mut all = texts(&service["status"]["loadBalancer"]["ingress"], Some("ip"));
            all.sort_unstable();
            all.dedup();
            all.extend(own);
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => spec["externalName"].as_str().unwrap_or_default().to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

#[cfg(test)]
mod tests;
