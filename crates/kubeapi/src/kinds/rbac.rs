//! Roles and their bindings.

use std::time::SystemTime;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::at::{At, Errors, each, object, set_if_zero};
use super::table::{
    AGE, Column, NAME, NAME_CREATED_AT, column, created, name, name_created_at, wide,
};
use super::{BEHAVIOUR, Behaviour, Kind, NameRule, STORED, selector};

const GROUP: &str = "rbac.authorization.k8s.io";
const RBAC: Kind =
    Kind { group: GROUP, package: "rbac.v1", names: NameRule::PathSegment, ..STORED };
const BINDING: &[Column] =
    &[NAME, column("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "ClusterRole",
        plural: "clusterroles",
        singular: "clusterrole",
        namespaced: false,
        behaviour: Behaviour {
            validate: |role, errors| {
                rules(role, false, errors);
                aggregation(role, errors);
            },
            columns: NAME_CREATED_AT,
            row: name_created_at,
            ..BEHAVIOUR
        },
        ..RBAC
    },
    Kind {
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        namespaced: false,
        behaviour: Behaviour {
            default: default_binding,
            validate: |binding, errors| validate_binding(binding, &["ClusterRole"], errors),
            validate_update: validate_binding_update,
            columns: BINDING,
            row: binding_row,
            ..BEHAVIOUR
        },
        ..RBAC
    },
    Kind {
        kind: "Role",
        plural: "roles",
        singular: "role",
        behaviour: Behaviour {
            validate: |role, errors| rules(role, true, errors),
            columns: NAME_CREATED_AT,
            row: name_created_at,
            ..BEHAVIOUR
        },
        ..RBAC
    },
    Kind {
        kind: "RoleBinding",
        plural: "rolebindings",
        singular: "rolebinding",
        behaviour: Behaviour {
            default: default_binding,
            validate: |binding, errors| validate_binding(binding, &["Role", "ClusterRole"], errors),
            validate_update: validate_binding_update,
            columns: BINDING,
            row: binding_row,
            ..BEHAVIOUR
        },
        ..RBAC
    },
];

fn default_binding(binding: &mut Value) {
    set_if_zero(object(binding, "roleRef"), "apiGroup", GROUP);
    for subject in each(binding, "subjects") {
        if subject["kind"] == "User" || subject["kind"] == "Group" {
            set_if_zero(subject, "apiGroup", GROUP);
        }
    }
}

fn rules(role: &Value, namespaced: bool, errors: &mut Errors) {
    for rule in At::root(role).get("rules").items() {
        if rule.get("verbs").is_empty() {
            errors.push(rule.get("verbs").required("verbs must contain at least one value"));
        }
        let urls = rule.get("nonResourceURLs");
        if !urls.is_empty() {
            if namespaced {
                errors.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
            }
            let mixed = ["apiGroups", "resources", "resourceNames"];
            if mixed.iter().any(|key| !rule.get(key).is_empty()) {
                errors.push(
                    urls.invalid(
                        "rules cannot apply to both regular resources and non-resource URLs",
                    ),
                );
            }
            continue;
        }
        if rule.get("apiGroups").is_empty() {
            let detail = "resource rules must supply at least one api group";
            errors.push(rule.get("apiGroups").required(detail));
        }
        if rule.get("resources").is_empty() {
            let detail = "resource rules must supply at least one resource";
            errors.push(rule.get("resources").required(detail));
        }
    }
}

fn aggregation(role: &Value, errors: &mut Errors) {
    let rule = At::root(role).get("aggregationRule");
    if !rule.is_set() {
        return;
    }
    let selectors = rule.get("clusterRoleSelectors");
    if selectors.is_empty() {
        errors.push(
            selectors.required(
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            ),
        );
    }
    for item in selectors.items() {
        selector::validate(&item, errors);
    }
}

fn validate_binding(binding: &Value, kinds: &[&str], errors: &mut Errors) {
    let at = At::root(binding);
    let role = at.get("roleRef");
    role.get("apiGroup").one_of_if_set(&[GROUP], errors);
    role.get("kind").one_of_if_set(kinds, errors);
    let own = role.get("name");
    if own.need(errors) {
        errors.extend(
            NameRule::PathSegment.check(own.str(), false).into_iter().map(|w| own.invalid(w)),
        );
    }
    for subject in at.get("subjects").items() {
        let own = subject.get("name");
        own.need(errors);
        let group = subject.get("apiGroup");
        match subject.get("kind").str() {
            "ServiceAccount" => {
                errors
                    .extend(super::name::subdomain(own.str()).into_iter().map(|w| own.invalid(w)));
                if !group.is_empty() {
                    group.one_of_if_set(&[""], errors);
                }
                if kinds.len() == 1 {
                    // A binding in a namespace means that namespace.
                    subject.get("namespace").need(errors);
                }
            }
            "User" | "Group" => group.one_of_if_set(&[GROUP], errors),
            _ => errors.push(FieldError::not_supported(
                subject.get("kind").path,
                subject.get("kind").str(),
                &["ServiceAccount", "User", "Group"],
            )),
        }
    }
}

fn validate_binding_update(new: &Value, old: &Value, errors: &mut Errors) {
    if new["roleRef"] != old["roleRef"] {
        errors.push(At::root(new).get("roleRef").invalid("cannot change roleRef"));
    }
}

fn binding_row(binding: &Value, now: SystemTime) -> Vec<Value> {
    let at = At::root(binding);
    let subjects = |kind: &str| {
        let all: Vec<String> = at
            .get("subjects")
            .items()
            .filter(|s| s.get("kind").str() == kind)
            .map(|s| match (kind, s.get("namespace").str()) {
                ("ServiceAccount", namespace) if !namespace.is_empty() => {
                    format!("{namespace}/{}", s.get("name").str())
                }
                _ => s.get("name").str().to_owned(),
            })
            .collect();
        json!(all.join(", "))
    };
    let role = at.get("roleRef");
    vec![
        name(binding),
        json!(format!("{}/{}", role.get("kind").str(), role.get("name").str())),
        created(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
