//! From stored roles and bindings to a table: subject → what is granted to it, where and why.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::rule::{Rule, quoted};
use crate::auth::selector;
use crate::auth::user::service_account_name;
use crate::auth::{Objects, User};

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
pub(super) const RESOURCES: [&str; 4] =
    ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
}

/// One binding, seen from one of its subjects.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    /// `None` everywhere, else only in this namespace.
    pub(super) namespace: Option<String>,
    pub(super) rules: Result<Arc<[Rule]>, String>,
    /// `ClusterRoleBinding "x" of ClusterRole "y" to User "z"`.
    pub(super) because: String,
}

impl Grant {
    /// Whether it counts for something in `namespace` (empty: at the cluster scope).
    pub(super) fn reaches(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|n| n == namespace)
    }
}

/// All grants at one state of the store.
pub(super) struct Table {
    pub(super) versions: [u64; 4],
    grants: FxHashMap<Subject, Vec<Grant>>,
}

impl Table {
    pub(super) fn compile(objects: &dyn Objects, versions: [u64; 4]) -> Self {
        let mut table = Self { versions, grants: FxHashMap::default() };
        let cluster_roles = objects.list(GROUP, "clusterroles", None);
        let mut known: FxHashMap<String, Result<Arc<[Rule]>, String>> = FxHashMap::default();
        let mut of_cluster_role = |name: &str| {
            let resolve = || {
                let role = cluster_roles.iter().find(|r| r["metadata"]["name"] == *name);
                role.map(|role| effective_rules(role, &cluster_roles).into())
                    .ok_or_else(|| missing("clusterrole", name))
            };
            known.entry(name.to_owned()).or_insert_with(resolve).clone()
        };
        for binding in objects.list(GROUP, "clusterrolebindings", None) {
            let rules = of_cluster_role(role_ref(&binding).1);
            table.add(&binding, None, &rules);
        }
        for binding in objects.list(GROUP, "rolebindings", None) {
            let namespace = binding["metadata"]["namespace"].as_str().unwrap_or_default();
            let rules = match role_ref(&binding) {
                ("ClusterRole", name) => of_cluster_role(name),
                (_, name) => objects
                    .get(GROUP, "roles", Some(namespace), name)
                    .map(|role| Rule::parse_all(&role["rules"]).into())
                    .ok_or_else(|| missing("role", name)),
            };
            table.add(&binding, Some(namespace), &rules);
        }
        table
    }

    fn add(
        &mut self,
        binding: &Value,
        namespace: Option<&str>,
        rules: &Result<Arc<[Rule]>, String>,
    ) {
        let name = binding["metadata"]["name"].as_str().unwrap_or_default();
        let (role_kind, role_name) = role_ref(binding);
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let subject_name = subject["name"].as_str().unwrap_or_default();
            let kind = subject["kind"].as_str().unwrap_or_default();
            let (key, shown) = match kind {
                "User" => (Subject::User(subject_name.to_owned()), subject_name.to_owned()),
                "Group" => (Subject::Group(subject_name.to_owned()), subject_name.to_owned()),
                "ServiceAccount" => {
                    let own = subject["namespace"].as_str().filter(|n| !n.is_empty());
                    let Some(place) = own.or(namespace) else { continue };
                    let user = service_account_name(place, subject_name);
                    (Subject::User(user), format!("{subject_name}/{place}"))
                }
                _ => continue,
            };
            let binding_text = match namespace {
                Some(namespace) => format!("RoleBinding {:?}", format!("{name}/{namespace}")),
                None => format!("ClusterRoleBinding {name:?}"),
            };
            self.grants.entry(key).or_default().push(Grant {
                namespace: namespace.map(str::to_owned),
                rules: rules.clone(),
                because: format!("{binding_text} of {role_kind} {role_name:?} to {kind} {shown:?}"),
            });
        }
    }

    /// What counts for `user`, cluster-wide grants first.
    pub(super) fn grants_of<'a>(
        &'a self,
        user: &User,
    ) -> impl Iterator<Item = &'a Grant> + use<'a> {
        let groups = user.groups.iter().map(|g| Subject::Group(g.clone()));
        let subjects = std::iter::once(Subject::User(user.name.clone())).chain(groups);
        let mut found: Vec<&Grant> =
            subjects.filter_map(|s| self.grants.get(&s)).flatten().collect();
        found.sort_by_key(|g| g.namespace.is_some());
        found.into_iter()
    }
}

/// The rules of a ClusterRole; those of the roles it selects where it aggregates.
pub(super) fn effective_rules(role: &Value, all: &[Arc<Value>]) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut seen = Vec::new();
    collect(role, all, &mut seen, &mut rules);
    rules
}

fn collect(role: &Value, all: &[Arc<Value>], seen: &mut Vec<String>, out: &mut Vec<Rule>) {
    // Roles may select each other; each counts once.
    let name = role["metadata"]["name"].as_str().unwrap_or_default();
    if seen.iter().any(|s| s == name) {
        return;
    }
    seen.push(name.to_owned());
    if role["aggregationRule"].is_null() {
        for rule in Rule::parse_all(&role["rules"]) {
            if !out.contains(&rule) {
                out.push(rule);
            }
        }
        return;
    }
    let selectors = &role["aggregationRule"]["clusterRoleSelectors"];
    for selector in selectors.as_array().into_iter().flatten() {
        for other in all {
            if selector::matches(selector, &other["metadata"]["labels"]) == Ok(true) {
                collect(other, all, seen, out);
            }
        }
    }
}

pub(super) fn role_ref(binding: &Value) -> (&str, &str) {
    let part = |key: &str| binding["roleRef"][key].as_str().unwrap_or_default();
    (part("kind"), part("name"))
}

fn missing(kind: &str, name: &str) -> String {
    format!("{kind}.{GROUP} {name:?} not found")
}

/// Several errors as Go prints them.
pub(super) fn errors_text(errors: &[String]) -> String {
    match errors {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    }
}

/// `user "bob" (groups=["a" "b"])`.
pub(super) fn user_text(user: &User) -> String {
    format!("user {:?} (groups={})", user.name, quoted(&user.groups))
}
