//! HorizontalPodAutoscalers, stored and served; and Scale, the body of the scale subresource.

use std::time::SystemTime;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::at::{At, Errors, as_map, object, set_default, there};
use super::table::{AGE, Column, NAME, column, created, name};
use super::{BEHAVIOUR, Behaviour, Kind, STORED};

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "autoscaling",
    version: "v2",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
    singular: "horizontalpodautoscaler",
    short_names: &["hpa"],
    categories: &["all"],
    subresources: &["status"],
    package: "autoscaling.v2",
    behaviour: Behaviour { default, validate, columns: COLUMNS, row, ..BEHAVIOUR },
    ..STORED
}];

/// Scale has a rule of its own.
pub(super) const SCALE: Behaviour = Behaviour {
    validate: |scale, errors| At::root(scale).dig("spec.replicas").not_negative(errors),
    ..BEHAVIOUR
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Reference"),
    column("Targets"),
    column("MinPods"),
    column("MaxPods"),
    column("Replicas"),
    AGE,
];

fn default(scaler: &mut Value) {
    let spec = object(scaler, "spec");
    set_default(spec, "minReplicas", 1);
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
        as_map(spec).insert("metrics".to_owned(), metric);
    }
    if let Some(behavior) = there(spec, "behavior") {
        let up = object(behavior, "scaleUp");
        set_default(up, "stabilizationWindowSeconds", 0);
        set_default(up, "selectPolicy", "Max");
        let policies = json!([
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ]);
        set_default(up, "policies", policies);
        let down = object(behavior, "scaleDown");
        set_default(down, "selectPolicy", "Max");
        set_default(
            down,
            "policies",
            json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]),
        );
    }
}

fn validate(scaler: &Value, errors: &mut Errors) {
    let spec = At::root(scaler).get("spec");
    let (least, most) = (spec.get("minReplicas"), spec.get("maxReplicas"));
    if least.is_set() && least.int() < 1 {
        errors.push(least.invalid("must be greater than or equal to 1"));
    }
    if most.int() == 0 {
        errors.push(most.required("must be set and greater than 0"));
    } else if most.int() < 1 {
        errors.push(most.invalid("must be greater than or equal to 1"));
    }
    if least.is_set() && most.int() < least.int() {
        errors.push(most.invalid("must be greater than or equal to `minReplicas`"));
    }
    spec.dig("scaleTargetRef.kind").need(errors);
    spec.dig("scaleTargetRef.name").need(errors);
    let version = spec.dig("scaleTargetRef.apiVersion");
    if !version.str().contains('/') {
        let detail = "apiVersion must specify API group";
        errors.push(FieldError::invalid(version.path.clone(), version.str(), detail));
    }
    let kinds = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    for metric in spec.get("metrics").items() {
        metric.get("type").one_of_if_set(&kinds, errors);
    }
}

fn row(scaler: &Value, now: SystemTime) -> Vec<Value> {
    let (spec, status) = (&scaler["spec"], &scaler["status"]);
    let target = &spec["scaleTargetRef"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    vec![
        name(scaler),
        json!(format!("{}/{}", text(&target["kind"]), text(&target["name"]))),
        json!(targets(&At::root(scaler))),
        spec["minReplicas"].as_i64().map_or(json!("<unset>"), |n| json!(n.to_string())),
        json!(spec["maxReplicas"].as_i64().unwrap_or_default()),
        json!(status["currentReplicas"].as_i64().unwrap_or_default()),
        created(scaler, now),
    ]
}

/// No metrics are measured here, so the left side stays unknown.
fn targets(scaler: &At<'_>) -> String {
    let all: Vec<String> = scaler
        .dig("spec.metrics")
        .items()
        .map(|metric| {
            let kind = metric.get("type").str();
            let source = match kind {
                "Resource" => metric.get("resource"),
                "ContainerResource" => metric.get("containerResource"),
                "Pods" => metric.get("pods"),
                "Object" => metric.get("object"),
                _ => metric.get("external"),
            };
            let target = source.get("target");
            let wanted = match target.get("averageUtilization").value.as_i64() {
                Some(share) => format!("{share}%"),
                None if target.get("averageValue").is_set() => {
                    target.get("averageValue").str().to_owned()
                }
                None => target.get("value").str().to_owned(),
            };
            let label = source.get("name").str();
            let prefix = if label.is_empty() { String::new() } else { format!("{label}: ") };
            format!("{prefix}<unknown>/{wanted}")
        })
        .collect();
    if all.is_empty() { "<none>".to_owned() } else { all.join(", ") }
}
