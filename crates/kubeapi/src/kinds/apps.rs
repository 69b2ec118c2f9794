//! Deployments, ReplicaSets, StatefulSets, DaemonSets and ControllerRevisions.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::at::{At, Errors, as_map, each, object, set_default, set_if_zero, there};
use super::table::{AGE, Column, NAME, column, created, name, number, wide};
use super::{BEHAVIOUR, Behaviour, Generation, Kind, NameRule, STORED, meta, pod, selector};

mod validate;

pub(super) use validate::percent_or_number;

const APPS: Kind = Kind { group: "apps", package: "apps.v1", ..STORED };

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "ControllerRevision",
        plural: "controllerrevisions",
        singular: "controllerrevision",
        behaviour: Behaviour {
            validate: |obj, errors| {
                let data = At::root(obj).get("data");
                if !data.is_set() {
                    errors.push(data.required("data is mandatory"));
                }
            },
            validate_update: |new, old, errors| {
                meta::immutable(&At::root(new).get("data"), &At::root(old).get("data"), errors);
            },
            columns: &[NAME, column("Controller"), column("Revision"), AGE],
            row: revision_row,
            ..BEHAVIOUR
        },
        ..APPS
    },
    Kind {
        kind: "DaemonSet",
        plural: "daemonsets",
        singular: "daemonset",
        short_names: &["ds"],
        categories: &["all"],
        subresources: &["status"],
        generation: Generation::Content,
        behaviour: Behaviour {
            default: default_daemon_set,
            prepare_create: |obj| template_generation(obj, 1),
            prepare_update: raise_template_generation,
            validate: validate::daemon_set,
            validate_update: validate::same_selector,
            columns: DAEMON_SET,
            row: daemon_set_row,
            ..BEHAVIOUR
        },
        ..APPS
    },
    Kind {
        kind: "Deployment",
        plural: "deployments",
        singular: "deployment",
        short_names: &["deploy"],
        categories: &["all"],
        subresources: &["scale", "status"],
        generation: Generation::Content,
        behaviour: Behaviour {
            default: default_deployment,
            validate: validate::deployment,
            validate_update: validate::same_selector,
            columns: DEPLOYMENT,
            row: deployment_row,
            ..BEHAVIOUR
        },
        ..APPS
    },
    Kind {
        kind: "ReplicaSet",
        plural: "replicasets",
        singular: "replicaset",
        short_names: &["rs"],
        categories: &["all"],
        subresources: &["scale", "status"],
        generation: Generation::Content,
        behaviour: Behaviour {
            default: default_replica_set,
            validate: validate::replica_set,
            validate_update: validate::same_selector,
            columns: REPLICA_SET,
            row: replica_set_row,
            selectable: &["status.replicas"],
            ..BEHAVIOUR
        },
        ..APPS
    },
    Kind {
        kind: "StatefulSet",
        plural: "statefulsets",
        singular: "statefulset",
        short_names: &["sts"],
        // Its pods are named after it, and each name is a host name.
        names: NameRule::Label,
        categories: &["all"],
        subresources: &["scale", "status"],
        generation: Generation::Content,
        behaviour: Behaviour {
            default: default_stateful_set,
            validate: validate::stateful_set,
            validate_update: validate::stateful_set_update,
            columns: STATEFUL_SET,
            row: stateful_set_row,
            ..BEHAVIOUR
        },
        ..APPS
    },
];

