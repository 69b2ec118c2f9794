//! What happens to an object between authorization and storage: the built-in rules of namespaces
//! and service accounts, then webhooks.
//!
//! It reads objects through [`Objects`] and stores nothing. The order for a write is: decode,
//! default, [`Admission::mutate`], validate the object's fields, [`Admission::validate`], store.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::auth::{Objects, Refusal, User};

mod account;
mod namespace;
#[cfg(test)]
mod tests;
mod webhook;

use webhook::{Round, Webhooks};

/// A byte stream to a webhook.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to Service addresses, which exist only in podlet's own network namespaces.
pub trait Dial: Send + Sync + 'static {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// As in the rules of a webhook and in an AdmissionReview.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// One write, as admission sees it.
#[derive(Clone, Debug)]
pub struct Request {
    pub operation: Operation,
    pub group: String,
    /// The version of the request's URL; `object` and `old` are in it.
    pub version: String,
    pub kind: String,
    pub resource: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// Other served versions of the same resource, for `matchPolicy: Equivalent`. Conversion
    /// between them is taken to change nothing but `apiVersion`.
    pub other_versions: Vec<String>,
    /// Empty for an object without one.
    pub namespace: String,
    /// Empty on create with `generateName` (name the object before calling where possible).
    pub name: String,
    pub user: User,
    /// The new object; `None` on delete.
    pub object: Option<Value>,
    /// The stored object on update and delete.
    pub old: Option<Arc<Value>>,
    /// CreateOptions, UpdateOptions, … as JSON with kind and apiVersion, or null.
    pub options: Value,
    pub dry_run: bool,
}

/// Defaults (and decodes strictly) an object again after a webhook changed it.
pub type Settle<'a> = &'a (dyn Fn(&mut Value) -> Result<(), Refusal> + Send + Sync);

/// Texts for `Warning: 299 - "…"` headers.
pub type Warnings = Vec<String>;

/// Runs admission.
pub struct Admission {
    objects: Arc<dyn Objects>,
    webhooks: Webhooks,
}

impl Admission {
    pub fn new(objects: Arc<dyn Objects>, dial: Arc<dyn Dial>) -> Self {
        Self { webhooks: Webhooks::new(Arc::clone(&objects), dial), objects }
    }

    /// Lets the built-in rules and the mutating webhooks change `request.object`. `settle` is
    /// called after every change by a webhook.
    pub async fn mutate(
        &self,
        request: &mut Request,
        settle: Settle<'_>,
    ) -> Result<Warnings, Refusal> {
        namespace::check(&*self.objects, request)?;
        account::mutate(&*self.objects, request).await?;
        if request.object.is_none() && request.operation != Operation::Delete {
            return Ok(Warnings::new());
        }
        let mut round = Round::default();
        self.webhooks.mutate(request, settle, &mut round).await?;
        if round.changed {
            // A webhook may have added containers, which want their token as the others do.
            let before = request.object.clone();
            account::mutate(&*self.objects, request).await?;
            round.begin_again(before != request.object);
            self.webhooks.mutate(request, settle, &mut round).await?;
        }
        Ok(round.warnings)
    }

    /// Asks the validating webhooks.
    pub async fn validate(&self, request: &Request) -> Result<Warnings, Refusal> {
        self.webhooks.validate(request).await
    }
}
