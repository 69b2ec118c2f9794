//! Patch: the four ways to say what should change, all ending in the same update.

use std::sync::Arc;

use ironsail_patch::apply::{ApplyError, Conflict, Conflicts, apply};
use ironsail_patch::{json_patch, merge_patch, strategic_merge};
use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::create::{Owners, insert};
use super::update::{Edit, Made, Outcome, change, nameless};
use crate::body::{self, Format, media_type};
use crate::call::{Author, Call, decode};
use crate::meta;
use crate::query::{FieldValidation, WriteOptions};
use crate::registry::Definition;
use crate::reply::Reply;
use crate::status::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    pub(crate) fn of(call: &Call) -> Result<Self, Status> {
        let unsupported = || Status {
            details: Some(json!({})),
            ..Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        };
        match media_type(&call.headers) {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            "application/strategic-merge-patch+json" if call.definition.strategic() => {
                Ok(Self::Strategic)
            }
            "application/strategic-merge-patch+json" => Err(Status::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, \
                 application/apply-patch+yaml",
            )),
            _ => Err(unsupported()),
        }
    }
}

fn check_options(options: &WriteOptions, kind: PatchKind) -> Result<(), Status> {
    let mut errors = Vec::new();
    if kind == PatchKind::Apply && options.field_manager.is_empty() {
        errors.push(FieldError::required("fieldManager", "is required for apply patch"));
    }
    if kind != PatchKind::Apply && options.force.is_some() {
        errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid_options("PatchOptions", &errors)) }
}

pub(crate) async fn patch(
    call: &mut Call,
    subresource: Option<&str>,
    bytes: &[u8],
) -> Result<Reply, Status> {
    let kind = PatchKind::of(call)?;
    let options = WriteOptions::parse(&call.query, "PatchOptions")?;
    check_options(&options, kind)?;
    if kind == PatchKind::Apply {
        return apply_patch(call, subresource, bytes, &options).await;
    }
    let document = document(bytes)?;
    let definition = call.definition.clone();
    let validation = options.field_validation;
    let make = move |old: &Value| {
        let patched = patched(&*definition, kind, old, &document)?;
        let decoded = decode(&*definition, patched.clone(), &[], validation)
            .map_err(|status| unfit(&patched, &status))?;
        check_identity(&*definition, &decoded.value, old)?;
        Ok(Made { value: decoded.value, warnings: decoded.warnings, owners: Owners::Track })
    };
    change(call, Edit::of(subresource), &options, &make).await.map(Outcome::reply)
}

/// A patch whose outcome is no object of this kind.
fn unfit(patched: &Value, status: &Status) -> Status {
    let (_, why) = status.message.split_once(" cannot be handled as a ").unwrap_or(("", ""));
    let why = why.split_once(": ").map_or(status.message.as_str(), |(_, why)| why);
    let error = FieldError::invalid("patch", patched.to_string(), why);
    Status::invalid("", "", "", &[error])
}

/// A patch cannot make another object of this one.
fn check_identity(definition: &dyn Definition, new: &Value, old: &Value) -> Result<(), Status> {
    let (name, own) = (meta::text(new, "name"), meta::text(old, "name"));
    if name != own {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({own})"
        )));
    }
    if meta::text(new, "namespace") != meta::text(old, "namespace") {
        return Err(super::create::namespace_mismatch());
    }
    let uid = meta::text(new, "uid");
    if uid != meta::text(old, "uid") {
        let error = FieldError::invalid("metadata.uid", uid, "field is immutable");
        let names = definition.names();
        return Err(Status::invalid(&names.group, &names.kind, own, &[error]));
    }
    Ok(())
}

/// The patch document of every kind but apply.
pub(crate) fn document(bytes: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(bytes)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))
}

/// Applies a patch that is not server-side apply.
pub(crate) fn patched(
    definition: &dyn Definition,
    kind: PatchKind,
    old: &Value,
    document: &Value,
) -> Result<Value, Status> {
    match kind {
        PatchKind::Json => json_patch(old, document).map_err(|error| refused(&error)),
        PatchKind::Strategic => {
            strategic_merge(old, document, &definition.type_info()).map_err(|error| refused(&error))
        }
        PatchKind::Merge | PatchKind::Apply => {
            if !document.is_object() {
                return Err(Status::bad_request(
                    "error decoding patch: a merge patch must be a JSON object",
                ));
            }
            let mut new = old.clone();
            merge_patch(&mut new, document);
            Ok(new)
        }
    }
}

