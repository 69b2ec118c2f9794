//! Leases.

use serde_json::{Value, json};

use super::at::{At, Errors};
use super::table::{AGE, NAME, column, created, name};
use super::{BEHAVIOUR, Behaviour, Kind, STORED};

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    package: "coordination.v1",
    behaviour: Behaviour {
        validate,
        columns: &[NAME, column("Holder"), AGE],
        row: |lease, now| {
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            vec![name(lease), json!(holder), created(lease, now)]
        },
        ..BEHAVIOUR
    },
    ..STORED
}];

fn validate(lease: &Value, errors: &mut Errors) {
    let spec = At::root(lease).get("spec");
    let duration = spec.get("leaseDurationSeconds");
    if duration.is_set() && duration.int() <= 0 {
        errors.push(duration.invalid("must be greater than 0"));
    }
    spec.get("leaseTransitions").not_negative(errors);
}
