//! Containers and init containers of a pod.

use std::collections::HashSet;

use ironsail_schema::FieldError;
use serde_json::Value;

use super::super::at::{At, Errors};
use super::super::name;
use super::{env, probe, resource, security, volume};

/// What containers are checked against.
pub(super) struct Around<'a> {
    pub(super) volumes: HashSet<&'a str>,
    pub(super) claims: Vec<&'a str>,
    pub(super) grace: i64,
    /// A pod's own containers may not even have blanks around the image.
    pub(super) in_pod: bool,
}

/// Both lists of a pod spec.
pub(super) fn validate(spec: &At<'_>, around: &Around<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    regular(&spec.get("containers"), around, &mut names, errors);
    init(&spec.get("initContainers"), around, &mut names, errors);
    if spec.get("hostNetwork").bool() {
        for port in
            spec.get("containers").items().flat_map(|c| c.get("ports").items().collect::<Vec<_>>())
        {
            let host = port.get("hostPort");
            // In a template the port may be left to the pod's own defaults.
            if host.int() != 0 && host.int() != port.get("containerPort").int() {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(host.path.clone(), host.int(), detail));
            }
        }
    }
}

fn regular<'a>(
    list: &At<'a>,
    around: &Around<'_>,
    names: &mut HashSet<&'a str>,
    errors: &mut Errors,
) {
    if list.is_empty() {
        errors.push(list.required(""));
        return;
    }
    for container in list.items() {
        one(&container, around, errors);
        unique(&container, names, errors);
        probe::lifecycle(&container, around.grace, errors);
        probe::probes(&container, around.grace, errors);
        let policy = container.get("restartPolicy");
        policy.one_of_if_set(&["Always", "Never", "OnFailure"], errors);
    }
    host_ports(list, errors);
}

fn init<'a>(list: &At<'a>, around: &Around<'_>, names: &mut HashSet<&'a str>, errors: &mut Errors) {
    for container in list.items() {
        one(&container, around, errors);
        let policy = container.get("restartPolicy");
        policy.one_of_if_set(&["Always", "Never", "OnFailure"], errors);
        unique(&container, names, errors);
        if policy.str() == "Always" {
            probe::lifecycle(&container, around.grace, errors);
            probe::probes(&container, around.grace, errors);
            continue;
        }
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let field = container.get(key);
            if field.is_set() {
                errors.push(
                    field.forbidden(
                        "may not be set for init containers without restartPolicy=Always",
                    ),
                );
            }
        }
    }
}

fn unique<'a>(container: &At<'a>, names: &mut HashSet<&'a str>, errors: &mut Errors) {
    let own = container.get("name");
    if !own.is_empty() && !names.insert(own.str()) {
        errors.push(own.duplicate());
    }
}

fn one(container: &At<'_>, around: &Around<'_>, errors: &mut Errors) {
    let own = container.get("name");
    if own.need(errors) {
        errors.extend(name::label(own.str()).into_iter().map(|w| own.invalid(w)));
    }
    let image = container.get("image");
    if image.str().trim().is_empty() && (!image.str().is_empty() || around.in_pod)
        || image.is_empty()
    {
        errors.push(image.required(""));
    } else if image.str() != image.str().trim() && around.in_pod {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
    container.get("terminationMessagePolicy").one_of(&["FallbackToLogsOnError", "File"], errors);
    ports(&container.get("ports"), errors);
    env::validate(container, errors);
    volume::mounts(container, &around.volumes, errors);
    container.get("imagePullPolicy").one_of(&["Always", "IfNotPresent", "Never"], errors);
    resource::validate(&container.get("resources"), &around.claims, errors);
    security::container(&container.get("securityContext"), errors);
}

fn ports(list: &At<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for port in list.items() {
        let own = port.get("name");
        if !own.is_empty() {
            let wrong = name::port_name(own.str());
            if wrong.is_empty() {
                if !names.insert(own.str()) {
                    errors.push(own.duplicate());
                }
            } else {
                errors.extend(wrong.into_iter().map(|w| own.invalid(w)));
            }
        }
        let number = port.get("containerPort");
        if number.int() == 0 {
            errors.push(number.required(""));
        } else if let Some(wrong) = name::port(number.int()) {
            errors.push(number.invalid(wrong));
        }
        let host = port.get("hostPort");
        if host.int() != 0
            && let Some(wrong) = name::port(host.int())
        {
            errors.push(host.invalid(wrong));
        }
        port.get("protocol").one_of(&["SCTP", "TCP", "UDP"], errors);
    }
}

/// A host port can be taken only once per address and protocol.
fn host_ports(list: &At<'_>, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for container in list.items() {
        for port in container.get("ports").items() {
            let host = port.get("hostPort");
            if host.int() == 0 {
                continue;
            }
            let key = format!(
                "{}/{}/{}",
                port.get("protocol").str(),
                port.get("hostIP").str(),
                host.int()
            );
            if !taken.insert(key.clone()) {
                errors.push(FieldError::duplicate(host.path.clone(), Value::from(key)));
            }
        }
    }
}
