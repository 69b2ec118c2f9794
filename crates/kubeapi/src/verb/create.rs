//! Create: a decoded object becomes a stored one.

use serde_json::Value;

use crate::admission::Operation;
use crate::call::Call;
use crate::meta;
use crate::query::WriteOptions;
use crate::reply::Reply;
use crate::status::Status;
use crate::store::{Change, CommitError, Expect};

/// How often a generated name may be taken before the client hears of it.
const ATTEMPTS: usize = 8;

/// Who notes the owners of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// Create and update do it by what changed.
    Track,
    /// Server-side apply has done it.
    Done,
}

pub(crate) async fn create(call: &mut Call, body: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    let value = call.decode_body(body, options.field_validation)?;
    if !meta::text(&value, "resourceVersion").is_empty() {
        return Err(Status::new(
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    insert(call, value, &options, Owners::Track).await
}

/// Stores a new object, under a generated name if it asks for one.
pub(crate) async fn insert(
    call: &mut Call,
    mut value: Value,
    options: &WriteOptions,
    owners: Owners,
) -> Result<Reply, Status> {
    place(call, &mut value)?;
    if let Some(why) = call.definition.refuses_create() {
        return Err(Status::forbidden(call.names(), meta::text(&value, "name"), why));
    }
    let base = meta::text(&value, "generateName").to_owned();
    if !meta::text(&value, "name").is_empty() || base.is_empty() {
        return insert_named(call, value, options, owners).await;
    }
    let mut attempt = 1;
    loop {
        let mut object = value.clone();
        if let Some(metadata) = meta::of(&mut object) {
            metadata.insert("name".to_owned(), meta::generate_name(&base).into());
        }
        match insert_named(call, object, options, owners).await {
            Err(status) if status.reason == "AlreadyExists" && attempt < ATTEMPTS => attempt += 1,
            done => return done,
        }
    }
}

/// Puts the object into the namespace of the request.
fn place(call: &Call, value: &mut Value) -> Result<(), Status> {
    let given = meta::text(value, "namespace").to_owned();
    let metadata = meta::of(value)
        .ok_or_else(|| Status::bad_request("metadata of the object must be an object"))?;
    if call.names().namespaced {
        if !given.is_empty() && given != call.namespace() {
            return Err(namespace_mismatch());
        }
        metadata.insert("namespace".to_owned(), call.namespace().into());
    } else if !given.is_empty() {
        return Err(namespace_mismatch());
    }
    Ok(())
}

pub(crate) fn namespace_mismatch() -> Status {
    Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    )
}

async fn insert_named(
    call: &mut Call,
    mut object: Value,
    options: &WriteOptions,
    owners: Owners,
) -> Result<Reply, Status> {
    let definition = call.definition.clone();
    let name = meta::text(&object, "name").to_owned();
    definition.default(&mut object);
    if owners == Owners::Track {
        call.track(None, &mut object, None, options);
    }
    let mut request = call.admission_request(Operation::Create, None, &name, options);
    request.object = Some(object);
    call.mutate(&mut request).await?;
    let mut object = request.object.take().unwrap_or_default();
    if let Some(metadata) = meta::of(&mut object) {
        meta::stamp(metadata, &call.server.clock);
    }
    definition.prepare_create(&mut object);
    let errors = definition.validate_create(&object);
    if !errors.is_empty() {
        return Err(call.invalid(&name, &errors));
    }
    call.check_escalation(&object, None)?;
    let reserved = call.server.addresses.reserve(call.names(), &mut object, None)?;
    request.object = Some(object);
    call.validate(&request).await?;
    let object = request.object.unwrap_or_default();
    let key = call.key(&name);
    if options.dry_run {
        if call.stored(&name).is_ok() {
            return Err(Status::already_exists(call.names(), &name));
        }
        return Ok(Reply::Value { code: 201, value: object });
    }
    let change = Change::Put(definition.to_storage(object));
    match call.server.store.commit(key, Expect::Absent, change).await {
        Ok(object) => {
            reserved.keep();
            Ok(Reply::Object { code: 201, object })
        }
        Err(CommitError::Conflict) => Err(Status::already_exists(call.names(), &name)),
        Err(error) => Err(Status::internal(error.to_string())),
    }
}