const DAEMON_SET: &[Column] = &[
    NAME,
    number("Desired"),
    number("Current"),
    number("Ready"),
    number("Up-to-date"),
    number("Available"),
    column("Node Selector"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const DEPLOYMENT: &[Column] = &[
    NAME,
    column("Ready"),
    column("Up-to-date"),
    column("Available"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const REPLICA_SET: &[Column] = &[
    NAME,
    number("Desired"),
    number("Current"),
    number("Ready"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const STATEFUL_SET: &[Column] = &[NAME, column("Ready"), AGE, wide("Containers"), wide("Images")];

/// The template of a workload gets the defaults of a pod spec.
fn default_template(obj: &mut Value) -> &mut Value {
    let spec = object(obj, "spec");
    pod::default_spec(object(object(spec, "template"), "spec"));
    spec
}

fn default_deployment(obj: &mut Value) {
    let spec = default_template(obj);
    set_default(spec, "replicas", 1);
    set_default(spec, "revisionHistoryLimit", 10);
    set_default(spec, "progressDeadlineSeconds", 600);
    let strategy = object(spec, "strategy");
    set_if_zero(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = object(strategy, "rollingUpdate");
        set_default(rolling, "maxUnavailable", "25%");
        set_default(rolling, "maxSurge", "25%");
    }
}

fn default_replica_set(obj: &mut Value) {
    set_default(default_template(obj), "replicas", 1);
}

fn default_daemon_set(obj: &mut Value) {
    let spec = default_template(obj);
    set_default(spec, "revisionHistoryLimit", 10);
    let strategy = object(spec, "updateStrategy");
    set_if_zero(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = object(strategy, "rollingUpdate");
        set_default(rolling, "maxUnavailable", 1);
        set_default(rolling, "maxSurge", 0);
    }
}

fn default_stateful_set(obj: &mut Value) {
    let spec = default_template(obj);
    set_default(spec, "replicas", 1);
    set_default(spec, "revisionHistoryLimit", 10);
    set_if_zero(spec, "podManagementPolicy", "OrderedReady");
    let strategy = object(spec, "updateStrategy");
    if strategy["type"].as_str().unwrap_or_default().is_empty() {
        set_if_zero(strategy, "type", "RollingUpdate");
        set_default(strategy, "rollingUpdate", json!({}));
    }
    if strategy["type"] == "RollingUpdate"
        && let Some(rolling) = there(strategy, "rollingUpdate")
    {
        set_default(rolling, "partition", 0);
    }
    let retention = object(spec, "persistentVolumeClaimRetentionPolicy");
    set_if_zero(retention, "whenDeleted", "Retain");
    set_if_zero(retention, "whenScaled", "Retain");
    for claim in each(spec, "volumeClaimTemplates") {
        set_if_zero(object(claim, "status"), "phase", "Pending");
        set_default(object(claim, "spec"), "volumeMode", "Filesystem");
        set_if_zero(claim, "apiVersion", "v1");
        set_if_zero(claim, "kind", "PersistentVolumeClaim");
    }
}

/// Old clients of DaemonSets look for this annotation.
fn template_generation(obj: &mut Value, number: i64) {
    let annotations = object(object(obj, "metadata"), "annotations");
    as_map(annotations)
        .insert("deprecated.daemonset.template.generation".to_owned(), json!(number.to_string()));
}

fn raise_template_generation(new: &mut Value, old: &Value, subresource: Option<&str>) {
    if subresource.is_some() {
        return;
    }
    let before = old["metadata"]["annotations"]["deprecated.daemonset.template.generation"]
        .as_str()
        .and_then(|n| n.parse::<i64>().ok())
        .unwrap_or(1);
    let changed = new["spec"]["template"] != old["spec"]["template"];
    template_generation(new, before + i64::from(changed));
}

fn count(obj: &Value, key: &str) -> Value {
    json!(obj["status"][key].as_i64().unwrap_or_default())
}

fn wide_cells(obj: &Value) -> [Value; 3] {
    let [names, images] = pod::container_cells(&obj["spec"]["template"]["spec"]);
    [names, images, json!(selector::text(&obj["spec"]["selector"]))]
}

fn ready(obj: &Value) -> Value {
    let wanted = obj["spec"]["replicas"].as_i64().unwrap_or_default();
    json!(format!("{}/{wanted}", count(obj, "readyReplicas")))
}

fn deployment_row(obj: &Value, now: SystemTime) -> Vec<Value> {
    let (updated, available) = (count(obj, "updatedReplicas"), count(obj, "availableReplicas"));
    let mut cells = vec![name(obj), ready(obj), updated, available, created(obj, now)];
    cells.extend(wide_cells(obj));
    cells
}

fn replica_set_row(obj: &Value, now: SystemTime) -> Vec<Value> {
    let wanted = json!(obj["spec"]["replicas"].as_i64().unwrap_or_default());
    let (current, ready) = (count(obj, "replicas"), count(obj, "readyReplicas"));
    let mut cells = vec![name(obj), wanted, current, ready, created(obj, now)];
    cells.extend(wide_cells(obj));
    cells
}

fn stateful_set_row(obj: &Value, now: SystemTime) -> Vec<Value> {
    let [names, images, _] = wide_cells(obj);
    vec![name(obj), ready(obj), created(obj, now), names, images]
}

fn daemon_set_row(obj: &Value, now: SystemTime) -> Vec<Value> {
    let mut cells = vec![name(obj)];
    cells.extend(
        [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ]
        .map(|key| count(obj, key)),
    );
    let nodes = &obj["spec"]["template"]["spec"]["nodeSelector"];
    cells.push(json!(selector::labels_text(nodes)));
    cells.push(created(obj, now));
    cells.extend(wide_cells(obj));
    cells
}

fn revision_row(obj: &Value, now: SystemTime) -> Vec<Value> {
    let owner = At::root(obj)
        .dig("metadata.ownerReferences")
        .items()
        .find(|o| o.get("controller").bool())
        .map(|o| {
            let group = o.get("apiVersion").str().split_once('/').map_or("", |(group, _)| group);
            let kind = o.get("kind").str().to_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", o.get("name").str())
        });
    vec![
        name(obj),
        json!(owner.unwrap_or_else(|| "<none>".to_owned())),
        obj["revision"].clone(),
        created(obj, now),
    ]
}

/// What is checked about every workload's template: its restart policy, and no deadline.
fn always(spec: &At<'_>, owner: &str, errors: &mut Errors) {
    let pod_spec = spec.dig("template.spec");
    pod_spec.get("restartPolicy").one_of_if_set(&["Always"], errors);
    let deadline = pod_spec.get("activeDeadlineSeconds");
    if deadline.is_set() {
        errors
            .push(deadline.forbidden(format!("activeDeadlineSeconds in {owner} is not Supported")));
    }
}
