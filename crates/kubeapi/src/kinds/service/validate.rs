//! The rules of a Service.

use std::collections::HashSet;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::super::at::{At, Errors};
use super::super::{meta, name};
use super::is_external;

pub(super) fn service(service: &Value, errors: &mut Errors) {
    let spec = At::root(service).get("spec");
    let kind = spec.get("type").str();
    let headless = spec.get("clusterIP").str() == "None"
        || spec.get("clusterIPs").value.get(0).is_some_and(|ip| ip == "None");
    if spec.get("ports").is_empty() && !headless && kind != "ExternalName" {
        errors.push(spec.get("ports").required(""));
    }
    of_kind(&spec, kind, headless, errors);
    ports(&spec, kind, errors);
    if !spec.get("selector").is_empty() {
        meta::labels(&spec.get("selector"), errors);
    }
    affinity(&spec, errors);
    for address in spec.get("externalIPs").items() {
        ip(&address, errors);
    }
    spec.get("type").one_of(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    load_balancer(&spec, kind, errors);
    traffic(&spec, errors);
    cluster_ips(&spec, kind, errors);
}

fn of_kind(spec: &At<'_>, kind: &str, headless: bool, errors: &mut Errors) {
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            errors.push(FieldError::invalid(
                "spec.clusterIPs[0]",
                "None",
                format!("may not be set to 'None' for {kind} services"),
            ));
        }
        "ExternalName" => {
            for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !spec.get(key).is_empty() {
                    errors
                        .push(spec.get(key).forbidden("may not be set for ExternalName services"));
                }
            }
            let external = spec.get("externalName");
            let text = external.str().strip_suffix('.').unwrap_or(external.str());
            if text.is_empty() {
                errors.push(external.required(""));
            } else {
                errors.extend(name::subdomain(text).into_iter().map(|w| external.invalid(w)));
            }
        }
        _ => {}
    }
}

fn ports(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let list = spec.get("ports");
    let named = list.len() > 1;
    let (mut names, mut keys, mut nodes) = (HashSet::new(), HashSet::new(), HashSet::new());
    for port in list.items() {
        let own = port.get("name");
        if named && own.is_empty() {
            errors.push(own.required(""));
        } else if !own.is_empty() {
            errors.extend(name::label(own.str()).into_iter().map(|w| own.invalid(w)));
            if !names.insert(own.str()) {
                errors.push(own.duplicate());
            }
        }
        let number = port.get("port");
        if let Some(wrong) = name::port(number.int()) {
            errors.push(FieldError::invalid(number.path.clone(), number.int(), wrong));
        }
        let protocol = port.get("protocol");
        protocol.one_of(&["SCTP", "TCP", "UDP"], errors);
        let target = port.get("targetPort");
        match target.value {
            Value::String(text) => {
                errors.extend(name::port_name(text).into_iter().map(|w| target.invalid(w)));
            }
            _ => {
                if let Some(wrong) = name::port(target.int()) {
                    errors.push(FieldError::invalid(target.path.clone(), target.int(), wrong));
                }
            }
        }
        let node = port.get("nodePort");
        if node.int() != 0 {
            if kind == "ClusterIP" {
                errors.push(node.forbidden("may not be used when `type` is 'ClusterIP'"));
            } else if !nodes.insert((protocol.str(), node.int())) {
                errors.push(node.duplicate());
            }
        }
        if !keys.insert((protocol.str(), number.int())) {
            let mut shown = json!({"port": number.int()});
            shown["protocol"] = protocol.value.clone();
            errors.push(FieldError::duplicate(port.path.clone(), shown));
        }
    }
}

fn affinity(spec: &At<'_>, errors: &mut Errors) {
    const DAY: i64 = 86400;
    let kind = spec.get("sessionAffinity");
    kind.one_of(&["ClientIP", "None"], errors);
    let config = spec.get("sessionAffinityConfig");
    if kind.str() == "ClientIP" {
        let timeout = config.dig("clientIP.timeoutSeconds");
        if !(1..=DAY).contains(&timeout.int()) {
            errors.push(timeout.invalid(format!("must be greater than 0 and less than {DAY}")));
        }
    } else if kind.str() == "None" && config.is_set() {
        errors.push(config.forbidden("must not be set when session affinity is None"));
    }
}

fn load_balancer(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    if kind == "LoadBalancer" {
        return;
    }
    for key in ["loadBalancerSourceRanges", "loadBalancerClass"] {
        if !spec.get(key).is_empty() {
            errors.push(spec.get(key).forbidden("may only be used when `type` is 'LoadBalancer'"));
        }
    }
    let allocate = spec.get("allocateLoadBalancerNodePorts");
    if allocate.is_set() {
        errors.push(allocate.forbidden("may only be used when `type` is 'LoadBalancer'"));
    }
}

fn traffic(spec: &At<'_>, errors: &mut Errors) {
    let external = spec.get("externalTrafficPolicy");
    if is_external(spec.value) {
        external.one_of(&["Cluster", "Local"], errors);
    } else if !external.is_empty() {
        errors.push(external.invalid("may only be set for externally-accessible services"));
    }
    let internal = spec.get("internalTrafficPolicy");
    if internal.is_set() {
        internal.one_of_if_set(&["Cluster", "Local"], errors);
    } else if matches!(spec.get("type").str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        errors.push(internal.required(""));
    }
    let distribution = spec.get("trafficDistribution");
    if !distribution.is_empty() {
        distribution.one_of_if_set(&["PreferClose", "PreferSameZone", "PreferSameNode"], errors);
    }
}

fn cluster_ips(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let (one, all) = (spec.get("clusterIP"), spec.get("clusterIPs"));
    if kind == "ExternalName" {
        return;
    }
    let first = all.value.get(0).and_then(Value::as_str).unwrap_or_default();
    if !one.is_empty() && !first.is_empty() && one.str() != first {
        errors.push(all.invalid("first value must match `clusterIP`"));
    } else if one.is_empty() && !first.is_empty() {
        errors.push(all.invalid("must be empty when `clusterIP` is not specified"));
    }
    if all.len() > 2 {
        errors.push(all.invalid("may only hold up to 2 values"));
    }
    for address in all.items() {
        if address.str() != "None" {
            ip(&address, errors);
        }
    }
    for family in spec.get("ipFamilies").items() {
        family.one_of_if_set(&["IPv4", "IPv6"], errors);
    }
    let policy = spec.get("ipFamilyPolicy");
    policy.one_of_if_set(&["PreferDualStack", "RequireDualStack", "SingleStack"], errors);
}

fn ip(at: &At<'_>, errors: &mut Errors) {
    if at.str().parse::<std::net::IpAddr>().is_err() {
        errors.push(at.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
    }
}
