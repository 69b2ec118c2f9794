//! One request to one resource: who asks, for what, and the steps that several verbs share.

use std::sync::Arc;

use http::HeaderMap;
use http::header::USER_AGENT;
use ironsail_patch::apply::{Writer, manager_name, track_update};
use ironsail_schema::FieldError;
use serde_json::{Value, json};

use crate::accept::Accept;
use crate::admission::{self, Operation};
use crate::auth::User;
use crate::body;
use crate::meta;
use crate::path::Target;
use crate::query::{FieldValidation, Query, WriteOptions};
use crate::registry::{Definition, Names};
use crate::reply::value_in_version;
use crate::server::Shared;
use crate::status::Status;
use crate::store::{Key, Object};

pub(crate) struct Call {
    pub(crate) server: Arc<Shared>,
    pub(crate) user: User,
    pub(crate) target: Target,
    pub(crate) definition: Arc<dyn Definition>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) accept: Accept,
    pub(crate) warnings: Vec<String>,
}

/// A decoded object and what to warn about.
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
}

/// Who writes, through which endpoint and when.
pub(crate) struct Author {
    manager: String,
    api_version: String,
    subresource: String,
    time: String,
    reset: &'static [&'static str],
}

impl Author {
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer {
            manager: &self.manager,
            api_version: &self.api_version,
            subresource: &self.subresource,
            time: &self.time,
            reset: self.reset,
        }
    }
}

impl Call {
    pub(crate) fn names(&self) -> &Names {
        self.definition.names()
    }

    /// The namespace of the request; empty for a cluster-scoped object.
    pub(crate) fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    /// The name in the path.
    pub(crate) fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        let (group, resource) = self.definition.storage();
        Key { group, resource, namespace: self.namespace().into(), name: name.into() }
    }

    pub(crate) fn stored(&self, name: &str) -> Result<Arc<Object>, Status> {
        let (group, resource) = self.definition.storage();
        self.server
            .store
            .reader()
            .get(&group, &resource, self.namespace(), name)
            .ok_or_else(|| Status::not_found(self.names(), name))
    }

    pub(crate) fn value_of(&self, object: &Object) -> Value {
        value_in_version(&*self.definition, object)
    }

    pub(crate) fn invalid(&self, name: &str, errors: &[FieldError]) -> Status {
        Status::invalid(&self.names().group, &self.names().kind, name, errors)
    }

    /// The body of a create or update as an object of this resource.
    pub(crate) fn decode_body(
        &mut self,
        bytes: &[u8],
        validation: FieldValidation,
    ) -> Result<Value, Status> {
        let format = body::format(&self.headers)?;
        let (value, duplicates) = body::parse(bytes, format, &self.names().kind)?;
        let decoded = decode(&*self.definition, value, &duplicates, validation)?;
        self.warnings.extend(decoded.warnings);
        Ok(decoded.value)
    }

    /// What admission is asked.
    pub(crate) fn admission_request(
        &self,
        operation: Operation,
        subresource: Option<&str>,
        name: &str,
        options: &WriteOptions,
    ) -> admission::Request {
        let names = self.names();
        let kind = match operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
            Operation::Connect => "",
        };
        let mut sent = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if options.dry_run {
            sent["dryRun"] = json!(["All"]);
        }
        if !options.field_manager.is_empty() {
            sent["fieldManager"] = options.field_manager.as_str().into();
        }
        admission::Request {
            operation,
            group: names.group.to_string(),
            version: names.version.to_string(),
            kind: names.kind.to_string(),
            resource: names.plural.to_string(),
            subresource: subresource.unwrap_or_default().to_owned(),
            other_versions: self.server.registry.other_versions(names),
            namespace: self.namespace().to_owned(),
            name: name.to_owned(),
            user: self.user.clone(),
            object: None,
            old: None,
            options: sent,
            dry_run: options.dry_run,
        }
    }

    /// Lets admission change the object.
    pub(crate) async fn mutate(&mut self, request: &mut admission::Request) -> Result<(), Status> {
        let definition = self.definition.clone();
        let settle = move |object: &mut Value| {
            let decoded = definition
                .decode(std::mem::take(object))
                .map_err(crate::auth::Refusal::bad_request)?;
            *object = decoded.value;
            definition.default(object);
            Ok(())
        };
        let warnings = self.server.admission.mutate(request, &settle).await?;
        self.warnings.extend(warnings);
        // The built-in rules change objects too, without regard for their canonical form.
        if let Some(object) = &mut request.object {
            settle(object)?;
        }
        Ok(())
    }

    pub(crate) async fn validate(&mut self, request: &admission::Request) -> Result<(), Status> {
        let warnings = self.server.admission.validate(request).await?;
        self.warnings.extend(warnings);
        Ok(())
    }

    /// The author of a write, for `metadata.managedFields`.
    pub(crate) fn author(&self, options: &WriteOptions, subresource: Option<&str>) -> Author {
        let agent = self.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        let name = manager_name(&options.field_manager, agent.unwrap_or_default());
        let reset: &[&str] = match subresource {
            Some("status") => &["spec"],
            None if self.definition.subresource("status").is_some() => &["status"],
            _ => &[],
        };
        Author {
            manager: if name.is_empty() { "unknown".to_owned() } else { name },
            api_version: self.names().api_version(),
            subresource: subresource.unwrap_or_default().to_owned(),
            time: meta::timestamp(&self.server.clock, 0),
            reset,
        }
    }

    /// Notes in `new` who changed what.
    pub(crate) fn track(
        &self,
        old: Option<&Value>,
        new: &mut Value,
        subresource: Option<&str>,
        options: &WriteOptions,
    ) {
        let author = self.author(options, subresource);
        track_update(old, new, &author.writer(), &self.definition.type_info());
    }

    /// Nobody may give away more rights than they have.
    pub(crate) fn check_escalation(
        &self,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let names = self.names();
        let rights = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];
        if *names.group != *"rbac.authorization.k8s.io" || !rights.contains(&&*names.plural) {
            return Ok(());
        }
        let authorizer = &self.server.authorizer;
        authorizer.check_escalation(&self.user, &names.plural, self.namespace(), object, old)?;
        Ok(())
    }
}

