//! Questions about who someone is: asked and answered, never stored.

use serde_json::Value;

use super::at::{At, Errors, object, set_default};
use super::{BEHAVIOUR, Behaviour, Kind, VIRTUAL};

const AUTHENTICATION: Kind =
    Kind { group: "authentication.k8s.io", package: "authentication.v1", ..VIRTUAL };

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        ..AUTHENTICATION
    },
    Kind { kind: "TokenReview", plural: "tokenreviews", singular: "tokenreview", ..AUTHENTICATION },
];

/// The body of `serviceaccounts/token`.
pub(super) const TOKEN_REQUEST: Behaviour = Behaviour {
    default: |request| set_default(object(request, "spec"), "expirationSeconds", 3600),
    validate: validate_request,
    ..BEHAVIOUR
};

fn validate_request(request: &Value, errors: &mut Errors) {
    let seconds = At::root(request).dig("spec.expirationSeconds");
    if seconds.int() < 600 {
        errors.push(seconds.invalid("may not specify a duration less than 10 minutes"));
    } else if seconds.int() > 1 << 32 {
        errors.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
    }
}
