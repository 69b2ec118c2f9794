//! An authenticated user and the well-known names of users and groups.

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub const ANONYMOUS: &str = "system:anonymous";
pub const GROUP_MASTERS: &str = "system:masters";
pub const GROUP_AUTHENTICATED: &str = "system:authenticated";
pub const GROUP_UNAUTHENTICATED: &str = "system:unauthenticated";
pub const GROUP_NODES: &str = "system:nodes";
pub const GROUP_SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// Who is asking. `groups` holds `system:authenticated` for everybody but the anonymous user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user known by other means than a request: the parts of podlet that call in-process.
    pub fn known(name: impl Into<String>, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|g| (*g).to_owned()).collect();
        Self { name: name.into(), groups, ..Self::default() }.authenticated()
    }

    /// May do everything.
    pub fn admin() -> Self {
        Self::known("kubernetes-admin", &[GROUP_MASTERS])
    }

    /// The kubelet of a node.
    pub fn node(name: &str) -> Self {
        Self::known(format!("system:node:{name}"), &[GROUP_NODES])
    }

    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let mut user = Self::known(
            service_account_name(namespace, name),
            &[GROUP_SERVICE_ACCOUNTS, &format!("{GROUP_SERVICE_ACCOUNTS}:{namespace}")],
        );
        user.uid = uid.to_owned();
        user
    }

    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![GROUP_UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// As in `userInfo` of an AdmissionReview and `status.user` of a TokenReview.
    pub fn to_json(&self) -> Value {
        let mut out = json!({ "username": self.name, "groups": self.groups });
        if !self.uid.is_empty() {
            out["uid"] = json!(self.uid);
        }
        if !self.extra.is_empty() {
            out["extra"] = json!(self.extra);
        }
        out
    }

    pub(super) fn authenticated(mut self) -> Self {
        if !self.is_in(GROUP_AUTHENTICATED) {
            self.groups.push(GROUP_AUTHENTICATED.to_owned());
        }
        self
    }
}

/// `system:serviceaccount:NAMESPACE:NAME`.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}
