//! What the API keeps up by itself because only it can: the rules of aggregated ClusterRoles, and
//! the tokens in Secrets of the old kind.
//!
//! Follows the store, and writes through the API like everybody else. Holds the server only while
//! it works, so that dropping the last handle still closes the store.

use std::sync::{Arc, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{Server, Shared};
use crate::auth::{Peer, User};
use crate::store::{Cursor, Object, Reader};

const RBAC: &str = "rbac.authorization.k8s.io";
const TOKEN_SECRET: &str = "kubernetes.io/service-account-token";

/// Runs until the server ends.
pub(super) async fn run(server: Weak<Shared>) {
    let Some(shared) = server.upgrade() else { return };
    let (reader, ended) = (shared.store.reader().clone(), shared.ended.clone());
    drop(shared);
    let mut roles = reader.follow(RBAC, "clusterroles", reader.revision());
    let mut secrets = reader.follow("", "secrets", reader.revision());
    let mut accounts = reader.follow("", "serviceaccounts", reader.revision());
    let mut due = Due::Everything;
    loop {
        let Some(shared) = server.upgrade() else { return };
        let server = Server { shared };
        if matches!(due, Due::Everything | Due::Roles) {
            aggregate(&server).await;
        }
        let all = || reader.list("", "secrets", None).objects;
        match due {
            Due::Everything | Due::AllSecrets => fill_secrets(&server, all()).await,
            Due::Secrets(secrets) => fill_secrets(&server, secrets).await,
            Due::Roles => {}
        }
        drop(server);
        due = tokio::select! {
            _ = next(&reader, &mut roles, (RBAC, "clusterroles")) => Due::Roles,
            // An account that comes after its secrets is rare enough to look at all of them.
            _ = next(&reader, &mut accounts, ("", "serviceaccounts")) => Due::AllSecrets,
            changed = next(&reader, &mut secrets, ("", "secrets")) => {
                changed.map_or(Due::AllSecrets, Due::Secrets)
            }
            () = ended.cancelled() => return,
        };
    }
}

/// What there is to look at.
enum Due {
    Everything,
    Roles,
    AllSecrets,
    Secrets(Vec<Arc<Object>>),
}

/// Waits for changes; `None` where some were missed.
async fn next(
    reader: &Reader,
    cursor: &mut Cursor,
    (group, resource): (&str, &str),
) -> Option<Vec<Arc<Object>>> {
    match cursor.next().await {
        Ok(events) => Some(events.iter().map(|event| Arc::clone(&event.object)).collect()),
        Err(_) => {
            *cursor = reader.follow(group, resource, reader.revision());
            None
        }
    }
}

async fn aggregate(server: &Server) {
    let shared = &server.shared;
    for role in shared.store.reader().list(RBAC, "clusterroles", None).objects {
        let role = role.value();
        let Some(filled) = shared.authorizer.aggregate(&role) else { continue };
        let name = role["metadata"]["name"].as_str().unwrap_or_default().replace(':', "%3A");
        let path = format!("/apis/{RBAC}/v1/clusterroles/{name}");
        patch(server, &path, &json!({ "rules": filled["rules"] })).await;
    }
}

async fn fill_secrets(server: &Server, secrets: Vec<Arc<Object>>) {
    let shared = &server.shared;
    for object in secrets {
        // Most secrets are of other kinds; those are not even parsed.
        let is_one = object.bytes.windows(TOKEN_SECRET.len()).any(|w| w == TOKEN_SECRET.as_bytes());
        let secret = if is_one { object.value() } else { continue };
        if secret["data"]["token"].as_str().is_some_and(|token| !token.is_empty()) {
            continue;
        }
        let Some(token) = shared.tokens.for_secret(&secret) else { continue };
        let (namespace, name) = (&object.key.namespace, &object.key.name);
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        patch(server, &path, &secret_patch(shared, namespace, &secret, &token)).await;
    }
}

fn secret_patch(shared: &Arc<Shared>, namespace: &str, secret: &Value, token: &str) -> Value {
    let reader = shared.store.reader();
    let account = &secret["metadata"]["annotations"]["kubernetes.io/service-account.name"];
    let account = account.as_str().unwrap_or_default();
    let account = reader.get("", "serviceaccounts", namespace, account);
    let uid = account.map(|a| a.meta.uid.clone()).unwrap_or_default();
    let mut data = json!({ "token": BASE64.encode(token), "namespace": BASE64.encode(namespace) });
    let roots = reader.get("", "configmaps", namespace, "kube-root-ca.crt").map(|map| map.value());
    if let Some(pem) = roots.as_ref().and_then(|map| map["data"]["ca.crt"].as_str()) {
        data["ca.crt"] = json!(BASE64.encode(pem));
    }
    json!({
        "metadata": { "annotations": { "kubernetes.io/service-account.uid": uid } },
        "data": data,
    })
}

/// A refusal is told and left at that: the next change brings the next attempt.
async fn patch(server: &Server, path: &str, patch: &Value) {
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(path)
        .header(http::header::USER_AGENT, "kube-apiserver")
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(Full::new(bytes::Bytes::from(patch.to_string())));
    let Ok(request) = request else { return };
    let user = User::known("system:apiserver", &["system:masters"]);
    let response = server.handle(request, Peer::InProcess(user)).await;
    if !response.status().is_success() {
        tracing::debug!(path, status = %response.status(), "an object could not be kept up");
    }
}
