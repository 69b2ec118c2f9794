//! The API's questions and answers about users: TokenReview, SubjectAccessReview and their kin.
//! They are created and answered, never stored.

use std::sync::Arc;

use serde_json::Value;

use super::token::Tokens;
use super::{Authorizer, Refusal, User};

/// Answers reviews.
pub struct Reviews {
    _tokens: Arc<Tokens>,
    _authorizer: Arc<Authorizer>,
}

impl Reviews {
    pub fn new(tokens: Arc<Tokens>, authorizer: Arc<Authorizer>) -> Self {
        Self { _tokens: tokens, _authorizer: authorizer }
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
        body: Value,
    ) -> Result<Value, Refusal> {
        let _ = (user, resource, namespace, body);
        Err(Refusal::unauthorized())
    }
}
