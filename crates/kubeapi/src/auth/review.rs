//! The API's questions and answers about users: TokenReview, SubjectAccessReview and their kin.
//! They are created and answered, never stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_schema::field::{self, FieldError};
use ironsail_sys::clock::Clock;
use serde_json::{Value, json};

use super::rbac::rule::strings;
use super::token::Tokens;
use super::{Access, Authorizer, Refusal, Target, User};

#[cfg(test)]
mod tests;

/// Answers reviews.
pub struct Reviews {
    tokens: Arc<Tokens>,
    authorizer: Arc<Authorizer>,
    clock: Clock,
}

impl Reviews {
    pub fn new(tokens: Arc<Tokens>, authorizer: Arc<Authorizer>, clock: Clock) -> Self {
        Self { tokens, authorizer, clock }
    }

    /// Answers the create of `resource`: `tokenreviews` and `selfsubjectreviews` of
    /// authentication.k8s.io/v1; `subjectaccessreviews`, `localsubjectaccessreviews` (namespaced),
    /// `selfsubjectaccessreviews` and `selfsubjectrulesreviews` of authorization.k8s.io/v1.
    /// Gives `body` back with its status; `namespace` is that of the URL or empty.
    pub fn answer(
        &self,
        user: &User,
        resource: &str,
        namespace: &str,
        mut body: Value,
    ) -> Result<Value, Refusal> {
        if !body.is_object() {
            return Err(Refusal::bad_request("the body is not an object"));
        }
        let spec = &body["spec"];
        let status = match resource {
            "tokenreviews" => self.token(spec)?,
            "selfsubjectreviews" => {
                body["metadata"]["creationTimestamp"] = json!(self.stamp());
                json!({ "userInfo": user.to_json() })
            }
            "subjectaccessreviews" => {
                check_access_spec(spec, true, None)?;
                self.access(&user_of_spec(spec), spec)
            }
            "localsubjectaccessreviews" => {
                check_access_spec(spec, true, Some(namespace))?;
                self.access(&user_of_spec(spec), spec)
            }
            "selfsubjectaccessreviews" => {
                check_access_spec(spec, false, None)?;
                self.access(user, spec)
            }
            "selfsubjectrulesreviews" => {
                let namespace = spec["namespace"].as_str().unwrap_or_default();
                if namespace.is_empty() {
                    return Err(Refusal::bad_request("no namespace on request"));
                }
                self.rules(user, namespace)
            }
            other => {
                return Err(Refusal::internal(format!("{other} is not a review")));
            }
        };
        body["status"] = status;
        Ok(body)
    }

    fn stamp(&self) -> String {
        let seconds = i64::try_from(self.clock.since_epoch().as_secs()).unwrap_or(i64::MAX);
        jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
    }

    fn token(&self, spec: &Value) -> Result<Value, Refusal> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            let text = "token is required for TokenReview in authentication";
            return Err(Refusal::bad_request(text));
        }
        Ok(match self.tokens.check(token, &strings(&spec["audiences"])) {
            Ok((user, audiences)) => json!({
                "authenticated": true,
                "audiences": audiences,
                "user": user.to_json(),
            }),
            Err(why) => json!({ "error": format!("[invalid bearer token, {why}]"), "user": {} }),
        })
    }

    fn access(&self, user: &User, spec: &Value) -> Value {
        let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
        let attributes = &spec["resourceAttributes"];
        let parts = ["verb", "group", "version", "resource", "subresource", "namespace", "name"]
            .map(|key| text(&attributes[key]));
        let [verb, group, version, resource, subresource, namespace, name] = &parts;
        let path = &spec["nonResourceAttributes"];
        let (path_verb, path_text) = (text(&path["verb"]), text(&path["path"]));
        let access = if path.is_null() {
            let target =
                Target::Resource { group, version, resource, subresource, namespace, name };
            Access { verb, target }
        } else {
            Access { verb: &path_verb, target: Target::Path(&path_text) }
        };
        let decision = self.authorizer.decide(user, &access);
        let mut status = json!({ "allowed": decision.allowed });
        if !decision.reason.is_empty() {
            status["reason"] = json!(decision.reason);
        }
        status
    }

    fn rules(&self, user: &User, namespace: &str) -> Value {
        let (mut resources, mut paths) = (Vec::new(), Vec::new());
        for rule in self.authorizer.rules_of(user, namespace) {
            if !rule.resources.is_empty() {
                let mut shown = rule.clone();
                shown.paths.clear();
                resources.push(shown.to_json());
            }
            if !rule.paths.is_empty() {
                paths.push(json!({ "verbs": rule.verbs, "nonResourceURLs": rule.paths }));
            }
        }
        json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false })
    }
}

/// Exactly one of the attributes, and somebody to ask about.
fn check_access_spec(
    spec: &Value,
    needs_user: bool,
    namespace: Option<&str>,
) -> Result<(), Refusal> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = Vec::new();
    match (resource.is_null(), path.is_null()) {
        (false, false) => errors.push(FieldError::invalid(
            "spec.nonResourceAttributes",
            path.clone(),
            "cannot be specified in combination with resourceAttributes",
        )),
        (true, true) => errors.push(FieldError::invalid(
            "spec.resourceAttributes",
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    let nobody =
        spec["user"].as_str().unwrap_or_default().is_empty() && strings(&spec["groups"]).is_empty();
    if needs_user && nobody {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", "", detail));
    }
    if let Some(namespace) = namespace {
        let given = resource["namespace"].as_str().unwrap_or_default();
        if given != namespace {
            let path = "spec.resourceAttributes.namespace";
            errors.push(FieldError::invalid(path, given, "must match metadata.namespace"));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let cause = |e: &FieldError| json!({ "reason": e.reason.as_str(), "message": e.message(), "field": e.path });
    let message = format!(" \"\" is invalid: {}", field::aggregate(&errors));
    let mut refusal = Refusal::new(422, "Invalid", message);
    refusal.details = Some(json!({ "causes": errors.iter().map(cause).collect::<Vec<_>>() }));
    Err(refusal)
}

fn user_of_spec(spec: &Value) -> User {
    let text = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
    let extra: BTreeMap<_, _> = spec["extra"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.clone(), strings(values)))
        .collect();
    User { name: text("user"), uid: text("uid"), groups: strings(&spec["groups"]), extra }
}
