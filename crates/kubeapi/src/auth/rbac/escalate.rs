//! Nobody may give away more than they have: checks on writes of roles and bindings.

use serde_json::Value;

use super::compile::{GROUP, effective_rules, role_ref, user_text};
use super::rule::{Rule, not_covered};
use super::{Access, Authorizer, Target};
use crate::auth::user::GROUP_MASTERS;
use crate::auth::{Refusal, User};

/// One write of a role or binding.
pub(super) struct Write<'a> {
    pub(super) user: &'a User,
    pub(super) resource: &'a str,
    pub(super) namespace: &'a str,
    pub(super) object: &'a Value,
    pub(super) old: Option<&'a Value>,
}

impl Authorizer {
    pub(super) fn check_write(&self, write: &Write<'_>) -> Result<(), Refusal> {
        if write.user.is_in(GROUP_MASTERS) {
            return Ok(());
        }
        match write.resource {
            "roles" | "clusterroles" => self.check_role(write),
            "rolebindings" | "clusterrolebindings" => self.check_binding(write),
            _ => Ok(()),
        }
    }

    fn check_role(&self, write: &Write<'_>) -> Result<(), Refusal> {
        let same = |key: &str| write.old.is_some_and(|old| old[key] == write.object[key]);
        if same("rules") && same("aggregationRule") {
            return Ok(());
        }
        let name = write.object["metadata"]["name"].as_str().unwrap_or_default();
        if self.may(write, "escalate", write.resource, name) {
            return Ok(());
        }
        if !write.object["aggregationRule"].is_null() {
            let everything = [
                Rule { paths: all(), verbs: all(), ..Rule::default() },
                Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() },
            ];
            if !not_covered(&self.rules_of(write.user, ""), &everything).is_empty() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(Refusal::forbidden(GROUP, write.resource, name, why));
            }
        }
        self.check_rules(write, name, &Rule::parse_all(&write.object["rules"]))
    }

    fn check_binding(&self, write: &Write<'_>) -> Result<(), Refusal> {
        let same = |key: &str| write.old.is_some_and(|old| old[key] == write.object[key]);
        if same("roleRef") && same("subjects") {
            return Ok(());
        }
        let name = write.object["metadata"]["name"].as_str().unwrap_or_default();
        let (kind, role) = role_ref(write.object);
        let (resource, namespace) = match kind {
            "ClusterRole" => ("clusterroles", None),
            _ => ("roles", Some(write.namespace)),
        };
        if self.may(write, "bind", resource, role) {
            return Ok(());
        }
        let Some(found) = self.objects.get(GROUP, resource, namespace, role) else {
            return Err(Refusal::not_found(GROUP, write.resource, role));
        };
        let rules = match namespace {
            Some(_) => Rule::parse_all(&found["rules"]),
            None => effective_rules(&found, &self.objects.list(GROUP, resource, None)),
        };
        self.check_rules(write, name, &rules)
    }

    fn may(&self, write: &Write<'_>, verb: &str, resource: &str, name: &str) -> bool {
        let namespace = write.namespace;
        let target = Target::Resource {
            group: GROUP,
            version: "v1",
            resource,
            subresource: "",
            namespace,
            name,
        };
        self.decide(write.user, &Access { verb, target }).allowed
    }

    fn check_rules(&self, write: &Write<'_>, name: &str, rules: &[Rule]) -> Result<(), Refusal> {
        let missing = not_covered(&self.rules_of(write.user, write.namespace), rules);
        if missing.is_empty() {
            return Ok(());
        }
        let list: Vec<_> = missing.iter().map(ToString::to_string).collect();
        let why = format!(
            "{} is attempting to grant RBAC permissions not currently held:\n{}",
            user_text(write.user),
            list.join("\n")
        );
        Err(Refusal::forbidden(GROUP, write.resource, name, &why))
    }
}

fn all() -> Vec<String> {
    vec!["*".to_owned()]
}
