//! Update: the stored object is exchanged for a changed one, unless somebody else was faster.
//!
//! PUT, patches and subresources all come through [`change`], which runs the change again on the
//! newer object when a write came between.

use std::sync::Arc;

use ironsail_schema::FieldError;
use serde_json::Value;

use super::create::{Owners, namespace_mismatch};
use crate::admission::Operation;
use crate::call::Call;
use crate::meta;
use crate::query::WriteOptions;
use crate::registry::Unconditional;
use crate::reply::Reply;
use crate::status::Status;
use crate::store::{Change, CommitError, Expect, Object};

/// How often a change is tried on ever newer objects.
const ATTEMPTS: usize = 100;

/// A new state made from the old one.
pub(crate) struct Made {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
    pub(crate) owners: Owners,
}

/// Which endpoint changes the object, and what its kind says to that.
#[derive(Clone, Copy)]
pub(crate) struct Edit<'a> {
    pub(crate) subresource: Option<&'a str>,
    pub(crate) rules: Rules,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// The kind keeps the endpoint to its part and validates.
    Endpoint,
    /// As for a change of the object itself: `scale` sets a field of the spec.
    Object,
    /// The server itself makes this change: a binding, the end of a namespace.
    Server,
}

impl<'a> Edit<'a> {
    pub(crate) fn of(subresource: Option<&'a str>) -> Self {
        Self { subresource, rules: Rules::Endpoint }
    }
}

/// Makes the new state; called again when the old one has changed.
pub(crate) type Make<'a> = &'a (dyn Fn(&Value) -> Result<Made, Status> + Send + Sync);

/// What came of a change.
pub(crate) enum Outcome {
    Stored(Arc<Object>),
    /// A dry run, or an object that this change has finally deleted.
    Unstored(Value),
}

impl Outcome {
    pub(crate) fn reply(self) -> Reply {
        match self {
            Self::Stored(object) => Reply::Object { code: 200, object },
            Self::Unstored(value) => Reply::Value { code: 200, value },
        }
    }
}

pub(crate) async fn update(
    call: &mut Call,
    subresource: Option<&str>,
    body: &[u8],
) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&call.query, "UpdateOptions")?;
    let mut value = call.decode_body(body, options.field_validation)?;
    check_identity(call, &mut value)?;
    let make = move |_: &Value| {
        Ok(Made { value: value.clone(), warnings: Vec::new(), owners: Owners::Track })
    };
    change(call, Edit::of(subresource), &options, &make).await.map(Outcome::reply)
}

/// Name and namespace in the body must be those of the path.
pub(crate) fn check_identity(call: &Call, value: &mut Value) -> Result<(), Status> {
    let (name, namespace) = (meta::text(value, "name"), meta::text(value, "namespace"));
    if name.is_empty() {
        return Err(nameless(call.name()));
    }
    if name != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    if !namespace.is_empty() && namespace != call.namespace() {
        return Err(namespace_mismatch());
    }
    Ok(())
}

