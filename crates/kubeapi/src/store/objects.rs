//! The store as authentication, authorization and admission read it: parsed objects.

use std::sync::Arc;

use serde_json::Value;

use super::Reader;
use crate::auth::Objects;

impl Objects for Reader {
    fn get(
        &self,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Arc<Value>> {
        let object = Reader::get(self, group, resource, namespace.unwrap_or_default(), name)?;
        Some(Arc::new(object.value()))
    }

    fn list(&self, group: &str, resource: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let listing = Reader::list(self, group, resource, namespace);
        listing.objects.iter().map(|object| Arc::new(object.value())).collect()
    }

    fn version(&self, group: &str, resource: &str) -> u64 {
        self.changes(group, resource)
    }
}
