//! `EnvoyFilter`: do kind of object, condition and patch fit together?
//!
//! Whether the value is an Envoy object is for the translator to say, which knows Envoy's types.

use super::check::Check;
use super::name::head;
use super::selector;
use crate::istio::networking::{
    ApplyTo, EnvoyConfigObjectMatch, EnvoyConfigObjectPatch, EnvoyFilter, FilterMatch, ObjectMatch,
    Operation, Patch, PatchContext,
};
use crate::{Code, Severity};

const HTTP_MANAGER: &str = "envoy.filters.network.http_connection_manager";

/// Names of filters that Envoy no longer knows, and what they are called now.
const OLD_NAMES: [(&str, &str); 12] = [
    ("envoy.http_connection_manager", HTTP_MANAGER),
    ("envoy.tcp_proxy", "envoy.filters.network.tcp_proxy"),
    ("envoy.mongo_proxy", "envoy.filters.network.mongo_proxy"),
    ("envoy.redis_proxy", "envoy.filters.network.redis_proxy"),
    ("envoy.ratelimit", "envoy.filters.network.ratelimit"),
    ("envoy.router", "envoy.filters.http.router"),
    ("envoy.cors", "envoy.filters.http.cors"),
    ("envoy.fault", "envoy.filters.http.fault"),
    ("envoy.lua", "envoy.filters.http.lua"),
    ("envoy.rate_limit", "envoy.filters.http.ratelimit"),
    ("envoy.grpc_web", "envoy.filters.http.grpc_web"),
    ("envoy.health_check", "envoy.filters.http.health_check"),
];

pub(super) fn check(check: &mut Check<'_>, filter: &EnvoyFilter) {
    check.warn(
        "EnvoyFilter exposes internal implementation details that may change at any time. Prefer other APIs if possible, and exercise extreme caution, especially around upgrades.",
    );
    selector::older(check, "Envoy filter", filter.workload_selector.as_ref());
    check.require(
        filter.workload_selector.is_none() || filter.target_refs.is_empty(),
        || "only one of targetRefs or workloadSelector can be set",
    );
    check.each("targetRefs", &filter.target_refs, selector::target);
    check.each("configPatches", &filter.config_patches, |check, one| {
        patch(check, one);
        if let Some(patch) = &one.patch {
            operation(check, one.apply_to, patch, filter.priority);
        }
    });
}

fn patch(check: &mut Check<'_>, one: &EnvoyConfigObjectPatch) {
    if one.apply_to == ApplyTo::Invalid {
        return check.error("Envoy filter: missing applyTo");
    }
    let Some(patch) = &one.patch else {
        return check.error("Envoy filter: missing patch");
    };
    if patch.operation == Operation::Invalid {
        return check.error("Envoy filter: missing patch operation");
    }
    check.require(
        patch.operation == Operation::Remove || patch.value.is_some(),
        || "Envoy filter: missing patch value for non-remove operation",
    );
    check.some("match", one.r#match.as_ref(), |check, condition| {
        object_match(check, one.apply_to, condition);
    });
    if let Some(value) = &patch.value {
        typed_config(check, one.apply_to, value);
    }
}

fn object_match(check: &mut Check<'_>, apply_to: ApplyTo, condition: &EnvoyConfigObjectMatch) {
    check.some("proxy", condition.proxy.as_ref(), |check, proxy| {
        if !proxy.proxy_version.is_empty()
            && let Err(reason) = super::check_regex(&proxy.proxy_version)
        {
            check.error(format!("Envoy filter: invalid regex for proxy version, [{reason}]"));
        }
    });
    let waypoint = matches!(condition.object, ObjectMatch::Waypoint(_));
    let at_waypoint = condition.context == PatchContext::Waypoint;
    if at_waypoint != waypoint && (waypoint || !condition.object.is_unset()) {
        return check.error("only support waypointMatch when context is WAYPOINT");
    }
    use ObjectMatch::{Cluster, Listener, RouteConfiguration, Unset, Waypoint};
    match (apply_to, &condition.object) {
        (_, Unset | Waypoint(_)) | (ApplyTo::ExtensionConfig | ApplyTo::Bootstrap, _) => {}
        (
            ApplyTo::Listener
            | ApplyTo::FilterChain
            | ApplyTo::NetworkFilter
            | ApplyTo::HttpFilter
            | ApplyTo::ListenerFilter,
            Listener(listener),
        ) => {
            let filter = listener.filter_chain.as_ref().and_then(|chain| chain.filter.as_ref());
            check.some("listener.filterChain.filter", filter, |check, filter| {
                filter_match(check, apply_to, filter);
            });
        }
        (
            ApplyTo::RouteConfiguration | ApplyTo::VirtualHost | ApplyTo::HttpRoute,
            RouteConfiguration(_),
        )
        | (ApplyTo::Cluster, Cluster(_)) => {}
        (ApplyTo::Cluster, _) => {
            check.error("Envoy filter: applyTo for cluster class objects cannot have non cluster match");
        }
        (ApplyTo::RouteConfiguration | ApplyTo::VirtualHost | ApplyTo::HttpRoute, _) => check.error(
            "Envoy filter: applyTo for http route class objects cannot have non route configuration match",
        ),
        (_, _) => check.error(
            "Envoy filter: applyTo for listener class objects cannot have non listener match",
        ),
    }
}

