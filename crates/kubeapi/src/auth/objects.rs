//! What authentication, authorization and admission read from the store: objects as JSON, and a
//! counter per resource that tells when something derived from them is stale.

use std::sync::Arc;

use serde_json::Value;

/// A read-only view of stored objects. The group of the core API is the empty string.
pub trait Objects: Send + Sync + 'static {
    /// `namespace` is `None` for objects without one.
    fn get(
        &self,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Arc<Value>>;

    /// All objects of a resource; of all namespaces where `namespace` is `None`.
    fn list(&self, group: &str, resource: &str, namespace: Option<&str>) -> Vec<Arc<Value>>;

    /// Changes whenever an object of the resource was created, changed or deleted.
    fn version(&self, group: &str, resource: &str) -> u64;
}
