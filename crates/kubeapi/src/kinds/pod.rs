//! Pods, and the pod templates inside other kinds: defaults, rules, what may change, and the table.
//!
//! The parts for templates are used by the families of workloads.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::at::{At, Errors, object};
use super::table::{AGE, Column, NAME, column, wide};
use super::{BEHAVIOUR, Behaviour, Generation, Kind, STORED, VIRTUAL, meta};

mod affinity;
mod container;
mod default;
mod env;
mod probe;
mod resource;
mod row;
mod security;
mod spec;
mod update;
mod volume;

pub(super) use default::{resource_list as default_resource_list, spec as default_spec};
pub(super) use resource::quantity as validate_quantity;
pub(super) use spec::{selected as validate_selected, template as validate_template};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "Pod",
        plural: "pods",
        singular: "pod",
        short_names: &["po"],
        categories: &["all"],
        subresources: &["attach", "binding", "eviction", "exec", "log", "portforward", "status"],
        generation: Generation::Content,
        behaviour: Behaviour {
            default: default::pod,
            prepare_create,
            validate,
            validate_update: update::validate,
            columns: COLUMNS,
            row: row::cells,
            selectable: &[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ],
            ..BEHAVIOUR
        },
        ..STORED
    },
    Kind {
        kind: "Binding",
        plural: "bindings",
        singular: "binding",
        namespaced: true,
        behaviour: Behaviour { validate: validate_binding, ..BEHAVIOUR },
        ..VIRTUAL
    },
];

const COLUMNS: &[Column] = &[
    NAME,
    column("Ready"),
    column("Status"),
    column("Restarts"),
    AGE,
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];

fn prepare_create(pod: &mut Value) {
    let class = resource::quality_of_service(&pod["spec"]);
    let status = object(pod, "status");
    *status = json!({"phase": "Pending", "qosClass": class});
}

fn validate(pod: &Value, errors: &mut Errors) {
    let pod = At::root(pod);
    let deletion_cost =
        pod.get("metadata").get("annotations").get("controller.kubernetes.io/pod-deletion-cost");
    if deletion_cost.is_set() && deletion_cost.str().parse::<i32>().is_err() {
        errors.push(ironsail_schema::FieldError::invalid(
            "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]",
            deletion_cost.value.clone(),
            "must be a 32bit integer",
        ));
    }
    spec::validate(&pod.get("spec"), spec::Owner::Pod, errors);
}

fn validate_binding(binding: &Value, errors: &mut Errors) {
    let target = At::root(binding).get("target");
    if !matches!(target.get("kind").str(), "" | "Node") {
        target.get("kind").one_of_if_set(&["Node", "<empty>"], errors);
    }
    target.get("name").need(errors);
}

/// The cells that name the containers of a template and their images.
pub(super) fn container_cells(spec: &Value) -> [Value; 2] {
    let join = |key: &str| {
        let all: Vec<_> = spec["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| c[key].as_str().unwrap_or_default())
            .collect();
        json!(all.join(","))
    };
    [join("name"), join("image")]
}

/// Labels and annotations of a template.
fn template_meta(template: &At<'_>, errors: &mut Errors) {
    // The real server reports these at the template, without the metadata between.
    for (key, check) in
        [("labels", meta::labels as fn(&At<'_>, &mut Errors)), ("annotations", meta::annotations)]
    {
        let value = template.get("metadata").get(key).value;
        check(&At { value, path: template.get(key).path }, errors);
    }
}

/// How long ago, for the restarts column.
fn ago(then: Option<SystemTime>, now: SystemTime) -> Option<String> {
    then.map(|then| super::age::ago(then, now))
}

#[cfg(test)]
mod tests;