pub(crate) fn nameless(name: &str) -> Status {
    Status::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

pub(crate) async fn change(
    call: &mut Call,
    edit: Edit<'_>,
    options: &WriteOptions,
    make: Make<'_>,
) -> Result<Outcome, Status> {
    let name = call.name().to_owned();
    let before = call.warnings.len();
    for _ in 0..ATTEMPTS {
        call.warnings.truncate(before);
        let current = call.stored(&name)?;
        if let Some(outcome) = attempt(call, edit, options, make, &current).await? {
            return Ok(outcome);
        }
    }
    Err(Status::modified(call.names(), &name))
}

/// `None` when another write came between.
async fn attempt(
    call: &mut Call,
    edit: Edit<'_>,
    options: &WriteOptions,
    make: Make<'_>,
    current: &Arc<Object>,
) -> Result<Option<Outcome>, Status> {
    let definition = call.definition.clone();
    let name = current.key.name.to_string();
    let old = Arc::new(call.value_of(current));
    let Made { value: mut new, warnings, owners } = make(&old)?;
    call.warnings.extend(warnings);
    check_preconditions(call, &new, current)?;
    meta::keep(&mut new, &old);
    definition.default(&mut new);
    if owners == Owners::Track {
        call.track(Some(&old), &mut new, edit.subresource, options);
    }
    let mut request = call.admission_request(Operation::Update, edit.subresource, &name, options);
    request.old = Some(old.clone());
    request.object = Some(new);
    call.mutate(&mut request).await?;
    let mut new = request.object.take().unwrap_or_default();
    meta::keep(&mut new, &old);
    let reserved = call.server.addresses.reserve(call.names(), &mut new, Some(&old))?;
    obey(call, edit, &mut new, &old)?;
    request.object = Some(new);
    call.validate(&request).await?;
    let new = request.object.unwrap_or_default();
    if options.dry_run {
        return Ok(Some(Outcome::Unstored(new)));
    }
    if is_same(&new, &old) {
        return Ok(Some(Outcome::Stored(current.clone())));
    }
    let done = commit(call, current, new).await?;
    if done.is_some() {
        reserved.keep();
    }
    Ok(done)
}

/// What the kind and the server's own rules say to the change.
fn obey(call: &Call, edit: Edit<'_>, new: &mut Value, old: &Value) -> Result<(), Status> {
    let mut errors = Vec::new();
    if edit.rules != Rules::Server {
        let endpoint = edit.subresource.filter(|_| edit.rules == Rules::Endpoint);
        call.definition.prepare_update(new, old, endpoint);
        errors = call.definition.validate_update(new, old);
    }
    let had = meta::finalizers(old);
    let added: Vec<_> = meta::finalizers(new).into_iter().filter(|f| !had.contains(f)).collect();
    if meta::is_deleting(old) && !added.is_empty() {
        let list: Vec<_> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            list.join(", ")
        );
        errors.push(FieldError::forbidden("metadata.finalizers", detail));
    }
    if !errors.is_empty() {
        return Err(call.invalid(meta::text(old, "name"), &errors));
    }
    if edit.subresource.is_none() { call.check_escalation(new, Some(old)) } else { Ok(()) }
}

/// Equal but for the times at which managers are noted: not worth a new version.
fn is_same(new: &Value, old: &Value) -> bool {
    fn timeless(object: &Value) -> Value {
        let mut object = object.clone();
        let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        object
    }
    new == old || (new["metadata"] != old["metadata"] && timeless(new) == timeless(old))
}

/// Writes the new state; one that was only waiting for its last finalizer is removed instead.
pub(crate) async fn commit(
    call: &Call,
    current: &Arc<Object>,
    new: Value,
) -> Result<Option<Outcome>, Status> {
    let expect = Expect::Revision(current.revision);
    let key = current.key.clone();
    let finished = is_finished(call, &new);
    let new = call.definition.to_storage(new);
    let change = if finished { Change::Remove(new) } else { Change::Put(new) };
    match call.server.store.commit(key, expect, change).await {
        Ok(object) if finished => {
            let value = call.value_of(&object);
            call.server.addresses.release(call.names(), &value);
            Ok(Some(Outcome::Unstored(value)))
        }
        Ok(object) => Ok(Some(Outcome::Stored(object))),
        Err(CommitError::Conflict) => Ok(None),
        Err(error) => Err(Status::internal(error.to_string())),
    }
}

/// Whether an object is being deleted and nothing holds it any more.
fn is_finished(call: &Call, object: &Value) -> bool {
    let held_namespace = *call.names().kind == *"Namespace"
        && object
            .pointer("/spec/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|f| !f.is_empty());
    meta::is_deleting(object)
        && meta::finalizers(object).is_empty()
        && meta::grace(object).unwrap_or(0) == 0
        && !held_namespace
}

fn check_preconditions(call: &Call, new: &Value, current: &Object) -> Result<(), Status> {
    let name = &*current.key.name;
    let uid = meta::text(new, "uid");
    if !uid.is_empty() && uid != current.meta.uid {
        let names = call.names();
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            current.meta.uid
        );
        return Err(Status::conflict(&names.group, &names.plural, name, &why));
    }
    let wanted = meta::text(new, "resourceVersion");
    if wanted.is_empty() || wanted == "0" {
        return match call.definition.unconditional() {
            Unconditional::Allowed => Ok(()),
            Unconditional::Refused => {
                let detail = "must be specified for an update";
                let error = FieldError::invalid("metadata.resourceVersion", 0, detail);
                let names = call.names();
                Err(Status::invalid(&names.group, &names.plural, name, &[error]))
            }
        };
    }
    match wanted.parse::<u64>() {
        Ok(wanted) if wanted == current.revision => Ok(()),
        Ok(_) => Err(Status::modified(call.names(), name)),
        Err(_) => Err(Status::new(
            500,
            "",
            format!("strconv.ParseUint: parsing {wanted:?}: invalid syntax"),
        )),
    }
}
