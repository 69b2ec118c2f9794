//! Probes and lifecycle hooks: exactly one handler, sensible numbers.

use ironsail_schema::FieldError;
use serde_json::Value;

use super::super::at::{At, Errors};
use super::super::name;

/// The three probes of a container.
pub(super) fn probes(container: &At<'_>, grace: i64, errors: &mut Errors) {
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(key);
        if !probe.is_set() {
            continue;
        }
        handler(&probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace, errors);
        for number in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            probe.get(number).not_negative(errors);
        }
        let own_grace = probe.get("terminationGracePeriodSeconds");
        if own_grace.is_set() && own_grace.int() <= 0 {
            errors.push(own_grace.invalid("must be greater than 0"));
        }
        if key == "readinessProbe" {
            if own_grace.is_set() {
                errors.push(own_grace.invalid("must not be set for readinessProbes"));
            }
        } else if probe.get("successThreshold").int() != 1 {
            errors.push(probe.get("successThreshold").invalid("must be 1"));
        }
    }
}

/// `lifecycle` of a container.
pub(super) fn lifecycle(container: &At<'_>, grace: i64, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        let hook = container.get("lifecycle").get(hook);
        if hook.is_set() {
            handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace, errors);
        }
    }
}

fn handler(at: &At<'_>, kinds: &[&str], grace: i64, errors: &mut Errors) {
    let mut found = 0;
    for kind in kinds {
        let handler = at.get(kind);
        if !handler.is_set() {
            continue;
        }
        found += 1;
        if found > 1 {
            errors.push(handler.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        match *kind {
            "exec" => {
                handler.get("command").need(errors);
            }
            "httpGet" => http(&handler, errors),
            "sleep" => sleep(&handler, grace, errors),
            _ => port(&handler.get("port"), errors),
        }
    }
    if found == 0 {
        errors.push(at.required("must specify a handler type"));
    }
}

fn http(at: &At<'_>, errors: &mut Errors) {
    at.get("path").need(errors);
    port(&at.get("port"), errors);
    at.get("scheme").one_of_if_set(&["HTTP", "HTTPS"], errors);
    for header in at.get("httpHeaders").items() {
        let text = header.get("name").str();
        let fits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !fits {
            errors.push(FieldError::invalid(
                at.get("httpHeaders").path,
                text,
                "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
                 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
            ));
        }
    }
}

fn sleep(at: &At<'_>, grace: i64, errors: &mut Errors) {
    let seconds = at.get("seconds");
    if seconds.int() < 0 || seconds.int() > grace {
        errors.push(FieldError::invalid(
            at.path.clone(),
            seconds.int(),
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"),
        ));
    }
}

/// A port by number or by name.
pub(super) fn port(at: &At<'_>, errors: &mut Errors) {
    match at.value {
        Value::String(text) => {
            errors.extend(name::port_name(text).into_iter().map(|w| at.invalid(w)));
        }
        _ => {
            if let Some(wrong) = name::port(at.int()) {
                errors.push(FieldError::invalid(at.path.clone(), at.int(), wrong));
            }
        }
    }
}
