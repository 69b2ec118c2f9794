//! The rules of `metadata` that all kinds share, and what each endpoint may change.

use ironsail_schema::FieldError;
use serde_json::Value;

use super::at::{At, Errors, as_map, object, restore};
use super::{Kind, NameRule, name};

/// Standard finalizers need no domain.
const FINALIZERS: [&str; 4] =
    ["kubernetes", "orphan", "foregroundDeletion", "metadata.kubernetes.io"];
const ANNOTATIONS_LIMIT: usize = 256 << 10;
const IMMUTABLE: &str = "field is immutable";

/// What finalizers may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finalizers {
    /// A domain before a slash, or a standard name.
    WithDomain,
    /// Any name; of definitions and custom resources.
    Any,
}

/// `metadata` of a new object.
pub(super) fn validate(
    names: NameRule,
    namespaced: bool,
    finalizers: Finalizers,
    obj: &Value,
    errors: &mut Errors,
) {
    let meta = At::root(obj).get("metadata");
    let generate = meta.get("generateName");
    if !generate.is_empty() {
        for wrong in names.check(generate.str(), true) {
            errors.push(generate.invalid(wrong));
        }
    }
    let own = meta.get("name");
    if own.is_empty() {
        errors.push(own.required("name or generateName is required"));
    } else {
        for wrong in names.check(own.str(), false) {
            errors.push(own.invalid(wrong));
        }
    }
    let namespace = meta.get("namespace");
    if namespaced {
        if namespace.need(errors) {
            errors.extend(name::label(namespace.str()).into_iter().map(|w| namespace.invalid(w)));
        }
    } else if !namespace.is_empty() {
        errors.push(namespace.forbidden("not allowed on this type"));
    }
    content(&meta, finalizers, errors);
}

/// What is checked on every write.
fn content(meta: &At<'_>, rule: Finalizers, errors: &mut Errors) {
    meta.get("generation").not_negative(errors);
    labels(&meta.get("labels"), errors);
    annotations(&meta.get("annotations"), errors);
    owners(&meta.get("ownerReferences"), errors);
    let finalizers = meta.get("finalizers");
    for item in finalizers.items() {
        for wrong in name::qualified(item.str()) {
            errors.push(FieldError::invalid(finalizers.path.clone(), item.value.clone(), wrong));
        }
    }
    for item in finalizers.items() {
        let strict = rule == Finalizers::WithDomain;
        if strict && !item.str().contains('/') && !FINALIZERS.contains(&item.str()) {
            errors.push(
                item.invalid("name is neither a standard finalizer name nor is it fully qualified"),
            );
        }
    }
    let policies: Vec<_> =
        finalizers.items().filter(|f| matches!(f.str(), "orphan" | "foregroundDeletion")).collect();
    if policies.len() > 1 {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(finalizers.invalid(detail));
    }
}

pub(super) fn labels(labels: &At<'_>, errors: &mut Errors) {
    for (key, value) in labels.entries() {
        for wrong in name::label_key(key) {
            errors.push(FieldError::invalid(labels.path.clone(), key, wrong));
        }
        for wrong in name::label_value(value.str()) {
            errors.push(FieldError::invalid(labels.path.clone(), value.value.clone(), wrong));
        }
    }
}

pub(super) fn annotations(annotations: &At<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        for wrong in name::qualified(&key.to_ascii_lowercase()) {
            errors.push(FieldError::invalid(annotations.path.clone(), key, wrong));
        }
        size += key.len() + value.str().len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::new(
            annotations.path.clone(),
            ironsail_schema::Reason::TooLong,
            Value::Null,
            format!("may not be more than {ANNOTATIONS_LIMIT} bytes"),
        ));
    }
}

fn owners(owners: &At<'_>, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    let under = |key: &str| format!("{}.{key}", owners.path);
    for owner in owners.items() {
        let api = owner.get("apiVersion");
        let version = match api.str().split('/').collect::<Vec<_>>().as_slice() {
            [version] | [_, version] => (*version).to_owned(),
            _ => String::new(),
        };
        if version.is_empty() {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(under("apiVersion"), api.str(), detail));
        }
        for key in ["kind", "name", "uid"] {
            if owner.get(key).is_empty() {
                errors.push(FieldError::invalid(under(key), "", "must not be empty"));
            }
        }
        if owner.get("kind").str() == "Event" && api.str() == "v1" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(owners.path.clone(), owner.value.clone(), detail));
        }
        if owner.get("controller").bool() {
            let this = format!("{}/{}", owner.get("kind").str(), owner.get("name").str());
            match &controller {
                Some(first) => errors.push(owners.invalid(format!(
                    "Only one reference can have Controller set to true. \
                     Found \"true\" in references for {first} and {this}"
                ))),
                None => controller = Some(this),
            }
        }
    }
}

/// `metadata` of a changed object. What the caller itself fills in from the old object (uid, creation
/// time, deletion) is not looked at here.
pub(super) fn validate_update(new: &Value, old: &Value, rule: Finalizers, errors: &mut Errors) {
    let (new, old) = (At::root(new).get("metadata"), At::root(old).get("metadata"));
    for key in ["name", "namespace"] {
        immutable(&new.get(key), &old.get(key), errors);
    }
    content(&new, rule, errors);
}

/// Reports a field that may not change but did.
pub(super) fn immutable(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if new.value != old.value && !(new.is_empty() && old.is_empty()) {
        errors.push(new.invalid(IMMUTABLE));
    }
}

/// Keeps an update to the part its endpoint owns.
pub(super) fn prepare_update(kind: &Kind, new: &mut Value, old: &Value, subresource: Option<&str>) {
    match subresource {
        // A binding sets the node and the condition that says so.
        Some("binding") => {}
        None | Some("finalize" | "scale") => {
            if kind.has_subresource("status") {
                restore(new, old, "status");
            }
        }
        Some(_) => {
            // Whatever is not metadata or status belongs to the main endpoint.
            let keys: Vec<String> = as_map(new).keys().cloned().collect();
            for key in keys.iter().chain(old.as_object().into_iter().flat_map(|o| o.keys())) {
                if !matches!(key.as_str(), "metadata" | "status" | "kind" | "apiVersion") {
                    restore(new, old, key);
                }
            }
            if let Some(old) = old.get("metadata") {
                let meta = object(new, "metadata");
                for key in ["labels", "ownerReferences", "deletionTimestamp", "finalizers"] {
                    restore(meta, old, key);
                }
            }
        }
    }
}

/// `metadata.generation` is the server's: it rises by one when the content changed.
pub(super) fn raise_generation(counts: bool, new: &mut Value, old: &Value) {
    let before = old["metadata"]["generation"].as_i64();
    let changed = counts && content_differs(new, old);
    let meta = as_map(object(new, "metadata"));
    match before {
        Some(n) => meta.insert("generation".to_owned(), Value::from(n + i64::from(changed))),
        None if changed => meta.insert("generation".to_owned(), Value::from(1)),
        None => meta.remove("generation"),
    };
}

fn content_differs(new: &Value, old: &Value) -> bool {
    let skip = |key: &str| matches!(key, "metadata" | "status" | "kind" | "apiVersion");
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new != old };
    new.iter().any(|(key, value)| !skip(key) && old.get(key) != Some(value))
        || old.keys().any(|key| !skip(key) && !new.contains_key(key))
}
