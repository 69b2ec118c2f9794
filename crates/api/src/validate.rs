//! What is wrong with an object by itself, beyond what its schema can say.
//!
//! An object comes in, diagnostics go out: errors, for which the webhook refuses it, and warnings. No
//! other object is looked at. The same findings go to status, analysis and log.

mod check;
mod destination_rule;
mod envoy_filter;
mod expression;
mod extension;
mod gateway;
mod http;
mod load_balancing;
pub(crate) mod name;
mod policy;
mod proxy;
mod rate_limit;
mod reach;
mod route;
mod selector;
mod service_entry;
mod sidecar;
mod telemetry;
mod virtual_service;

pub use expression::check_regex;
pub use http::grpc_code;

use check::Check;

use crate::istio::security::Action;
use crate::{Diagnostic, Object};

/// Only an AuthorizationPolicy may be tried without effect.
const DRY_RUN: &str = "istio.io/dry-run";
/// For tests of the webhook itself.
const ALWAYS_REJECT: &str = "internal.istio.io/webhook-always-reject";

/// Everything that is wrong with an object by itself.
#[must_use]
pub fn validate(object: &Object) -> Vec<Diagnostic> {
    let mut check = Check::new(object.kind(), object.meta());
    annotations(&mut check, object);
    check.within("spec", |check| spec(check, object));
    check.into_diagnostics()
}

fn spec(check: &mut Check<'_>, object: &Object) {
    match object {
        Object::TrafficExtension(it) => extension::traffic_extension(check, &it.spec),
        Object::WasmPlugin(it) => extension::wasm_plugin(check, &it.spec),
        Object::DestinationRule(it) => destination_rule::check(check, &it.spec),
        Object::EnvoyFilter(it) => envoy_filter::check(check, &it.spec),
        Object::Gateway(it) => gateway::check(check, &it.spec),
        Object::ProxyConfig(it) => proxy::check(check, &it.spec),
        Object::ServiceEntry(it) => service_entry::check(check, &it.spec),
        Object::Sidecar(it) => sidecar::check(check, &it.spec),
        Object::VirtualService(it) => virtual_service::check(check, &it.spec),
        Object::WorkloadEntry(it) => service_entry::workload_entry(check, &it.spec, None, true),
        Object::WorkloadGroup(it) => service_entry::workload_group(check, &it.spec),
        Object::RateLimitPolicy(it) => rate_limit::check(check, &it.spec),
        Object::AuthorizationPolicy(it) => policy::authorization(check, &it.spec),
        Object::PeerAuthentication(it) => policy::peer_authentication(check, &it.spec),
        Object::RequestAuthentication(it) => policy::request_authentication(check, &it.spec),
        Object::Telemetry(it) => telemetry::check(check, &it.spec),
        // Kubernetes has checked its own.
        Object::Service(_)
        | Object::EndpointSlice(_)
        | Object::Pod(_)
        | Object::Node(_)
        | Object::Namespace(_)
        | Object::Secret(_)
        | Object::ConfigMap(_)
        | Object::ServiceAccount(_)
        | Object::Ingress(_)
        | Object::IngressClass(_) => {}
    }
}

fn annotations(check: &mut Check<'_>, object: &Object) {
    if !object.kind().is_istio() {
        return;
    }
    let annotations = &object.meta().annotations;
    if annotations.contains_key(ALWAYS_REJECT) {
        check.error(format!("{ALWAYS_REJECT:?} annotation found, rejecting"));
    }
    let Some(value) = annotations.get(DRY_RUN) else { return };
    check.within("metadata.annotations", |check| match object {
        Object::AuthorizationPolicy(policy) => match policy.spec.action {
            Action::Allow | Action::Deny => {
                let flags =
                    ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"];
                check.require(flags.contains(&value.as_str()), || {
                    format!("annotation {DRY_RUN} has the invalid value {value:?}")
                });
            }
            action => check.error(format!(
                "the annotation {DRY_RUN} currently only supports action ALLOW/DENY, found action {action}"
            )),
        },
        _ => check.error(format!("unsupported annotation {DRY_RUN}, please remove the annotation")),
    });
}

#[cfg(test)]
mod tests;