fn filter_match(check: &mut Check<'_>, apply_to: ApplyTo, filter: &FilterMatch) {
    if matches!(apply_to, ApplyTo::Listener | ApplyTo::FilterChain) {
        check.warn(format!("Envoy filter: filter match has no effect when used with {apply_to}"));
    }
    if filter.name.is_empty() {
        return check.error("Envoy filter: filter match has no name to match on");
    }
    old_name(check, &filter.name);
    let Some(inner) = &filter.sub_filter else { return };
    if apply_to != ApplyTo::HttpFilter {
        return check
            .error("Envoy filter: subfilter match can be used with applyTo HTTP_FILTER only");
    }
    if ![HTTP_MANAGER, "envoy.http_connection_manager"].contains(&filter.name.as_str()) {
        return check.error(format!(
            "Envoy filter: subfilter match requires filter match with {HTTP_MANAGER}"
        ));
    }
    if inner.name.is_empty() {
        return check.error("Envoy filter: subfilter match has no name to match on");
    }
    old_name(check, &inner.name);
}

fn old_name(check: &mut Check<'_>, name: &str) {
    if let Some((_, new)) = OLD_NAMES.iter().find(|(old, _)| *old == name) {
        check.deprecated(format!("using deprecated filter name {name:?}; use {new:?} instead"));
    }
}

/// Envoy finds a filter by the type of its configuration, not by its name.
fn typed_config(check: &mut Check<'_>, apply_to: ApplyTo, value: &crate::Struct) {
    let is_filter = matches!(
        apply_to,
        ApplyTo::HttpFilter
            | ApplyTo::NetworkFilter
            | ApplyTo::ListenerFilter
            | ApplyTo::ExtensionConfig
    );
    let has = |name: &str| value.0.contains_key(name);
    if is_filter
        && has("name")
        && !["typed_config", "typedConfig", "config_discovery", "configDiscovery"]
            .into_iter()
            .any(has)
    {
        let name = value.0.get("name").and_then(|name| name.as_str()).unwrap_or_default();
        check.warn(format!("using deprecated types by name without typed_config; {}", head(name)));
    }
}

/// Operations that have no effect, or one that depends on the order of objects.
fn operation(check: &mut Check<'_>, apply_to: ApplyTo, patch: &Patch, priority: i32) {
    let relative = matches!(
        patch.operation,
        Operation::InsertBefore
            | Operation::InsertAfter
            | Operation::InsertFirst
            | Operation::Replace
    );
    if relative && priority == 0 {
        check.found(
            Code::RELATIVE_OPERATION,
            Severity::Warning,
            "This EnvoyFilter does not have a priority and has a relative patch operation set which can cause the EnvoyFilter not to be applied. Using the INSERT_FIRST or ADD option or setting the priority may help in ensuring the EnvoyFilter is applied correctly.",
        );
    }
    if patch.operation == Operation::Replace
        && !matches!(
            apply_to,
            ApplyTo::HttpFilter | ApplyTo::NetworkFilter | ApplyTo::ListenerFilter
        )
    {
        check.found(
            Code::REPLACE_OPERATION,
            Severity::Warning,
            "The REPLACE operation is only valid for HTTP_FILTER and NETWORK_FILTER.",
        );
    }
    let ignored = match (patch.operation, apply_to) {
        (Operation::Add, ApplyTo::RouteConfiguration | ApplyTo::HttpRoute) => {
            Some((Code::ADD_OPERATION, "ADD"))
        }
        (Operation::Remove, ApplyTo::RouteConfiguration) => {
            Some((Code::REMOVE_OPERATION, "REMOVE"))
        }
        _ => None,
    };
    if let Some((code, name)) = ignored {
        check.found(
            code,
            Severity::Warning,
            format!("The {name} operation will be ignored when applyTo is set to {apply_to}."),
        );
    }
}
