//! CustomResourceDefinitions: the names, the versions and the outline of their schemas.
//!
//! What a structural schema may contain in detail is checked where schemas are compiled.

use std::collections::HashSet;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::at::{At, Errors, as_map, each, object, set_if_zero, there};
use super::meta::immutable;
use super::table::{NAME_CREATED_AT, name_created_at};
use super::{BEHAVIOUR, Behaviour, Generation, Kind, STORED};

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "apiextensions.k8s.io",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    singular: "customresourcedefinition",
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    namespaced: false,
    subresources: &["status"],
    package: "apiextensions.v1",
    generation: Generation::Content,
    behaviour: Behaviour {
        default,
        prepare_create: stored_versions,
        validate,
        validate_update,
        columns: NAME_CREATED_AT,
        row: name_created_at,
        ..BEHAVIOUR
    },
    ..STORED
}];

fn default(definition: &mut Value) {
    let spec = object(definition, "spec");
    let names = object(spec, "names");
    if let Some(kind) = names["kind"].as_str().filter(|k| !k.is_empty()).map(str::to_owned) {
        set_if_zero(names, "singular", kind.to_lowercase());
        set_if_zero(names, "listKind", format!("{kind}List"));
    }
    if there(spec, "conversion").is_none() {
        as_map(spec).insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let client = spec
        .get_mut("conversion")
        .and_then(|c| there(c, "webhook"))
        .and_then(|w| there(w, "clientConfig"))
        .and_then(|c| there(c, "service"));
    if let Some(service) = client {
        super::at::set_default(service, "port", 443);
    }
    if definition["status"]["storedVersions"].as_array().is_none_or(Vec::is_empty) {
        stored_versions(definition);
    }
}

/// The version objects are stored in is remembered from the start.
fn stored_versions(definition: &mut Value) {
    let stored: Vec<Value> = each(object(definition, "spec"), "versions")
        .filter(|v| v["storage"] == true)
        .map(|v| v["name"].clone())
        .take(1)
        .collect();
    as_map(object(definition, "status")).insert("storedVersions".to_owned(), Value::Array(stored));
}

fn validate(definition: &Value, errors: &mut Errors) {
    let at = At::root(definition);
    let spec = at.get("spec");
    let (group, plural) = (spec.get("group"), spec.dig("names.plural"));
    let wanted = format!("{}.{}", plural.str(), group.str());
    let own = at.dig("metadata.name");
    if own.str() != wanted {
        errors.push(own.invalid("must be spec.names.plural+\".\"+spec.group"));
    }
    if group.need(errors) {
        let wrong = super::name::subdomain(group.str());
        if !wrong.is_empty() {
            errors.push(group.invalid(wrong.join(",")));
        } else if !group.str().contains('.') {
            errors.push(group.invalid("should be a domain with at least one dot"));
        }
    }
    spec.get("scope").one_of(&["Cluster", "Namespaced"], errors);
    versions(&spec.get("versions"), errors);
    names(&spec.get("names"), errors);
    let strategy = spec.dig("conversion.strategy");
    strategy.one_of(&["None", "Webhook"], errors);
    if spec.get("preserveUnknownFields").bool() {
        errors.push(spec.get("preserveUnknownFields").invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
             spec.versions[*].schema instead",
        ));
    }
}

fn versions(list: &At<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    let schemas: Vec<_> = list.items().map(|v| v.get("schema").value).collect();
    let shared = schemas.windows(2).all(|pair| pair[0] == pair[1]);
    for version in list.items() {
        let own = version.get("name");
        let wrong = super::name::label1035(own.str());
        if !wrong.is_empty() {
            errors.push(own.invalid(wrong.join(",")));
        }
        if !seen.insert(own.str()) {
            errors.push(list.invalid("must contain unique version names"));
        }
        let schema = version.dig("schema.openAPIV3Schema");
        if schema.is_set() {
            // Where all versions share a schema, the real server reports it in one place.
            let path = if shared {
                "spec.validation.openAPIV3Schema".to_owned()
            } else {
                schema.path.clone()
            };
            root_schema(&At { value: schema.value, path }, errors);
        } else {
            errors.push(schema.required(""));
        }
        for column in version.get("additionalPrinterColumns").items() {
            printer_column(&column, errors);
        }
        scale(&version.dig("subresources.scale"), errors);
    }
    if list.items().filter(|v| v.get("storage").bool()).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(list.invalid(detail));
    }
}

