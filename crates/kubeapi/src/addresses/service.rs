//! What a Service says about its addresses and ports, and what an update of it leaves unsaid.

use std::net::IpAddr;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

pub(super) fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn node_port(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

/// Mutable indexing would leave a null where there are no ports.
pub(super) fn ports_of(service: &mut Value) -> impl Iterator<Item = &mut Value> {
    service.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten()
}

pub(super) fn type_of(service: &Value) -> &str {
    service["spec"]["type"].as_str().unwrap_or("ClusterIP")
}

pub(super) fn needs_ports(service: &Value) -> bool {
    match type_of(service) {
        "NodePort" => true,
        "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"] != json!(false),
        _ => false,
    }
}

/// Keeps what a client leaves out when it writes back a Service, and drops what a changed type no
/// longer has.
pub(super) fn carry_over(new: &mut Value, old: &Value) {
    let addressed = |service: &Value| type_of(service) != "ExternalName";
    let empty = |value: &Value| value.as_str().unwrap_or_default().is_empty();
    if addressed(new) && addressed(old) {
        if empty(&new["spec"]["clusterIP"]) && !empty(&old["spec"]["clusterIP"]) {
            new["spec"]["clusterIP"] = old["spec"]["clusterIP"].clone();
        }
        let same = new["spec"]["clusterIP"] == old["spec"]["clusterIP"];
        for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if same && new["spec"][field].is_null() && !old["spec"][field].is_null() {
                new["spec"][field] = old["spec"][field].clone();
            }
        }
    } else if addressed(old) && new["spec"]["clusterIP"] == old["spec"]["clusterIP"] {
        drop_fields(&mut new["spec"], &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    }
    let had = |port: &Value| {
        let same =
            |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        let port = old["spec"]["ports"].as_array().into_iter().flatten().find(same);
        port.and_then(|port| node_port(&port["nodePort"]))
    };
    let (needs, needed) = (needs_ports(new), needs_ports(old));
    for port in ports_of(new) {
        let (now, had) = (node_port(&port["nodePort"]), had(port));
        match had {
            Some(had) if needs && needed && now.is_none() => port["nodePort"] = had.into(),
            Some(_) if !needs && needed && now == had => drop_fields(port, &["nodePort"]),
            _ => {}
        }
    }
    if !wants_health_port(new) && wants_health_port(old) {
        drop_fields(&mut new["spec"], &["healthCheckNodePort"]);
    } else if wants_health_port(new) && node_port(&new["spec"]["healthCheckNodePort"]).is_none() {
        let had = old["spec"]["healthCheckNodePort"].clone();
        if !had.is_null() {
            new["spec"]["healthCheckNodePort"] = had;
        }
    }
}

/// A Service keeps its address as long as it has one.
pub(super) fn check_unchanged(new: &Value, old: &Value) -> Result<(), FieldError> {
    let (now, before) = (&new["spec"]["clusterIP"], &old["spec"]["clusterIP"]);
    let had = before.as_str().is_some_and(|address| !address.is_empty());
    if had && now != before && type_of(new) != "ExternalName" && type_of(old) != "ExternalName" {
        let detail = "may not change once set";
        return Err(FieldError::invalid("spec.clusterIPs[0]", json!([now]), detail));
    }
    Ok(())
}

pub(super) fn drop_fields(value: &mut Value, fields: &[&str]) {
    if let Some(map) = value.as_object_mut() {
        for field in fields {
            map.remove(*field);
        }
    }
}

pub(super) fn wants_health_port(service: &Value) -> bool {
    type_of(service) == "LoadBalancer" && service["spec"]["externalTrafficPolicy"] == "Local"
}

pub(super) fn family(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}
