//! Every pod runs as a service account: names it, checks it, and mounts its token.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng as _;
use serde_json::{Value, json};

use super::{Operation, Request};
use crate::auth::{Objects, Refusal};

pub(super) const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";
/// A new namespace gets its default account a moment after it was created; pods applied together
/// with it wait for that, as they do in Kubernetes.
const PATIENCE: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// Does its work on new pods; running it again only adds what is missing.
pub(super) async fn mutate(objects: &dyn Objects, request: &mut Request) -> Result<(), Refusal> {
    let new_pod = request.group.is_empty()
        && request.resource == "pods"
        && request.subresource.is_empty()
        && request.operation == Operation::Create;
    let Some(pod) = request.object.as_mut().filter(|_| new_pod) else { return Ok(()) };
    if !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null()
        || !pod["spec"].is_object()
    {
        return Ok(());
    }
    let spec = &mut pod["spec"];
    let named = |key: &str| spec[key].as_str().filter(|s| !s.is_empty());
    let name = named("serviceAccountName")
        .or_else(|| named("serviceAccount"))
        .unwrap_or("default")
        .to_owned();
    spec["serviceAccountName"] = json!(name);
    spec["serviceAccount"] = json!(name);
    let Some(account) = find(objects, &request.namespace, &name).await else {
        let why = format!(
            "error looking up service account {}/{name}: serviceaccount {name:?} not found",
            request.namespace
        );
        return Err(Refusal::forbidden("", "pods", &request.name, &why));
    };
    if wants_token(spec, &account) {
        mount_token(spec);
    }
    let has_secrets = spec["imagePullSecrets"].as_array().is_some_and(|s| !s.is_empty());
    if !has_secrets && account["imagePullSecrets"].as_array().is_some_and(|s| !s.is_empty()) {
        spec["imagePullSecrets"] = account["imagePullSecrets"].clone();
    }
    Ok(())
}

async fn find(objects: &dyn Objects, namespace: &str, name: &str) -> Option<Arc<Value>> {
    for attempt in 0..PATIENCE {
        if attempt > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let found = objects.get("", "serviceaccounts", Some(namespace), name);
        if found.is_some() {
            return found;
        }
    }
    None
}

fn wants_token(spec: &Value, account: &Value) -> bool {
    let own = spec["automountServiceAccountToken"].as_bool();
    own.or(account["automountServiceAccountToken"].as_bool()).unwrap_or(true)
}

fn mount_token(spec: &mut Value) {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let known = volumes.filter_map(|v| v["name"].as_str()).find(|n| n.starts_with(VOLUME));
    let name = known.map_or_else(fresh_name, str::to_owned);
    let is_new = known.is_none();
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            if !container.is_object() {
                continue;
            }
            let mounts = container["volumeMounts"].as_array().into_iter().flatten();
            let taken = mounts.into_iter().any(|m| {
                m["mountPath"].as_str().is_some_and(|p| p.trim_end_matches('/') == TOKEN_PATH)
            });
            if !taken {
                let mount = json!({ "name": name, "readOnly": true, "mountPath": TOKEN_PATH });
                push(&mut container["volumeMounts"], mount);
                mounted = true;
            }
        }
    }
    if mounted && is_new {
        push(&mut spec["volumes"], volume(&name));
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

/// Letters and digits that form no words, as Kubernetes' generated names do.
fn fresh_name() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rng = rand::rng();
    let tail = (0..5).map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())]));
    VOLUME.chars().chain(tail).collect()
}

fn volume(name: &str) -> Value {
    json!({ "name": name, "projected": { "defaultMode": 0o644, "sources": [
        { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
        { "configMap": {
            "name": "kube-root-ca.crt",
            "items": [{ "key": "ca.crt", "path": "ca.crt" }],
        } },
        { "downwardAPI": { "items": [{
            "path": "namespace",
            "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
        }] } },
    ] } })
}