fn root_schema(schema: &At<'_>, errors: &mut Errors) {
    let kind = schema.get("type");
    if kind.is_empty() {
        errors.push(kind.required("must not be empty at the root"));
    } else if kind.str() != "object" {
        errors.push(kind.invalid("must be object at the root"));
    }
    if schema.get("nullable").bool() {
        errors.push(FieldError::forbidden(
            schema.get("nullable").path,
            "nullable cannot be true at the root",
        ));
    }
}

fn printer_column(column: &At<'_>, errors: &mut Errors) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    column.get("name").need(errors);
    let kind = column.get("type");
    let detail = format!("must be one of {}", TYPES.join(","));
    if kind.is_empty() {
        errors.push(kind.required(&detail));
    } else if !TYPES.contains(&kind.str()) {
        errors.push(kind.invalid(detail));
    }
    let path = column.get("jsonPath");
    if path.is_empty() {
        errors.push(column.get("JSONPath").required(""));
    } else if !path.str().starts_with('.') {
        let wrong = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(column.get("JSONPath").path, path.str(), wrong));
    }
}

fn scale(scale: &At<'_>, errors: &mut Errors) {
    if !scale.is_set() {
        return;
    }
    for (key, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let path = scale.get(key);
        if path.is_empty() {
            errors.push(path.required(""));
        } else if !path.str().starts_with('.') {
            errors.push(path.invalid("must be a simple json path starting with ."));
        } else if !path.str().starts_with(&format!("{root}.")) {
            errors.push(path.invalid(format!("should be a json path under {root}")));
        }
    }
    let selector = scale.get("labelSelectorPath");
    let under = [".spec.", ".status."].iter().any(|root| selector.str().starts_with(root));
    if !selector.is_empty() && !under {
        errors.push(selector.invalid("should be a json path under either .spec or .status"));
    }
}

fn names(names: &At<'_>, errors: &mut Errors) {
    for key in ["plural", "singular", "kind", "listKind"] {
        let at = names.get(key);
        if !at.need(errors) {
            continue;
        }
        let mixed = matches!(key, "kind" | "listKind");
        let text = if mixed { at.str().to_lowercase() } else { at.str().to_owned() };
        let wrong = super::name::label1035(&text);
        if !wrong.is_empty() {
            let prefix =
                if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(at.invalid(format!("{prefix}{}", wrong.join(","))));
        }
    }
    for key in ["shortNames", "categories"] {
        for at in names.get(key).items() {
            let wrong = super::name::label1035(at.str());
            if !wrong.is_empty() {
                errors.push(at.invalid(wrong.join(",")));
            }
        }
    }
    if names.get("kind").str() == names.get("listKind").str() && !names.get("kind").is_empty() {
        errors.push(names.get("listKind").invalid("kind and listKind may not be the same"));
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (At::root(new), At::root(old));
    for path in ["spec.group", "spec.scope", "spec.names.kind", "spec.names.plural"] {
        immutable(&new.dig(path), &old.dig(path), errors);
    }
    // Objects may still be stored in a version that once was the storage version.
    let named = |name: &str| new.dig("spec.versions").items().any(|v| v.get("name").str() == name);
    for stored in new.dig("status.storedVersions").items() {
        let name = stored.str();
        if !named(name) {
            errors.push(stored.invalid(format!(
                "missing from spec.versions; {name} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {name} and removes {name} from status.storedVersions"
            )));
        }
    }
}
