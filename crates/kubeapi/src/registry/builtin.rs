//! The built-in kinds as resources.

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use ironsail_patch::TypeInfo;
use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::{Definition, Names, ScalePaths, Unconditional, event};
use crate::kinds::{self, Decoded, Kind, Subresource};

struct Builtin {
    kind: &'static Kind,
    names: Names,
}

/// Made once; every table shares them.
pub(super) fn all() -> impl Iterator<Item = Arc<dyn Definition>> {
    static ALL: LazyLock<Vec<Arc<dyn Definition>>> = LazyLock::new(|| {
        kinds::all()
            .iter()
            .map(|kind| Arc::new(Builtin::new(kind)) as Arc<dyn Definition>)
            .collect()
    });
    ALL.iter().cloned()
}

/// Kinds whose PUT must say which version it changes.
const CONDITIONAL: [&str; 6] = [
    "customresourcedefinitions",
    "leases",
    "mutatingwebhookconfigurations",
    "poddisruptionbudgets",
    "validatingadmissionpolicies",
    "validatingwebhookconfigurations",
];

impl Builtin {
    fn new(kind: &'static Kind) -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let names = Names {
            group: kind.group.into(),
            version: kind.version.into(),
            kind: kind.kind.into(),
            list_kind: format!("{}List", kind.kind).into(),
            plural: kind.plural.into(),
            singular: kind.singular.into(),
            short_names: texts(kind.short_names),
            categories: texts(kind.categories),
            namespaced: kind.namespaced,
        };
        Self { kind, names }
    }

    /// The schemas of definitions are compiled to see whether they are right.
    fn is_definition(&self) -> bool {
        self.kind.group == crate::crd::GROUP && self.kind.plural == crate::crd::PLURAL
    }

    /// Events of both groups are the same objects; they are kept in the core group's shape.
    fn is_new_event(&self) -> bool {
        self.kind.group == "events.k8s.io" && self.kind.plural == "events"
    }
}

impl Definition for Builtin {
    fn names(&self) -> &Names {
        &self.names
    }

    fn verbs(&self) -> Vec<String> {
        self.kind.verbs.iter().map(|verb| (*verb).to_owned()).collect()
    }

    fn subresources(&self) -> Vec<String> {
        self.kind.subresources.iter().map(|name| (*name).to_owned()).collect()
    }

    fn subresource(&self, name: &str) -> Option<Subresource> {
        self.kind.subresource(name)
    }

    fn storage(&self) -> (Arc<str>, Arc<str>) {
        let group = if self.is_new_event() { "".into() } else { self.names.group.clone() };
        (group, self.names.plural.clone())
    }

    fn from_storage(&self, mut object: Value) -> Value {
        if self.is_new_event() {
            event::to_new(&mut object);
        }
        object["apiVersion"] = self.names.api_version().into();
        object
    }

    fn to_storage(&self, mut object: Value) -> Value {
        if self.is_new_event() {
            event::to_core(&mut object);
        }
        object
    }

    fn decode(&self, object: Value) -> Result<Decoded, String> {
        self.kind.decode(object).map_err(|error| error.to_string())
    }

    fn default(&self, object: &mut Value) {
        self.kind.default(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        self.kind.prepare_create(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, subresource: Option<&str>) {
        self.kind.prepare_update(new, old, subresource);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = self.kind.validate_create(object);
        if self.is_definition() {
            errors.extend(crate::crd::check(object, None));
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.kind.validate_update(new, old);
        if self.is_definition() {
            errors.extend(crate::crd::check(new, Some(old)));
        }
        errors
    }

    fn unconditional(&self) -> Unconditional {
        if CONDITIONAL.contains(&self.kind.plural) {
            Unconditional::Refused
        } else {
            Unconditional::Allowed
        }
    }

    fn columns(&self) -> Value {
        let columns = self.kind.columns().iter().map(|column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        });
        columns.collect()
    }

    fn cells(&self, object: &Value, now: SystemTime) -> Vec<Value> {
        self.kind.cells(object, now)
    }

    fn field(&self, object: &Value, path: &str) -> Option<Option<String>> {
        self.kind.field(object, path)
    }

    fn selectable(&self) -> Vec<String> {
        self.kind.selectable().map(str::to_owned).collect()
    }

    fn scale(&self) -> Option<ScalePaths> {
        self.kind.subresource("scale")?;
        Some(ScalePaths {
            spec_replicas: "/spec/replicas".to_owned(),
            status_replicas: "/status/replicas".to_owned(),
            selector: Some("/spec/selector".to_owned()),
        })
    }

    fn type_info(&self) -> TypeInfo {
        TypeInfo::builtin(self.kind.group, self.kind.version, self.kind.kind)
            .unwrap_or_else(TypeInfo::untyped)
    }

    fn strategic(&self) -> bool {
        true
    }
}
