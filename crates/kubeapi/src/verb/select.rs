//! Which objects a list or watch is about: namespace, labels and fields.

use std::sync::Arc;

use serde_json::Value;

use crate::call::Call;
use crate::query::ListOptions;
use crate::registry::Definition;
use crate::reply::value_in_version;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Status;
use crate::store::Object;

#[derive(Clone)]
pub(crate) struct Selection {
    pub(crate) definition: Arc<dyn Definition>,
    pub(crate) namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    /// Some field is not part of the key, so objects must be parsed to select by it.
    deep: bool,
}

impl Selection {
    pub(crate) fn new(call: &Call, options: &ListOptions) -> Result<Self, Status> {
        let labels = LabelSelector::parse(&options.label_selector)?;
        let fields = FieldSelector::parse(&options.field_selector)?;
        let known = call.definition.selectable();
        for term in &fields.0 {
            if !known.contains(&term.field) {
                return Err(unknown_field(&term.field, &known));
            }
        }
        let deep = fields.0.iter().any(|term| !is_key(&term.field));
        let namespace = call.target.namespace.clone();
        Ok(Self { definition: call.definition.clone(), namespace, labels, fields, deep })
    }

    /// Restricts the selection to one object.
    pub(crate) fn named(mut self, name: &str) -> Result<Self, Status> {
        let only = FieldSelector::parse(&format!("metadata.name={name}"))?;
        self.fields.0.extend(only.0);
        Ok(self)
    }

    /// Whether everything in the namespace is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        if let Some(namespace) = &self.namespace
            && *object.key.namespace != **namespace
        {
            return false;
        }
        if !self.labels.matches(object.meta.labels.as_ref()) {
            return false;
        }
        if self.fields.is_empty() {
            return true;
        }
        let value =
            if self.deep { value_in_version(&*self.definition, object) } else { Value::Null };
        self.fields.matches(|field| match field {
            "metadata.name" => Some(object.key.name.to_string()),
            "metadata.namespace" => Some(object.key.namespace.to_string()),
            field => self.definition.field(&value, field).flatten(),
        })
    }
}

fn is_key(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

/// Kubernetes has two texts: one for kinds with fields of their own, one for all others.
fn unknown_field(field: &str, known: &[String]) -> Status {
    if known.iter().any(|field| !is_key(field)) {
        return Status::bad_request(format!("field label not supported: {field}"));
    }
    Status::bad_request(format!(
        "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    ))
}