/// Checks type and shape; unknown and doubled fields are errors, warnings or nothing.
pub(crate) fn decode(
    definition: &dyn Definition,
    mut value: Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    check_type(definition.names(), &mut value)?;
    let decoded = definition.decode(value).map_err(Status::bad_request)?;
    let unknown = decoded.unknown.iter().map(|path| format!("unknown field {path:?}"));
    let twice = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    let complaints: Vec<_> = unknown.chain(twice).collect();
    match validation {
        FieldValidation::Strict if !complaints.is_empty() => {
            let names = definition.names();
            Err(Status::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                names.kind,
                &*names.version,
                names.kind,
                complaints.join(", ")
            )))
        }
        FieldValidation::Warn => Ok(Decoded { value: decoded.value, warnings: complaints }),
        _ => Ok(Decoded { value: decoded.value, warnings: Vec::new() }),
    }
}

/// The object must say that it is of this kind and version, or nothing.
fn check_type(names: &Names, value: &mut Value) -> Result<(), Status> {
    let Some(object) = value.as_object_mut() else { return Ok(()) };
    let api_version = names.api_version();
    let given = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = (given("kind"), given("apiVersion"));
    let wrong_kind = !kind.is_empty() && *kind != *names.kind;
    let wrong_version = !version.is_empty() && *version != api_version;
    if wrong_kind || wrong_version {
        let shown = if kind.is_empty() { &names.kind } else { kind };
        return Err(Status::bad_request(format!(
            "{shown} in version {:?} cannot be handled as a {}: the object says apiVersion \
             {version:?} and kind {kind:?}, expected {api_version:?} and {:?}",
            &*names.version, names.kind, &*names.kind
        )));
    }
    object.insert("kind".to_owned(), (*names.kind).into());
    object.insert("apiVersion".to_owned(), api_version.into());
    Ok(())
}