pub(crate) fn refused(error: &ironsail_patch::Error) -> Status {
    let reason = match error.code() {
        400 => "BadRequest",
        413 => "RequestEntityTooLarge",
        422 => "Invalid",
        _ => "InternalError",
    };
    let message = match error.code() {
        422 => format!("the server rejected our request due to an error in our request: {error}"),
        _ => error.to_string(),
    };
    let details = (error.code() == 422).then(|| json!({}));
    Status { details, ..Status::new(error.code(), reason, message) }
}

async fn apply_patch(
    call: &mut Call,
    subresource: Option<&str>,
    bytes: &[u8],
    options: &WriteOptions,
) -> Result<Reply, Status> {
    let applied = applied(call, bytes, options)?;
    let merge = Merge {
        definition: call.definition.clone(),
        author: call.author(options, subresource),
        force: options.force.unwrap_or(false),
        applied,
    };
    if subresource.is_none() && call.stored(call.name()).is_err() {
        match create_by_apply(call, &merge, options).await {
            // Somebody else created it in the meantime: merge into that.
            Err(status) if status.reason == "AlreadyExists" => {}
            done => return done,
        }
    }
    let make = move |old: &Value| {
        let value = merge.object_from(Some(old))?;
        Ok(Made { value, warnings: Vec::new(), owners: Owners::Done })
    };
    change(call, Edit::of(subresource), options, &make).await.map(Outcome::reply)
}

/// A server-side apply, to be merged into whatever the live object is.
struct Merge {
    definition: Arc<dyn Definition>,
    author: Author,
    applied: Value,
    force: bool,
}

impl Merge {
    fn object_from(&self, live: Option<&Value>) -> Result<Value, Status> {
        let info = self.definition.type_info();
        let merged = apply(live, &self.applied, &self.author.writer(), self.force, &info);
        let merged = merged.map_err(|error| match error {
            ApplyError::Refused(error) => refused(&error),
            ApplyError::Conflict(conflicts) => conflict(&conflicts),
        })?;
        // Unknown fields were judged in the applied configuration itself.
        Ok(decode(&*self.definition, merged, &[], FieldValidation::Ignore)?.value)
    }
}

fn conflict(conflicts: &Conflicts) -> Status {
    let cause = |conflict: &Conflict| {
        json!({
            "reason": "FieldManagerConflict",
            "message": conflict.message(),
            "field": conflict.field,
        })
    };
    let causes: Vec<_> = conflicts.0.iter().map(cause).collect();
    let mut status = Status::new(409, "Conflict", conflicts.to_string());
    status.details = Some(json!({"causes": causes}));
    status
}

/// The applied configuration, checked but not filled with defaults.
fn applied(call: &mut Call, bytes: &[u8], options: &WriteOptions) -> Result<Value, Status> {
    let (mut value, duplicates) = body::parse(bytes, Format::Yaml, &call.names().kind)?;
    let said = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (said("apiVersion"), said("kind"));
    if *kind != *call.names().kind || *api_version != call.names().api_version() {
        let version = match api_version.contains('/') {
            true => api_version.to_owned(),
            false => format!("/{api_version}"),
        };
        return Err(Status::bad_request(format!("invalid object type: {version}, Kind={kind}")));
    }
    let decoded = decode(&*call.definition, value.clone(), &duplicates, options.field_validation)?;
    call.warnings.extend(decoded.warnings);
    let name = call.name().to_owned();
    let (given, namespace) =
        (meta::text(&value, "name").to_owned(), meta::text(&value, "namespace").to_owned());
    // What is there already is known by the path alone.
    if given.is_empty() && call.stored(&name).is_err() {
        return Err(nameless(&name));
    }
    if !given.is_empty() && given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    if !namespace.is_empty() && namespace != call.namespace() {
        return Err(super::create::namespace_mismatch());
    }
    if let Some(metadata) = meta::of(&mut value) {
        metadata.insert("name".to_owned(), name.into());
        if call.names().namespaced {
            metadata.insert("namespace".to_owned(), call.namespace().into());
        }
    }
    Ok(value)
}

async fn create_by_apply(
    call: &mut Call,
    merge: &Merge,
    options: &WriteOptions,
) -> Result<Reply, Status> {
    let applied = &merge.applied;
    let wanted = meta::text(applied, "resourceVersion");
    if !wanted.is_empty() {
        return Err(Status::modified(call.names(), call.name()));
    }
    if !meta::text(applied, "uid").is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {}, and no existing object was found",
            meta::text(applied, "uid")
        );
        let names = call.names();
        return Err(Status::conflict(&names.group, &names.plural, call.name(), &why));
    }
    let value = merge.object_from(None)?;
    insert(call, value, options, Owners::Done).await
}
