//! PriorityClasses and RuntimeClasses: stored and served.

use serde_json::{Value, json};

use super::at::{At, Errors, set_default};
use super::meta::immutable;
use super::table::{AGE, Column, NAME, column, created, name, number};
use super::{BEHAVIOUR, Behaviour, Generation, Kind, STORED};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        plural: "priorityclasses",
        singular: "priorityclass",
        short_names: &["pc"],
        namespaced: false,
        package: "scheduling.v1",
        generation: Generation::Content,
        behaviour: Behaviour {
            default: |class| set_default(class, "preemptionPolicy", "PreemptLowerPriority"),
            validate: validate_priority,
            validate_update: |new, old, errors| {
                if new["value"] != old["value"] {
                    let at = At::root(new).get("value");
                    errors.push(at.forbidden("may not be changed in an update."));
                }
                let key = "preemptionPolicy";
                immutable(&At::root(new).get(key), &At::root(old).get(key), errors);
            },
            columns: PRIORITY,
            row: |class, now| {
                vec![
                    name(class),
                    class["value"].clone(),
                    json!(class["globalDefault"].as_bool().unwrap_or_default()),
                    created(class, now),
                    class["preemptionPolicy"].clone(),
                ]
            },
            ..BEHAVIOUR
        },
        ..STORED
    },
    Kind {
        group: "node.k8s.io",
        kind: "RuntimeClass",
        plural: "runtimeclasses",
        singular: "runtimeclass",
        namespaced: false,
        package: "node.v1",
        behaviour: Behaviour {
            validate: |class, errors| {
                let handler = At::root(class).get("handler");
                let wrong = super::name::label(handler.str());
                errors.extend(wrong.into_iter().map(|w| handler.invalid(w)));
            },
            validate_update: |new, old, errors| {
                immutable(&At::root(new).get("handler"), &At::root(old).get("handler"), errors);
            },
            columns: &[NAME, column("Handler"), AGE],
            row: |class, now| vec![name(class), class["handler"].clone(), created(class, now)],
            ..BEHAVIOUR
        },
        ..STORED
    },
];

const PRIORITY: &[Column] = &[
    NAME,
    number("Value"),
    Column { kind: "boolean", ..column("Global-Default") },
    AGE,
    column("PreemptionPolicy"),
];
const HIGHEST: i64 = 1_000_000_000;

fn validate_priority(class: &Value, errors: &mut Errors) {
    let at = At::root(class);
    if at.dig("metadata.name").str().starts_with("system-") {
        let name = at.dig("metadata.name");
        errors.push(name.forbidden(format!(
            "priority class names with 'system-' prefix are reserved for system use only. \
             error: {} is not a known system priority class",
            name.str()
        )));
    } else if at.get("value").int() > HIGHEST {
        errors.push(
            at.get("value").forbidden(format!(
                "maximum allowed value of a user defined priority is {HIGHEST}"
            )),
        );
    }
    at.get("preemptionPolicy").one_of_if_set(&["PreemptLowerPriority", "Never"], errors);
}
