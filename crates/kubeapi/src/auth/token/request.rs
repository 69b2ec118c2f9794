//! TokenRequest: checks what is asked for and makes the token.

use ironsail_schema::field::FieldError;
use serde_json::{Value, json};

use super::Tokens;
use super::claims::{Bound, Claims, Scope};
use crate::auth::Refusal;
use crate::auth::user::service_account_name;

const GROUP: &str = "authentication.k8s.io";
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

pub(super) fn answer(
    tokens: &Tokens,
    namespace: &str,
    name: &str,
    mut body: Value,
) -> Result<Value, Refusal> {
    let kind = body["kind"].as_str();
    if !body.is_object() || kind.is_some_and(|kind| kind != "TokenRequest") {
        return Err(Refusal::bad_request("the body is not a TokenRequest"));
    }
    let account = tokens
        .objects
        .get("", "serviceaccounts", Some(namespace), name)
        .ok_or_else(|| Refusal::not_found("", "serviceaccounts", name))?;
    let spec = &body["spec"];
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    check_seconds(seconds)?;
    let mut audiences = super::super::rbac::rule::strings(&spec["audiences"]);
    if audiences.is_empty() {
        audiences.push(tokens.issuer.clone());
    }
    let now = tokens.now();
    let expires = now.saturating_add(seconds.unsigned_abs());
    let mut scope = Scope {
        namespace: namespace.to_owned(),
        serviceaccount: Bound::of(&account),
        node: None,
        pod: None,
        secret: None,
    };
    bind(tokens, &mut scope, &spec["boundObjectRef"])?;
    let claims = Claims {
        aud: audiences.clone(),
        exp: expires,
        iat: now,
        iss: tokens.issuer.clone(),
        jti: uuid::Uuid::new_v4().to_string(),
        kubernetes: scope,
        nbf: now,
        sub: service_account_name(namespace, name),
    };
    let token = tokens.key.sign(&claims);
    body["kind"] = json!("TokenRequest");
    body["apiVersion"] = json!("authentication.k8s.io/v1");
    body["metadata"] =
        json!({ "name": name, "namespace": namespace, "creationTimestamp": stamp(now) });
    body["spec"]["audiences"] = json!(audiences);
    body["spec"]["expirationSeconds"] = json!(seconds);
    body["status"] = json!({ "token": token, "expirationTimestamp": stamp(expires) });
    Ok(body)
}

fn check_seconds(seconds: i64) -> Result<(), Refusal> {
    let detail = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        s if s > MAX_SECONDS => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let error = FieldError::invalid("spec.expirationSeconds", seconds, detail);
    Err(Refusal::invalid(GROUP, "TokenRequest", "", &[error]))
}

/// Puts the pod or secret that the token is to be bound to into its scope.
fn bind(tokens: &Tokens, scope: &mut Scope, reference: &Value) -> Result<(), Refusal> {
    if reference.is_null() {
        return Ok(());
    }
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let name = text("name");
    let (resource, namespace) = match (text("apiVersion"), text("kind")) {
        ("v1", "Pod") => ("pods", Some(scope.namespace.as_str())),
        ("v1", "Secret") => ("secrets", Some(scope.namespace.as_str())),
        ("v1", "Node") => ("nodes", None),
        (version, kind) => {
            let message = format!("cannot bind token to object of type {version}, Kind={kind}");
            return Err(Refusal::bad_request(message));
        }
    };
    let object = tokens
        .objects
        .get("", resource, namespace, name)
        .ok_or_else(|| Refusal::not_found("", resource, name))?;
    let bound = Bound::of(&object);
    let wanted = text("uid");
    if !wanted.is_empty() && wanted != bound.uid {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {name:?}: the UID in the bound object \
             reference ({wanted}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(Refusal::new(409, "Conflict", message).about("", resource, name));
    }
    match resource {
        "pods" => {
            let account = &object["spec"]["serviceAccountName"];
            if account != scope.serviceaccount.name.as_str() {
                return Err(Refusal::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different \
                     serviceaccount name.",
                    scope.serviceaccount.name
                )));
            }
            let node = object["spec"]["nodeName"].as_str().filter(|n| !n.is_empty());
            scope.node = node.map(|node| {
                let found = tokens.objects.get("", "nodes", None, node);
                found.map_or(Bound { name: node.to_owned(), ..Bound::default() }, |n| Bound::of(&n))
            });
            scope.pod = Some(bound);
        }
        "secrets" => scope.secret = Some(bound),
        _ => scope.node = Some(bound),
    }
    Ok(())
}

/// RFC 3339, to the second.
pub(crate) fn stamp(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}
