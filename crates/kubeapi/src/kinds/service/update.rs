//! What an update of a Service keeps: whatever was allocated, unless the user says otherwise.

use serde_json::Value;

use super::super::at::{At, Errors, as_map, each, object, restore};
use super::{kind, needs_node_ports};

/// Carries allocated values over, and drops those of a type the service no longer has.
pub(super) fn prepare(new: &mut Value, old: &Value, subresource: Option<&str>) {
    if subresource.is_some() {
        return;
    }
    let (new, old) = (object(new, "spec"), &old["spec"]);
    let has_address = |spec: &Value| kind(spec) != "ExternalName";
    if has_address(new) && has_address(old) {
        sync_addresses(new, old);
    } else if has_address(old) {
        for key in
            ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
        {
            drop_if_same(new, old, key);
        }
    }
    if needs_node_ports(new) && needs_node_ports(old) {
        keep_node_ports(new, old);
    } else if needs_node_ports(old) {
        drop_node_ports(new, old);
    }
    if kind(old) == "LoadBalancer" && kind(new) != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            drop_if_same(new, old, key);
        }
    }
    if !super::is_external(new) {
        for key in ["externalTrafficPolicy", "healthCheckNodePort"] {
            drop_if_same(new, old, key);
        }
    }
}

/// `clusterIP` and `clusterIPs` say the same; clients may send either, or neither.
fn sync_addresses(new: &mut Value, old: &Value) {
    let one = |spec: &Value| spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    if one(new).is_empty() && new["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
        for key in ["clusterIP", "clusterIPs"] {
            restore(new, old, key);
        }
    } else if one(new) != one(old) && new["clusterIPs"] == old["clusterIPs"] {
        let ips = if one(new).is_empty() { vec![] } else { vec![Value::from(one(new))] };
        as_map(new).insert("clusterIPs".to_owned(), Value::Array(ips));
    } else if one(new) == one(old) && new["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
        restore(new, old, "clusterIPs");
    } else if one(new) == one(old) && new["clusterIPs"][0] != old["clusterIPs"][0] {
        let first = new["clusterIPs"][0].clone();
        as_map(new).insert("clusterIP".to_owned(), first);
    }
    for key in ["ipFamilies", "ipFamilyPolicy"] {
        if new.get(key).is_none() {
            restore(new, old, key);
        }
    }
}

fn drop_if_same(new: &mut Value, old: &Value, key: &str) {
    if new.get(key).is_some() && new.get(key) == old.get(key) {
        as_map(new).remove(key);
    }
}

fn same_port(a: &Value, b: &Value) -> bool {
    a["port"] == b["port"] && a["protocol"] == b["protocol"]
}

fn keep_node_ports(new: &mut Value, old: &Value) {
    let used: Vec<i64> =
        each(new, "ports").filter_map(|p| p["nodePort"].as_i64()).filter(|n| *n > 0).collect();
    let ports = old["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    for port in each(new, "ports") {
        if port["nodePort"].as_i64().unwrap_or_default() != 0 {
            continue;
        }
        let before = ports.iter().find(|o| same_port(o, port)).and_then(|o| o["nodePort"].as_i64());
        if let Some(before) = before.filter(|n| *n > 0 && !used.contains(n)) {
            port["nodePort"] = Value::from(before);
        }
    }
}

fn drop_node_ports(new: &mut Value, old: &Value) {
    let before: Vec<i64> = old["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|p| p["nodePort"].as_i64())
        .collect();
    for port in each(new, "ports") {
        if port["nodePort"].as_i64().is_some_and(|n| before.contains(&n)) {
            as_map(port).remove("nodePort");
        }
    }
}

/// An address, once given, stays; unless there is no longer one at all.
pub(super) fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (At::root(new).get("spec"), At::root(old).get("spec"));
    let external = |at: &At<'_>| at.get("type").str() == "ExternalName";
    let before = old.get("clusterIPs");
    if external(&new) || external(&old) || before.is_empty() {
        return;
    }
    let after = new.get("clusterIPs");
    if after.value.get(0) != before.value.get(0) {
        errors.push(ironsail_schema::FieldError::invalid(
            "spec.clusterIPs[0]",
            after.value.clone(),
            "may not change once set",
        ));
    }
    if old.get("type").str() == "LoadBalancer"
        && new.get("type").str() == "LoadBalancer"
        && old.get("loadBalancerClass").value != new.get("loadBalancerClass").value
    {
        errors.push(new.get("loadBalancerClass").invalid("may not change once set"));
    }
}
