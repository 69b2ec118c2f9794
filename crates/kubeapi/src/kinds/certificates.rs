//! CertificateSigningRequests. Who asks is filled in by the caller, who knows the user.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use serde_json::{Value, json};

use super::at::{At, Errors, as_map, object};
use super::table::{AGE, Column, NAME, column, created, name, or_none};
use super::{BEHAVIOUR, Behaviour, Kind, STORED};

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "certificates.k8s.io",
    kind: "CertificateSigningRequest",
    plural: "certificatesigningrequests",
    singular: "certificatesigningrequest",
    short_names: &["csr"],
    namespaced: false,
    subresources: &["approval", "status"],
    package: "certificates.v1",
    behaviour: Behaviour {
        prepare_update,
        validate,
        columns: COLUMNS,
        row,
        selectable: &["spec.signerName"],
        ..BEHAVIOUR
    },
    ..STORED
}];

const COLUMNS: &[Column] = &[
    NAME,
    AGE,
    column("SignerName"),
    column("Requestor"),
    column("RequestedDuration"),
    column("Condition"),
];

/// The request itself never changes; approval and issue each have their endpoint.
fn prepare_update(new: &mut Value, old: &Value, subresource: Option<&str>) {
    super::at::restore(new, old, "spec");
    let decided = |c: &Value| c["type"] == "Approved" || c["type"] == "Denied";
    let conditions =
        |obj: &Value| obj["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let (after, before) = (conditions(new), conditions(old));
    match subresource {
        Some("approval") => {
            super::at::restore(new, old, "status");
            as_map(object(new, "status")).insert("conditions".to_owned(), Value::Array(after));
        }
        Some("status") => {
            let mut kept: Vec<_> = before.into_iter().filter(decided).collect();
            kept.extend(after.into_iter().filter(|c| !decided(c)));
            if !kept.is_empty() {
                as_map(object(new, "status")).insert("conditions".to_owned(), Value::Array(kept));
            }
        }
        _ => {}
    }
}

fn validate(request: &Value, errors: &mut Errors) {
    let at = At::root(request);
    let spec = at.get("spec");
    pem_request(&spec.get("request"), errors);
    spec.get("usages").need(errors);
    let signer = spec.get("signerName");
    if signer.need(errors) && !signer.str().contains('/') {
        errors.push(signer.invalid(
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ));
    }
    let seconds = spec.get("expirationSeconds");
    if seconds.is_set() && seconds.int() < 600 {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(seconds.invalid(detail));
    }
    let conditions = at.dig("status.conditions");
    let has = |kind: &str| conditions.items().any(|c| c.get("type").str() == kind);
    if has("Approved") && has("Denied") {
        errors.push(ironsail_schema::FieldError::invalid(
            conditions.path.clone(),
            "Denied",
            "Approved and Denied conditions are mutually exclusive",
        ));
    }
    for condition in conditions.items() {
        condition.get("type").need(errors);
        condition.get("status").one_of(&["False", "True", "Unknown"], errors);
    }
}

fn pem_request(request: &At<'_>, errors: &mut Errors) {
    let bytes = base64::engine::general_purpose::STANDARD.decode(request.str()).unwrap_or_default();
    if !String::from_utf8_lossy(&bytes).contains("-----BEGIN CERTIFICATE REQUEST-----") {
        errors.push(request.invalid("PEM block type must be CERTIFICATE REQUEST"));
    }
}

fn row(request: &Value, now: SystemTime) -> Vec<Value> {
    let at = At::root(request);
    let has = |kind: &str| at.dig("status.conditions").items().any(|c| c.get("type").str() == kind);
    let mut state = if has("Denied") {
        "Denied".to_owned()
    } else if has("Approved") {
        "Approved".to_owned()
    } else {
        "Pending".to_owned()
    };
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !at.dig("status.certificate").is_empty() {
        state.push_str(",Issued");
    }
    let duration = request["spec"]["expirationSeconds"].as_u64().map_or_else(
        || "<none>".to_owned(),
        |seconds| super::human_duration(Duration::from_secs(seconds)),
    );
    vec![
        name(request),
        created(request, now),
        or_none(&request["spec"]["signerName"]),
        json!(at.dig("spec.username").str()),
        json!(duration),
        json!(state),
    ]
}
