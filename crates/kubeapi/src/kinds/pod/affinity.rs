//! Affinity and spread: where a pod wants to run.

use ironsail_schema::FieldError;

use super::super::at::{At, Errors};
use super::super::{name, selector};

/// `affinity` of a pod.
pub(super) fn validate(affinity: &At<'_>, errors: &mut Errors) {
    let node = affinity.get("nodeAffinity");
    let required = node.get("requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_set() {
        let terms = required.get("nodeSelectorTerms");
        if terms.is_empty() {
            errors.push(terms.required("must have at least one node selector term"));
        }
        terms.items().for_each(|term| node_term(&term, errors));
    }
    for preferred in node.get("preferredDuringSchedulingIgnoredDuringExecution").items() {
        weight(&preferred, errors);
        node_term(&preferred.get("preference"), errors);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.get(key);
        for term in pods.get("requiredDuringSchedulingIgnoredDuringExecution").items() {
            pod_term(&term, errors);
        }
        for term in pods.get("preferredDuringSchedulingIgnoredDuringExecution").items() {
            weight(&term, errors);
            pod_term(&term.get("podAffinityTerm"), errors);
        }
    }
}

fn weight(term: &At<'_>, errors: &mut Errors) {
    let weight = term.get("weight");
    if !(1..=100).contains(&weight.int()) {
        errors.push(weight.invalid("must be in the range 1-100"));
    }
}

fn node_term(term: &At<'_>, errors: &mut Errors) {
    for requirement in term.get("matchExpressions").items() {
        let values = requirement.get("values");
        let wrong = match requirement.get("operator").str() {
            "In" | "NotIn" if values.is_empty() => {
                Some(values.required("must be specified when `operator` is 'In' or 'NotIn'"))
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                Some(values.forbidden(
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ))
            }
            "Gt" | "Lt" if values.len() != 1 => Some(
                values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"),
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => None,
            _ => Some(requirement.get("operator").invalid("not a valid selector operator")),
        };
        errors.extend(wrong);
        let key = requirement.get("key");
        errors.extend(name::label_key(key.str()).into_iter().map(|w| key.invalid(w)));
    }
    for requirement in term.get("matchFields").items() {
        requirement.get("key").one_of_if_set(&["metadata.name"], errors);
        if requirement.get("values").len() != 1 {
            errors.push(requirement.get("values").required(
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ));
        }
    }
}

fn pod_term(term: &At<'_>, errors: &mut Errors) {
    selector::validate(&term.get("labelSelector"), errors);
    selector::validate(&term.get("namespaceSelector"), errors);
    let key = term.get("topologyKey");
    if key.is_empty() {
        errors.push(key.required("can not be empty"));
    }
    for wrong in name::label_key(key.str()) {
        errors.push(FieldError::invalid(key.path.clone(), key.str(), wrong));
    }
}

/// `topologySpreadConstraints` of a pod.
pub(super) fn spread(list: &At<'_>, errors: &mut Errors) {
    for constraint in list.items() {
        let skew = constraint.get("maxSkew");
        if skew.int() <= 0 {
            errors.push(skew.invalid("must be greater than zero"));
        }
        let key = constraint.get("topologyKey");
        if key.is_empty() {
            errors.push(key.required("can not be empty"));
        } else {
            errors.extend(name::label_key(key.str()).into_iter().map(|w| key.invalid(w)));
        }
        constraint
            .get("whenUnsatisfiable")
            .one_of_if_set(&["DoNotSchedule", "ScheduleAnyway"], errors);
        selector::validate(&constraint.get("labelSelector"), errors);
    }
}
