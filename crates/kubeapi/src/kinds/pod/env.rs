//! Environment variables of containers and references to the fields behind them.

use ironsail_schema::FieldError;

use super::super::at::{At, Errors};
use super::super::name;

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// `env` and `envFrom` of a container.
pub(super) fn validate(container: &At<'_>, errors: &mut Errors) {
    for variable in container.get("env").items() {
        let own = variable.get("name");
        if own.need(errors) {
            errors.extend(name::env_name(own.str()).into_iter().map(|w| own.invalid(w)));
        }
        value_from(&variable, errors);
    }
    for source in container.get("envFrom").items() {
        let prefix = source.get("prefix");
        errors.extend(name::env_name(prefix.str()).into_iter().map(|w| prefix.invalid(w)));
        let given: Vec<_> = ["configMapRef", "secretRef"]
            .iter()
            .map(|key| source.get(key))
            .filter(At::is_set)
            .collect();
        for reference in &given {
            let own = reference.get("name");
            if own.need(errors) {
                errors.extend(name::subdomain(own.str()).into_iter().map(|w| own.invalid(w)));
            }
        }
        let at = container.get("envFrom").path;
        if given.is_empty() {
            let detail = "must specify one of: `configMapRef` or `secretRef`";
            errors.push(FieldError::invalid(at, "", detail));
        } else if given.len() > 1 {
            let detail = "may not have more than one field specified at a time";
            errors.push(FieldError::invalid(at, "", detail));
        }
    }
}

fn value_from(variable: &At<'_>, errors: &mut Errors) {
    let from = variable.get("valueFrom");
    if !from.is_set() {
        return;
    }
    let bad = |detail: &str| FieldError::invalid(from.path.clone(), "", detail);
    let mut sources = 0;
    for key in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let reference = from.get(key);
        if !reference.is_set() {
            continue;
        }
        sources += 1;
        match key {
            "fieldRef" => field(&reference, &ENV_FIELDS, errors),
            "resourceFieldRef" => resource(&reference, false, errors),
            "fileKeyRef" => {
                for key in ["key", "volumeName", "path"] {
                    reference.get(key).need(errors);
                }
            }
            _ => {
                let own = reference.get("name");
                errors.extend(name::subdomain(own.str()).into_iter().map(|w| own.invalid(w)));
                let key = reference.get("key");
                if key.need(errors) {
                    errors.extend(name::config_key(key.str()).into_iter().map(|w| key.invalid(w)));
                }
            }
        }
    }
    if sources == 0 {
        errors
            .push(bad("must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`"));
    } else if !variable.get("value").is_empty() {
        errors.push(bad("may not be specified when `value` is not empty"));
    } else if sources > 1 {
        errors.push(bad("may not have more than one field specified at a time"));
    }
}

/// A `fieldRef` in a volume.
pub(super) fn volume_field(reference: &At<'_>, errors: &mut Errors) {
    field(reference, &VOLUME_FIELDS, errors);
}

/// Fields of a pod that exist at all, whether or not they are allowed in this place.
const FIELDS: [&str; 16] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "spec.hostNetwork",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

fn field(reference: &At<'_>, allowed: &[&str], errors: &mut Errors) {
    reference.get("apiVersion").need(errors);
    let path = reference.get("fieldPath");
    if !path.need(errors) {
        return;
    }
    let text = path.str();
    let Some((base, key)) = subscript(text) else {
        if FIELDS.contains(&text) {
            path.one_of_if_set(allowed, errors);
        } else {
            errors.push(
                path.invalid(format!(
                    "error converting fieldPath: field label not supported: {text}"
                )),
            );
        }
        return;
    };
    let wrong = match base {
        "metadata.labels" => name::label_key(key),
        "metadata.annotations" => name::qualified(&key.to_ascii_lowercase()),
        _ => {
            errors.push(path.invalid(format!(
                "error converting fieldPath: field label does not support subscript: {text}"
            )));
            return;
        }
    };
    errors.extend(wrong.into_iter().map(|w| FieldError::invalid(reference.path.clone(), key, w)));
}

/// Splits `metadata.labels['app']`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (base, rest) = path.strip_suffix("']")?.split_once("['")?;
    Some((base, rest))
}

/// A `resourceFieldRef`; in a volume it must name its container.
pub(super) fn resource(reference: &At<'_>, volume: bool, errors: &mut Errors) {
    if volume {
        reference.get("containerName").need(errors);
    }
    let resource = reference.get("resource");
    if !resource.need(errors) {
        return;
    }
    let huge = ["limits.hugepages-", "requests.hugepages-"];
    if !huge.iter().any(|prefix| resource.str().starts_with(prefix)) {
        resource.one_of_if_set(&RESOURCES, errors);
    }
    let divisor = reference.get("divisor");
    let cpu = resource.str().ends_with(".cpu");
    let bytes = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let fits = matches!(divisor.str(), "" | "0")
        || if cpu { matches!(divisor.str(), "1" | "1m") } else { bytes.contains(&divisor.str()) };
    if !fits {
        let detail = if cpu {
            "only divisor's values 1m and 1 are supported with the cpu resource"
        } else {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are \
             supported with the memory resource"
        };
        errors.push(FieldError::invalid(divisor.path.clone(), resource.value.clone(), detail));
    }
}
