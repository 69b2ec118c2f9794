//! Ingresses, IngressClasses and NetworkPolicies; the last are stored only.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::at::{At, Errors, as_map, each, object, set_default, there};
use super::table::{AGE, Column, NAME, column, created, name};
use super::{BEHAVIOUR, Behaviour, Generation, Kind, STORED, meta, selector};

mod validate;

const NETWORKING: Kind = Kind {
    group: "networking.k8s.io",
    package: "networking.v1",
    generation: Generation::Content,
    ..STORED
};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "Ingress",
        plural: "ingresses",
        singular: "ingress",
        short_names: &["ing"],
        subresources: &["status"],
        behaviour: Behaviour {
            validate: validate::ingress,
            columns: INGRESS,
            row: ingress_row,
            ..BEHAVIOUR
        },
        ..NETWORKING
    },
    Kind {
        kind: "IngressClass",
        plural: "ingressclasses",
        singular: "ingressclass",
        namespaced: false,
        behaviour: Behaviour {
            default: |class| {
                if let Some(parameters) = there(object(class, "spec"), "parameters") {
                    set_default(parameters, "scope", "Cluster");
                }
            },
            validate: validate::ingress_class,
            validate_update: |new, old, errors| {
                let (new, old) = (At::root(new), At::root(old));
                meta::immutable(&new.dig("spec.controller"), &old.dig("spec.controller"), errors);
            },
            columns: INGRESS_CLASS,
            row: ingress_class_row,
            ..BEHAVIOUR
        },
        ..NETWORKING
    },
    Kind {
        kind: "NetworkPolicy",
        plural: "networkpolicies",
        singular: "networkpolicy",
        short_names: &["netpol"],
        behaviour: Behaviour {
            default: default_policy,
            validate: validate::network_policy,
            columns: &[NAME, column("Pod-Selector"), AGE],
            row: |policy, now| {
                let pods = selector::text(&policy["spec"]["podSelector"]);
                vec![name(policy), json!(pods), created(policy, now)]
            },
            ..BEHAVIOUR
        },
        ..NETWORKING
    },
];

const INGRESS: &[Column] =
    &[NAME, column("Class"), column("Hosts"), column("Address"), column("Ports"), AGE];
const INGRESS_CLASS: &[Column] = &[NAME, column("Controller"), column("Parameters"), AGE];

fn default_policy(policy: &mut Value) {
    let spec = object(policy, "spec");
    for direction in ["ingress", "egress"] {
        for rule in each(spec, direction) {
            for port in each(rule, "ports") {
                set_default(port, "protocol", "TCP");
            }
        }
    }
    if spec["policyTypes"].as_array().is_none_or(Vec::is_empty) {
        let out = spec["egress"].as_array().is_some_and(|e| !e.is_empty());
        let types = if out { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        as_map(spec).insert("policyTypes".to_owned(), types);
    }
}

fn ingress_row(ingress: &Value, now: SystemTime) -> Vec<Value> {
    const SHOWN: usize = 3;
    let at = At::root(ingress);
    let mut hosts: Vec<String> = Vec::new();
    for rule in at.dig("spec.rules").items() {
        match rule.get("host").str() {
            "" => {}
            host => hosts.push(host.to_owned()),
        }
    }
    let hosts = match hosts.is_empty() {
        true => "*".to_owned(),
        false => super::endpoints::shortened(&hosts, SHOWN),
    };
    let mut addresses: Vec<_> = at
        .dig("status.loadBalancer.ingress")
        .items()
        .map(|i| match i.get("ip").str() {
            "" => i.get("hostname").str().to_owned(),
            ip => ip.to_owned(),
        })
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    let ports = if at.dig("spec.tls").is_empty() { "80" } else { "80, 443" };
    vec![
        name(ingress),
        json!(at.dig("spec.ingressClassName").value.as_str().unwrap_or("<none>")),
        json!(hosts),
        json!(addresses.join(",")),
        json!(ports),
        created(ingress, now),
    ]
}

fn ingress_class_row(class: &Value, now: SystemTime) -> Vec<Value> {
    let at = At::root(class);
    let is_default =
        at.dig("metadata.annotations").get("ingressclass.kubernetes.io/is-default-class").str()
            == "true";
    let suffix = if is_default { " (default)" } else { "" };
    let parameters = at.dig("spec.parameters");
    let shown = if parameters.is_set() {
        let group = parameters.get("apiGroup").str();
        let dot = if group.is_empty() { "" } else { "." };
        let kind = parameters.get("kind").str();
        format!("{kind}{dot}{group}/{}", parameters.get("name").str())
    } else {
        "<none>".to_owned()
    };
    vec![
        json!(format!("{}{suffix}", at.dig("metadata.name").str())),
        json!(at.dig("spec.controller").str()),
        json!(shown),
        created(class, now),
    ]
}

/// A port by number or by name.
fn port(at: &At<'_>, errors: &mut Errors) {
    match at.value {
        Value::String(text) => {
            errors.extend(super::name::port_name(text).into_iter().map(|w| at.invalid(w)));
        }
        _ => {
            if let Some(wrong) = super::name::port(at.int()) {
                errors.push(at.invalid(wrong));
            }
        }
    }
}
