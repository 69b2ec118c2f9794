//! What is filled in for pods and pod templates.

use serde_json::{Map, Value, json};

use super::super::at::{as_map, each, object, set_default, set_if_zero, there};
use super::super::quantity::Quantity;

/// A pod itself gets a little more than a template.
pub(super) fn pod(pod: &mut Value) {
    let pod_spec = object(pod, "spec");
    spec(pod_spec);
    set_default(pod_spec, "enableServiceLinks", true);
    let host_network = pod_spec["hostNetwork"] == true;
    for list in ["initContainers", "containers"] {
        for container in each(pod_spec, list) {
            requests_from_limits(container);
            if host_network {
                for port in each(container, "ports") {
                    let number = port["containerPort"].clone();
                    set_if_zero(port, "hostPort", number);
                }
            }
        }
    }
    if let Some(resources) = there(pod_spec, "resources") {
        merge_missing(resources, "requests", "limits");
    }
}

/// The spec of a pod or template.
pub(in crate::kinds) fn spec(spec: &mut Value) {
    set_if_zero(spec, "dnsPolicy", "ClusterFirst");
    set_if_zero(spec, "restartPolicy", "Always");
    set_default(spec, "securityContext", json!({}));
    set_default(spec, "terminationGracePeriodSeconds", 30);
    set_if_zero(spec, "schedulerName", "default-scheduler");
    account(spec);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list).for_each(container);
    }
    each(spec, "volumes").for_each(volume);
    if let Some(overhead) = there(spec, "overhead") {
        resource_list(overhead);
    }
    for list in ["requests", "limits"] {
        if let Some(list) = spec.get_mut("resources").and_then(|r| there(r, list)) {
            resource_list(list);
        }
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; they mirror each other.
fn account(spec: &mut Value) {
    let of = |key: &str| spec.get(key).and_then(Value::as_str).filter(|s| !s.is_empty());
    if let Some(name) = of("serviceAccountName").or(of("serviceAccount")).map(str::to_owned) {
        let map = as_map(spec);
        map.insert("serviceAccountName".to_owned(), json!(name));
        map.insert("serviceAccount".to_owned(), json!(name));
    }
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default().to_owned();
    set_if_zero(container, "imagePullPolicy", pull_policy(&image));
    set_if_zero(container, "terminationMessagePath", "/dev/termination-log");
    set_if_zero(container, "terminationMessagePolicy", "File");
    for port in each(container, "ports") {
        set_if_zero(port, "protocol", "TCP");
    }
    for variable in each(container, "env") {
        if let Some(field) = variable.get_mut("valueFrom").and_then(|v| there(v, "fieldRef")) {
            set_if_zero(field, "apiVersion", "v1");
        }
        let file = variable.get_mut("valueFrom").and_then(|v| there(v, "fileKeyRef"));
        if let Some(file) = file {
            set_default(file, "optional", false);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = there(container, key) {
            probe(found);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(found) = container.get_mut("lifecycle").and_then(|l| there(l, hook)) {
            handler(found);
        }
    }
    for list in ["requests", "limits"] {
        if let Some(list) = container.get_mut("resources").and_then(|r| there(r, list)) {
            resource_list(list);
        }
    }
}

/// A moving tag is pulled again and again; a fixed one is not.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(n, d)| (n, Some(d)));
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag);
    match (tag, digest) {
        (Some("latest"), _) => "Always",
        (None, None) if !image.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

fn probe(probe: &mut Value) {
    set_if_zero(probe, "timeoutSeconds", 1);
    set_if_zero(probe, "periodSeconds", 10);
    set_if_zero(probe, "successThreshold", 1);
    set_if_zero(probe, "failureThreshold", 3);
    if let Some(grpc) = there(probe, "grpc") {
        set_default(grpc, "service", "");
    }
    handler(probe);
}

fn handler(handler: &mut Value) {
    if let Some(http) = there(handler, "httpGet") {
        set_if_zero(http, "path", "/");
        set_if_zero(http, "scheme", "HTTP");
    }
}

fn volume(volume: &mut Value) {
    if as_map(volume).keys().all(|key| key == "name") {
        set_default(volume, "emptyDir", json!({}));
    }
    for kind in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = there(volume, kind) {
            set_default(source, "defaultMode", 0o644);
        }
    }
    if let Some(source) = there(volume, "downwardAPI") {
        downward_items(source);
    }
    for source in volume.get_mut("projected").into_iter().flat_map(|p| each(p, "sources")) {
        if let Some(token) = there(source, "serviceAccountToken") {
            set_default(token, "expirationSeconds", 3600);
        }
        if let Some(certificate) = there(source, "podCertificate") {
            set_default(certificate, "maxExpirationSeconds", 86400);
        }
        if let Some(downward) = there(source, "downwardAPI") {
            downward_items(downward);
        }
    }
    if let Some(host) = there(volume, "hostPath") {
        set_default(host, "type", "");
    }
    if let Some(image) = there(volume, "image") {
        let policy = pull_policy(image["reference"].as_str().unwrap_or_default());
        set_if_zero(image, "pullPolicy", policy);
    }
    if let Some(claim) = volume.get_mut("ephemeral").and_then(|e| there(e, "volumeClaimTemplate")) {
        set_default(object(claim, "spec"), "volumeMode", "Filesystem");
    }
    other_sources(volume);
}

/// Sources no node of ours mounts; they are kept as a cluster would keep them.
fn other_sources(volume: &mut Value) {
    const DEFAULTS: [(&str, &[(&str, &str)]); 4] = [
        ("iscsi", &[("iscsiInterface", "default")]),
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("azureDisk", &[("cachingMode", "ReadWrite"), ("kind", "Shared"), ("fsType", "ext4")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
    ];
    for (kind, fields) in DEFAULTS {
        if let Some(source) = there(volume, kind) {
            for (key, value) in fields {
                set_if_zero(source, key, *value);
            }
        }
    }
    if let Some(disk) = there(volume, "azureDisk") {
        set_default(disk, "readOnly", false);
    }
}

fn downward_items(source: &mut Value) {
    for item in each(source, "items") {
        if let Some(field) = there(item, "fieldRef") {
            set_if_zero(field, "apiVersion", "v1");
        }
    }
}

/// Amounts are rounded up to thousandths.
pub(in crate::kinds) fn resource_list(list: &mut Value) {
    for amount in as_map(list).values_mut() {
        let Some(Ok(quantity)) = amount.as_str().map(Quantity::parse) else { continue };
        if quantity.nanos() % 1_000_000 != 0 {
            *amount = json!(format!("{}m", quantity.millis()));
        }
    }
}

/// What is limited but not requested is requested in full.
fn requests_from_limits(container: &mut Value) {
    if let Some(resources) = there(container, "resources") {
        merge_missing(resources, "requests", "limits");
    }
}

fn merge_missing(resources: &mut Value, to: &str, from: &str) {
    let Some(Value::Object(limits)) = resources.get(from).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = as_map(resources).entry(to).or_insert_with(|| Value::Object(Map::new()));
    for (name, amount) in limits {
        as_map(requests).entry(name).or_insert(amount);
    }
}
