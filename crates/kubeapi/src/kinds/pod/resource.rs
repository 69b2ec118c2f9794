//! Resource requests and limits: their rules, and the quality of service that follows from them.

use ironsail_schema::FieldError;
use serde_json::Value;

use super::super::at::{At, Errors};
use super::super::name;
use super::super::quantity::Quantity;

const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// `resources` of a container.
pub(super) fn validate(resources: &At<'_>, claims: &[&str], errors: &mut Errors) {
    let limits = resources.get("limits");
    for (key, amount) in limits.entries() {
        resource_name(key, &amount, errors);
        quantity(&amount, errors);
    }
    for (key, amount) in resources.get("requests").entries() {
        resource_name(key, &amount, errors);
        quantity(&amount, errors);
        let limit = limits.get(key);
        let (Ok(asked), Ok(allowed)) =
            (Quantity::parse(amount.str()), Quantity::parse(limit.str()))
        else {
            if !overcommits(key) {
                errors.push(FieldError::required(
                    limits.path.clone(),
                    "Limit must be set for non overcommitable resources",
                ));
            }
            continue;
        };
        // The real server reports these at `requests` without a key.
        let at =
            |text: String| FieldError::invalid(resources.get("requests").path, amount.str(), text);
        if asked.nanos() != allowed.nanos() && !overcommits(key) {
            errors.push(at(format!("must be equal to {key} limit of {}", limit.str())));
        } else if asked.nanos() > allowed.nanos() {
            errors
                .push(at(format!("must be less than or equal to {key} limit of {}", limit.str())));
        }
    }
    for claim in resources.get("claims").items() {
        if !claims.contains(&claim.get("name").str()) {
            errors.push(FieldError::new(
                claim.path.clone(),
                ironsail_schema::Reason::NotFound,
                claim.get("name").value.clone(),
                "must be one of the names in pod.spec.resourceClaims which are not declared",
            ));
        }
    }
}

fn overcommits(name: &str) -> bool {
    !(name.contains('/') || name.starts_with("hugepages-"))
}

fn resource_name(name: &str, at: &At<'_>, errors: &mut Errors) {
    let bad = |detail: String| FieldError::invalid(at.path.clone(), name, detail);
    let wrong = name::qualified(name);
    if !wrong.is_empty() {
        errors.extend(wrong.into_iter().map(bad));
    } else if !name.contains('/') && !STANDARD.contains(&name) && !name.starts_with("hugepages-") {
        errors.push(bad("must be a standard resource type or fully qualified".to_owned()));
        errors.push(bad("must be a standard resource for containers".to_owned()));
    }
}

/// A quantity that may not be negative.
pub(in crate::kinds) fn quantity(at: &At<'_>, errors: &mut Errors) {
    if Quantity::parse(at.str()).is_ok_and(|q| q.nanos() < 0) {
        errors.push(at.invalid("must be greater than or equal to 0"));
    }
}

/// `Guaranteed` where every container limits what it requests, `Burstable` where some request
/// something, else `BestEffort`.
pub(super) fn quality_of_service(spec: &Value) -> &'static str {
    let spec = At::root(spec);
    let own = spec.get("resources");
    let whole: Vec<At<'_>> = if own.get("requests").is_empty() && own.get("limits").is_empty() {
        ["containers", "initContainers"]
            .iter()
            .flat_map(|list| spec.get(list).items().map(|c| c.get("resources")).collect::<Vec<_>>())
            .collect()
    } else {
        vec![own]
    };
    let positive = |at: At<'_>| Quantity::parse(at.str()).is_ok_and(|q| q.nanos() > 0);
    let some = |r: &At<'_>| {
        ["requests", "limits"]
            .iter()
            .any(|kind| ["cpu", "memory"].iter().any(|name| positive(r.get(kind).get(name))))
    };
    let full = |r: &At<'_>| {
        ["cpu", "memory"].iter().all(|name| {
            let (request, limit) = (r.get("requests").get(name), r.get("limits").get(name));
            positive(limit.clone()) && (request.is_empty() || request.value == limit.value)
        })
    };
    if whole.iter().all(full) && !whole.is_empty() {
        "Guaranteed"
    } else if whole.iter().any(some) {
        "Burstable"
    } else {
        "BestEffort"
    }
}
