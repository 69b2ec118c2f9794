//! What stands in a token: the claims of Kubernetes' bound tokens, and the older ones of tokens
//! that live in Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::auth::user::service_account_name;
use crate::auth::{Objects, User};

pub(super) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
const EXTRA: &str = "authentication.kubernetes.io/";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Claims {
    pub(super) aud: Vec<String>,
    pub(super) exp: u64,
    pub(super) iat: u64,
    pub(super) iss: String,
    pub(super) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: Scope,
    pub(super) nbf: u64,
    pub(super) sub: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Scope {
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<Bound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<Bound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<Bound>,
    pub(super) serviceaccount: Bound,
}

/// An object that a token is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bound {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
}

impl Bound {
    pub(super) fn of(object: &Value) -> Self {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        Self { name: text("name"), uid: text("uid") }
    }
}

impl Claims {
    pub(super) fn user(&self) -> User {
        let scope = &self.kubernetes;
        let account = &scope.serviceaccount;
        let mut user = User::service_account(&scope.namespace, &account.name, &account.uid);
        let mut add = |key: &str, value: String| {
            if !value.is_empty() {
                user.extra.insert(format!("{EXTRA}{key}"), vec![value]);
            }
        };
        add("credential-id", format!("JTI={}", self.jti));
        for (kind, bound) in [("pod", &scope.pod), ("node", &scope.node)] {
            if let Some(bound) = bound {
                add(&format!("{kind}-name"), bound.name.clone());
                add(&format!("{kind}-uid"), bound.uid.clone());
            }
        }
        user
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LegacyClaims {
    iss: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    uid: String,
    sub: String,
}

impl LegacyClaims {
    /// The claims for a Secret that asks for a token, if the service account it names exists.
    pub(super) fn of_secret(secret: &Value, objects: &dyn Objects) -> Option<Self> {
        if secret["type"] != "kubernetes.io/service-account-token" {
            return None;
        }
        let meta = &secret["metadata"];
        let account = meta["annotations"]["kubernetes.io/service-account.name"].as_str()?;
        let namespace = meta["namespace"].as_str()?;
        let found = objects.get("", "serviceaccounts", Some(namespace), account)?;
        let wanted = meta["annotations"]["kubernetes.io/service-account.uid"].as_str();
        let uid = found["metadata"]["uid"].as_str()?;
        if wanted.is_some_and(|w| w != uid) {
            return None;
        }
        Some(Self {
            iss: LEGACY_ISSUER.to_owned(),
            namespace: namespace.to_owned(),
            secret: meta["name"].as_str()?.to_owned(),
            account: account.to_owned(),
            uid: uid.to_owned(),
            sub: service_account_name(namespace, account),
        })
    }

    /// The user, as long as the Secret still holds exactly this token.
    pub(super) fn user_if_current(&self, token: &str, objects: &dyn Objects) -> Option<User> {
        let secret = objects.get("", "secrets", Some(&self.namespace), &self.secret)?;
        let stored = BASE64.decode(secret["data"]["token"].as_str()?).ok()?;
        let account = objects.get("", "serviceaccounts", Some(&self.namespace), &self.account)?;
        let current = stored == token.as_bytes()
            && account["metadata"]["uid"] == self.uid
            && secret["metadata"]["deletionTimestamp"].is_null();
        current.then(|| User::service_account(&self.namespace, &self.account, &self.uid))
    }
}
