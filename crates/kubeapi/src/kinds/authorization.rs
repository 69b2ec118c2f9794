//! Questions about who may do what: asked and answered, never stored.

use serde_json::Value;

use super::at::{At, Errors};
use super::{BEHAVIOUR, Behaviour, Kind, VIRTUAL};

const AUTHORIZATION: Kind =
    Kind { group: "authorization.k8s.io", package: "authorization.v1", ..VIRTUAL };

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        namespaced: true,
        behaviour: Behaviour { validate: validate_local, ..BEHAVIOUR },
        ..AUTHORIZATION
    },
    Kind {
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        behaviour: Behaviour { validate: attributes, ..BEHAVIOUR },
        ..AUTHORIZATION
    },
    Kind {
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        ..AUTHORIZATION
    },
    Kind {
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        behaviour: Behaviour {
            validate: |review, errors| {
                attributes(review, errors);
                subject(review, errors);
            },
            ..BEHAVIOUR
        },
        ..AUTHORIZATION
    },
];

/// Either a resource or a path is asked about, never both.
fn attributes(review: &Value, errors: &mut Errors) {
    let spec = At::root(review).get("spec");
    let (resource, path) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
    if resource.is_set() && path.is_set() {
        errors.push(path.invalid("cannot be specified in combination with resourceAttributes"));
    } else if !resource.is_set() && !path.is_set() {
        errors.push(resource.invalid(
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ));
    }
}

fn subject(review: &Value, errors: &mut Errors) {
    let spec = At::root(review).get("spec");
    if spec.get("user").is_empty() && spec.get("groups").is_empty() {
        let path = spec.get("user").path;
        let detail = "at least one of user or group must be specified";
        errors.push(ironsail_schema::FieldError::invalid(path, "", detail));
    }
}

fn validate_local(review: &Value, errors: &mut Errors) {
    let at = At::root(review);
    attributes(review, errors);
    subject(review, errors);
    let path = at.dig("spec.nonResourceAttributes");
    if path.is_set() {
        errors.push(path.invalid("disallowed on this kind of request"));
    }
    let resource = at.dig("spec.resourceAttributes.namespace");
    if at.dig("spec.resourceAttributes").is_set()
        && resource.str() != at.dig("metadata.namespace").str()
    {
        errors.push(resource.invalid("must match metadata.namespace"));
    }
}
