//! Is this webhook to be asked about that request, and in which version does it see the object?

use std::sync::Arc;

use serde_json::{Value, json};

use super::condition;
use super::hook::{Hook, Rule, Scope};
use super::review;
use crate::admission::{Operation, Request};
use crate::auth::{Objects, Refusal, selector};

/// How a webhook sees a request: everything in the version that its rules name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) version: String,
    /// `group/version` of the object in that version; empty where it is the request's own.
    pub(super) api_version: String,
}

impl View {
    /// The object in the version of this view.
    pub(super) fn convert(&self, object: &Value) -> Value {
        let mut out = object.clone();
        if !self.api_version.is_empty() && out.is_object() {
            out["apiVersion"] = json!(self.api_version);
        }
        out
    }
}

/// `None` where the webhook is not to be asked.
pub(super) fn view(
    hook: &Hook,
    request: &Request,
    objects: &dyn Objects,
) -> Result<Option<View>, Refusal> {
    let Some(view) = matching_version(hook, request) else { return Ok(None) };
    let wanted = namespace_matches(hook, request, objects)? && object_matches(hook, request)?;
    if !wanted {
        return Ok(None);
    }
    if hook.conditions.is_empty() {
        return Ok(Some(view));
    }
    let variables = review::request_fields(request, &view);
    match condition::all_met(&hook.conditions, &variables) {
        Ok(met) => Ok(met.then_some(view)),
        Err(_) if !hook.fail => Ok(None),
        Err(why) => Err(Refusal::forbidden(&request.group, &request.resource, &request.name, &why)),
    }
}

fn matching_version(hook: &Hook, request: &Request) -> Option<View> {
    let any = |version: &str| hook.rules.iter().any(|rule| rule_matches(rule, request, version));
    if any(&request.version) {
        return Some(View { version: request.version.clone(), api_version: String::new() });
    }
    if !hook.equivalent {
        return None;
    }
    let version = request.other_versions.iter().find(|version| any(version))?;
    let api_version = if request.group.is_empty() {
        version.clone()
    } else {
        format!("{}/{version}", request.group)
    };
    Some(View { version: version.clone(), api_version })
}

pub(super) fn rule_matches(rule: &Rule, request: &Request, version: &str) -> bool {
    let has = |list: &[String], wanted: &str| list.iter().any(|i| i == "*" || i == wanted);
    let resource_named = rule.resources.iter().any(|item| {
        let (resource, subresource) = item.split_once('/').unwrap_or((item, ""));
        (resource == "*" || resource == request.resource)
            && (subresource == "*" || subresource == request.subresource)
    });
    // A namespace itself counts as cluster-scoped.
    let namespaced = !request.namespace.is_empty() && !is_namespace(request);
    let in_scope = match rule.scope {
        Scope::All => true,
        Scope::Cluster => !namespaced,
        Scope::Namespaced => namespaced,
    };
    in_scope
        && has(&rule.operations, request.operation.as_str())
        && has(&rule.groups, &request.group)
        && has(&rule.versions, version)
        && resource_named
}

pub(super) fn is_namespace(request: &Request) -> bool {
    request.group.is_empty() && request.resource == "namespaces"
}

fn namespace_matches(
    hook: &Hook,
    request: &Request,
    objects: &dyn Objects,
) -> Result<bool, Refusal> {
    if is_everything(&hook.namespace_selector) {
        return Ok(true);
    }
    let found: Arc<Value>;
    let labels = if is_namespace(request) {
        let new = request.object.as_ref().filter(|_| request.operation != Operation::Delete);
        let object = new.filter(|_| request.subresource.is_empty()).or(request.old.as_deref());
        object.map_or(&Value::Null, |o| &o["metadata"]["labels"])
    } else if request.namespace.is_empty() {
        return Ok(true);
    } else {
        found = objects
            .get("", "namespaces", None, &request.namespace)
            .ok_or_else(|| Refusal::not_found("", "namespaces", &request.namespace))?;
        &found["metadata"]["labels"]
    };
    matches(hook, &hook.namespace_selector, labels)
}

/// The new or the old object meets the selector.
fn object_matches(hook: &Hook, request: &Request) -> Result<bool, Refusal> {
    if is_everything(&hook.object_selector) {
        return Ok(true);
    }
    for object in [request.object.as_ref(), request.old.as_deref()].into_iter().flatten() {
        if matches(hook, &hook.object_selector, &object["metadata"]["labels"])? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_everything(selector: &Value) -> bool {
    let empty = |key: &str| match &selector[key] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    empty("matchLabels") && empty("matchExpressions")
}

fn matches(hook: &Hook, selector: &Value, labels: &Value) -> Result<bool, Refusal> {
    selector::matches(selector, labels)
        .map_err(|why| Refusal::internal(format!("failed calling webhook {:?}: {why}", hook.name)))
}
