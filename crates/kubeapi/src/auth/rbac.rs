//! Role-based access control: may this user do that?
//!
//! In come a user and what is asked for; out comes yes, or a refusal with Kubernetes' text. The
//! roles and bindings are read from the store and compiled once per change.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::user::GROUP_MASTERS;
use super::{Objects, Refusal, User};

mod compile;
mod escalate;
pub(crate) mod rule;
#[cfg(test)]
mod tests;

use compile::{GROUP, RESOURCES, Table};
use rule::Rule;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// A Kubernetes verb (get, list, watch, create, update, patch, delete, deletecollection, …),
    /// or the lower-case HTTP method for a path.
    pub verb: &'a str,
    pub target: Target<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Empty strings stand for what the request does not name.
    Resource {
        group: &'a str,
        version: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    /// A path that is no resource, such as `/version`.
    Path(&'a str),
}

/// Yes or no, and why, where there is something to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
}

/// Answers from the RBAC objects in the store; compiled once per change.
pub struct Authorizer {
    objects: Arc<dyn Objects>,
    table: Mutex<Option<Arc<Table>>>,
}

impl Authorizer {
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self { objects, table: Mutex::new(None) }
    }

    /// Refuses with 403 and Kubernetes' text. Users of `system:masters` may do everything.
    pub fn check(&self, user: &User, access: &Access<'_>) -> Result<(), Refusal> {
        let decision = self.decide(user, access);
        if decision.allowed {
            return Ok(());
        }
        Err(forbidden(user, &normal(access), &decision.reason))
    }

    /// The answer to a SubjectAccessReview.
    pub fn decide(&self, user: &User, access: &Access<'_>) -> Decision {
        if user.is_in(GROUP_MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let access = normal(access);
        let namespace = match access.target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        };
        let mut errors = Vec::new();
        for grant in self.table().grants_of(user).filter(|g| g.reaches(namespace)) {
            match &grant.rules {
                Ok(rules) if rules.iter().any(|r| r.allows(&access)) => {
                    let reason = format!("RBAC: allowed by {}", grant.because);
                    return Decision { allowed: true, reason };
                }
                Ok(_) => {}
                Err(error) if errors.contains(error) => {}
                Err(error) => errors.push(error.clone()),
            }
        }
        Decision { allowed: false, reason: compile::errors_text(&errors) }
    }

    /// Nobody may give away more than they have: call on create, update and patch of roles,
    /// clusterroles, rolebindings and clusterrolebindings (`resource`), after [`Self::check`] and
    /// mutation. `old` is the stored object on update.
    pub fn check_escalation(
        &self,
        user: &User,
        resource: &str,
        namespace: &str,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        self.check_write(&escalate::Write { user, resource, namespace, object, old })
    }

    /// A ClusterRole with an `aggregationRule` as it should be stored: rules filled from the roles
    /// it selects. `None` where nothing changes. The caller runs it over all clusterroles when one
    /// changed; authorization itself does not depend on that.
    pub fn aggregate(&self, cluster_role: &Value) -> Option<Value> {
        if cluster_role["aggregationRule"].is_null() {
            return None;
        }
        let all = self.objects.list(GROUP, "clusterroles", None);
        let rules = compile::effective_rules(cluster_role, &all);
        let stored = Rule::parse_all(&cluster_role["rules"]);
        // The order says nothing, so a different one is no reason to write.
        if stored.len() == rules.len() && rules.iter().all(|r| stored.contains(r)) {
            return None;
        }
        let mut out = cluster_role.clone();
        out["rules"] = rules.iter().map(Rule::to_json).collect();
        Some(out)
    }

    /// All rules that count for `user` in `namespace`.
    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> Vec<Rule> {
        let table = self.table();
        let grants = table.grants_of(user).filter(|g| g.reaches(namespace));
        grants.filter_map(|g| g.rules.as_ref().ok()).flat_map(|r| r.iter().cloned()).collect()
    }

    fn table(&self) -> Arc<Table> {
        let versions = RESOURCES.map(|resource| self.objects.version(GROUP, resource));
        if let Some(table) = self.table.lock().as_ref()
            && table.versions == versions
        {
            return Arc::clone(table);
        }
        // Compiled outside the lock; two at once do the same work, and the later one stays.
        let table = Arc::new(Table::compile(&*self.objects, versions));
        *self.table.lock() = Some(Arc::clone(&table));
        table
    }
}

/// A namespace counts as lying in itself, so that a Role can give access to it.
fn normal<'a>(access: &Access<'a>) -> Access<'a> {
    let mut out = *access;
    if let Target::Resource { group: "", resource: "namespaces", namespace, name, .. } =
        &mut out.target
        && namespace.is_empty()
    {
        *namespace = name;
    }
    out
}

fn forbidden(user: &User, access: &Access<'_>, reason: &str) -> Refusal {
    let tail = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match access.target {
        Target::Path(path) => {
            let message = format!(
                "forbidden: User {:?} cannot {} path {path:?}{tail}",
                user.name, access.verb
            );
            Refusal { details: Some(json!({})), ..Refusal::new(403, "Forbidden", message) }
        }
        Target::Resource { group, resource, subresource, namespace, name, .. } => {
            let what = if subresource.is_empty() {
                resource.to_owned()
            } else {
                format!("{resource}/{subresource}")
            };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            let why = format!(
                "User {:?} cannot {} resource {what:?} in API group {group:?} {place}{tail}",
                user.name, access.verb
            );
            Refusal::forbidden(group, resource, name, &why)
        }
    }
}
