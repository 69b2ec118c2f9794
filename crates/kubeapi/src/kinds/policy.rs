//! PodDisruptionBudgets: stored and served.

use serde_json::{Value, json};

use super::apps::percent_or_number;
use super::at::{At, Errors};
use super::table::{AGE, Column, NAME, column, created, name, number};
use super::{BEHAVIOUR, Behaviour, Generation, Kind, NameRule, STORED, selector};

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "policy",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    singular: "poddisruptionbudget",
    short_names: &["pdb"],
    subresources: &["status"],
    names: NameRule::PathSegment,
    package: "policy.v1",
    generation: Generation::Content,
    behaviour: Behaviour {
        validate,
        columns: COLUMNS,
        row: |budget, now| {
            let text = |key: &str| match &budget["spec"][key] {
                Value::String(text) => json!(text),
                Value::Number(number) => json!(number.to_string()),
                _ => json!("N/A"),
            };
            vec![
                name(budget),
                text("minAvailable"),
                text("maxUnavailable"),
                json!(budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default()),
                created(budget, now),
            ]
        },
        ..BEHAVIOUR
    },
    ..STORED
}];

const COLUMNS: &[Column] =
    &[NAME, column("Min Available"), column("Max Unavailable"), number("Allowed Disruptions"), AGE];

fn validate(budget: &Value, errors: &mut Errors) {
    let spec = At::root(budget).get("spec");
    if spec.get("minAvailable").is_set() && spec.get("maxUnavailable").is_set() {
        errors.push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        if spec.get(key).is_set() {
            percent_or_number(&spec.get(key), true, errors);
        }
    }
    selector::validate(&spec.get("selector"), errors);
    spec.get("unhealthyPodEvictionPolicy")
        .one_of_if_set(&["AlwaysAllow", "IfHealthyBudget"], errors);
}
