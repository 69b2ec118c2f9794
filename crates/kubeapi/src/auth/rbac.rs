//! Role-based access control: may this user do that?

use std::sync::Arc;

use serde_json::Value;

use super::{Objects, Refusal, User};

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

/// Answers from the RBAC objects in the store; compiled once per change.
pub struct Authorizer {
    _objects: Arc<dyn Objects>,
}

impl Authorizer {
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self { _objects: objects }
    }

    /// Refuses with 403 and Kubernetes' text. Users of `system:masters` may do everything.
    pub fn check(&self, user: &User, access: &Access<'_>) -> Result<(), Refusal> {
        let _ = (user, access);
        Err(Refusal::unauthorized())
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
        let _ = (user, resource, namespace, object, old);
        Ok(())
    }

    /// A ClusterRole with an `aggregationRule` as it should be stored: rules filled from the roles
    /// it selects. `None` where nothing changes. The caller runs it over all clusterroles when one
    /// changed; authorization itself does not depend on that.
    pub fn aggregate(&self, cluster_role: &Value) -> Option<Value> {
        let _ = cluster_role;
        None
    }
}
