//! The rules of Ingresses, IngressClasses and NetworkPolicies.

use std::net::IpAddr;

use ironsail_schema::FieldError;
use serde_json::Value;

use super::super::at::{At, Errors};
use super::super::{name, selector};
use super::port;

pub(super) fn ingress(ingress: &Value, errors: &mut Errors) {
    let at = At::root(ingress);
    let spec = at.get("spec");
    let backend_set = spec.get("defaultBackend");
    if spec.get("rules").is_empty() && !backend_set.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", Value::Null, detail));
    }
    if backend_set.is_set() {
        backend(&backend_set, errors);
    }
    for rule in spec.get("rules").items() {
        host(&rule.get("host"), errors);
        let http = rule.get("http");
        if http.is_set() {
            if http.get("paths").is_empty() {
                errors.push(http.get("paths").required(""));
            }
            http.get("paths").items().for_each(|p| path(&p, errors));
        }
    }
    for tls in spec.get("tls").items() {
        for name in tls.get("hosts").items() {
            dns_name(&name, errors);
        }
        let secret = tls.get("secretName");
        if !secret.is_empty() {
            errors.extend(name::subdomain(secret.str()).into_iter().map(|w| secret.invalid(w)));
        }
    }
    let class = spec.get("ingressClassName");
    if class.is_set() {
        errors.extend(name::subdomain(class.str()).into_iter().map(|w| class.invalid(w)));
    }
}

fn host(at: &At<'_>, errors: &mut Errors) {
    if at.is_empty() {
        return;
    }
    if at.str().parse::<IpAddr>().is_ok() {
        errors.push(at.invalid("must be a DNS name, not an IP address"));
    }
    dns_name(at, errors);
}

fn dns_name(at: &At<'_>, errors: &mut Errors) {
    let wrong = if at.str().contains('*') {
        name::wildcard_subdomain(at.str())
    } else {
        name::subdomain(at.str())
    };
    errors.extend(wrong.into_iter().map(|w| at.invalid(w)));
}

fn path(at: &At<'_>, errors: &mut Errors) {
    let (kind, path) = (at.get("pathType"), at.get("path"));
    let text = path.str();
    if !kind.is_set() {
        errors.push(kind.required("pathType must be specified"));
        return;
    }
    match kind.str() {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errors.push(FieldError::invalid(
                    path.path.clone(),
                    text,
                    "must be an absolute path",
                ));
            }
            for bad in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(bad) {
                    errors.push(path.invalid(format!("must not contain '{bad}'")));
                }
            }
            for bad in ["/..", "/."] {
                if text.ends_with(bad) {
                    errors.push(path.invalid(format!("cannot end with '{bad}'")));
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                errors.push(path.invalid("must be an absolute path"));
            }
        }
        _ => kind.one_of_if_set(&["Exact", "ImplementationSpecific", "Prefix"], errors),
    }
    backend(&at.get("backend"), errors);
}

fn backend(at: &At<'_>, errors: &mut Errors) {
    let (service, resource) = (at.get("service"), at.get("resource"));
    let bad = |detail: &str| FieldError::invalid(at.path.clone(), "", detail);
    if resource.is_set() {
        if service.is_set() {
            errors.push(bad("cannot set both resource and service backends"));
            return;
        }
        resource.get("kind").need(errors);
        resource.get("name").need(errors);
    } else if service.is_set() {
        let own = service.get("name");
        if own.need(errors) {
            errors.extend(name::label(own.str()).into_iter().map(|w| own.invalid(w)));
        }
        let (named, numbered) = (service.dig("port.name"), service.dig("port.number"));
        if !named.is_empty() && numbered.int() != 0 {
            errors.push(bad("cannot set both port name & port number"));
        }
        if !named.is_empty() {
            errors.extend(name::port_name(named.str()).into_iter().map(|w| named.invalid(w)));
        } else if numbered.int() != 0 {
            if let Some(wrong) = name::port(numbered.int()) {
                errors.push(numbered.invalid(wrong));
            }
        } else {
            errors.push(at.required("port name or number is required"));
        }
    } else {
        errors.push(bad("resource or service backend is required"));
    }
}

pub(super) fn ingress_class(class: &Value, errors: &mut Errors) {
    let spec = At::root(class).get("spec");
    let controller = spec.get("controller");
    if !controller.is_empty() {
        let (domain, path) = controller.str().split_once('/').unwrap_or((controller.str(), ""));
        if path.is_empty() {
            errors.push(
                controller.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")"),
            );
        }
        errors.extend(name::subdomain(domain).into_iter().map(|w| controller.invalid(w)));
    }
    let parameters = spec.get("parameters");
    if parameters.is_set() {
        parameters.get("kind").need(errors);
        parameters.get("name").need(errors);
        parameters.get("scope").one_of_if_set(&["Cluster", "Namespace"], errors);
        let namespace = parameters.get("namespace");
        match parameters.get("scope").str() {
            "Namespace" if namespace.is_empty() => {
                errors.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
            }
            "Cluster" if !namespace.is_empty() => {
                errors.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'"));
            }
            _ => {}
        }
    }
}

pub(super) fn network_policy(policy: &Value, errors: &mut Errors) {
    let spec = At::root(policy).get("spec");
    selector::validate(&spec.get("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.get(direction).items() {
            for item in rule.get("ports").items() {
                item.get("protocol").one_of_if_set(&["TCP", "UDP", "SCTP"], errors);
                if item.get("port").is_set() {
                    port(&item.get("port"), errors);
                } else if item.get("endPort").is_set() {
                    let detail = "may not be specified when `port` is not specified";
                    errors.push(item.get("endPort").invalid(detail));
                }
            }
            rule.get(peers).items().for_each(|p| peer(&p, errors));
        }
    }
    for kind in spec.get("policyTypes").items() {
        kind.one_of_if_set(&["Ingress", "Egress"], errors);
    }
}

fn peer(at: &At<'_>, errors: &mut Errors) {
    let (pods, namespaces, block) =
        (at.get("podSelector"), at.get("namespaceSelector"), at.get("ipBlock"));
    let selected = pods.is_set() || namespaces.is_set();
    selector::validate(&pods, errors);
    selector::validate(&namespaces, errors);
    if !selected && !block.is_set() {
        errors.push(at.required("must specify a peer"));
    } else if selected && block.is_set() {
        errors.push(at.forbidden("may not specify both ipBlock and another peer"));
    }
    if block.is_set() {
        for cidr in std::iter::once(block.get("cidr")).chain(block.get("except").items()) {
            if cidr.str().parse::<ipnet::IpNet>().is_err() {
                errors.push(
                    cidr.invalid("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
                );
            }
        }
    }
}
