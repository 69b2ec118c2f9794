//! Delete: at once, after a grace period, or when the last finalizer has gone.

use std::sync::Arc;

use ironsail_schema::FieldError;
use serde::Deserialize;
use serde_json::Value;

use super::list;
use super::select::Selection;
use super::update;
use crate::admission::Operation;
use crate::body;
use crate::call::Call;
use crate::crd;
use crate::meta;
use crate::query::{ListOptions, WriteOptions, dry_run};
use crate::reply::{Page, Reply};
use crate::status::{self, Status};
use crate::store::{Change, CommitError, Expect, Object};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const ATTEMPTS: usize = 100;

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeleteOptions {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl DeleteOptions {
    /// From the body if there is one, else from the query.
    pub(crate) fn parse(call: &Call, bytes: &[u8]) -> Result<Self, Status> {
        let mut options = if bytes.is_empty() {
            Self {
                grace_period_seconds: call.query.number("gracePeriodSeconds")?,
                orphan_dependents: call.query.optional_flag("orphanDependents"),
                propagation_policy: call.query.get("propagationPolicy").map(str::to_owned),
                ..Self::default()
            }
        } else {
            let format = body::format(&call.headers)?;
            let (value, _) = body::parse(bytes, format, "DeleteOptions")?;
            Self::from_value(value)?
        };
        let mut asked: Vec<_> = options.dry_run.take().unwrap_or_default();
        asked.extend(call.query.all("dryRun").map(str::to_owned));
        options.dry_run = Some(asked);
        options.check()?;
        Ok(options)
    }

    pub(crate) fn from_value(value: Value) -> Result<Self, Status> {
        serde_json::from_value(value).map_err(|error| {
            Status::bad_request(format!("DeleteOptions cannot be handled: {error}"))
        })
    }

    fn check(&self) -> Result<(), Status> {
        let mut errors = Vec::new();
        let asked = self.dry_run.as_deref().unwrap_or_default();
        dry_run(asked.iter().map(String::as_str), &mut errors);
        if let Some(policy) = &self.propagation_policy {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            if self.orphan_dependents.is_some() {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid("propagationPolicy", policy.as_str(), detail));
            } else if !supported[..3].contains(&policy.as_str()) {
                let policy = policy.as_str();
                errors.push(FieldError::not_supported("propagationPolicy", policy, &supported));
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Status::invalid_options("DeleteOptions", &errors))
        }
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|values| values.iter().any(|value| value == "All"))
    }

    /// Whether dependents are to be waited for; says 202 instead of 200.
    fn is_cascading(&self) -> bool {
        self.orphan_dependents == Some(false)
    }
}

pub(crate) async fn delete(call: &mut Call, bytes: &[u8]) -> Result<Reply, Status> {
    let options = DeleteOptions::parse(call, bytes)?;
    let name = call.name().to_owned();
    let gone = remove(call, &name, &options).await?;
    let value = match gone {
        Gone::Removed(value) if !returns_object(call) => {
            let uid = meta::text(&value, "uid");
            status::deleted(call.names(), &name, uid)
        }
        Gone::Removed(value) => value,
        Gone::Marked(value) => {
            let code = if options.is_cascading() { 202 } else { 200 };
            return Ok(Reply::Value { code, value });
        }
    };
    Ok(Reply::Value { code: 200, value })
}

/// Kinds that answer a finished deletion with the object and not with a Status.
fn returns_object(call: &Call) -> bool {
    matches!(
        &*call.names().kind,
        "Pod"
            | "Service"
            | "ServiceAccount"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "PodTemplate"
            | "ResourceQuota"
    )
}

pub(crate) async fn delete_collection(call: &mut Call, bytes: &[u8]) -> Result<Reply, Status> {
    let options = DeleteOptions::parse(call, bytes)?;
    let list_options = ListOptions::parse(&call.query)?;
    let selection = Selection::new(call, &list_options)?;
    let page = list::page(call, &selection, &list_options)?;
    let mut objects = Vec::new();
    let own = call.target.namespace.clone();
    for object in &page.objects {
        call.target.namespace = Some(object.key.namespace.to_string()).filter(|n| !n.is_empty());
        match remove(call, &object.key.name, &options).await {
            Ok(_) => objects.push(object.clone()),
            Err(status) if status.code == 404 => {}
            Err(status) => {
                call.target.namespace = own;
                return Err(status);
            }
        }
    }
    call.target.namespace = own;
    Ok(Reply::Page(Page { objects, ..page }))
}

/// What a delete came to.
pub(crate) enum Gone {
    Removed(Value),
    /// Still there, with a deletion timestamp.
    Marked(Value),
}

/// What is to be done to the object now.
enum Step {
    Remove,
    Mark(Value),
    /// It is already on its way.
    Pending,
}

pub(crate) async fn remove(
    call: &mut Call,
    name: &str,
    options: &DeleteOptions,
) -> Result<Gone, Status> {
    let write = WriteOptions { dry_run: options.is_dry_run(), ..WriteOptions::default() };
    for _ in 0..ATTEMPTS {
        let current = call.stored(name)?;
        let old = Arc::new(call.value_of(&current));
        let mut request = call.admission_request(Operation::Delete, None, name, &write);
        request.old = Some(old.clone());
        call.mutate(&mut request).await?;
        call.validate(&request).await?;
        check_preconditions(call, name, &current, options)?;
        let done = match step(call, &old, options) {
            Step::Pending => Some(Gone::Marked((*old).clone())),
            Step::Mark(value) if write.dry_run => Some(Gone::Marked(value)),
            Step::Remove if write.dry_run => Some(Gone::Removed((*old).clone())),
            Step::Mark(value) => match update::commit(call, &current, value).await? {
                None => None,
                Some(update::Outcome::Stored(object)) => Some(Gone::Marked(call.value_of(&object))),
                Some(update::Outcome::Unstored(value)) => Some(Gone::Removed(value)),
            },
            Step::Remove => take_away(call, &current).await?.map(Gone::Removed),
        };
        if let Some(done) = done {
            return Ok(done);
        }
    }
    Err(Status::modified(call.names(), name))
}

/// `None` when another write came between.
async fn take_away(call: &Call, current: &Arc<Object>) -> Result<Option<Value>, Status> {
    let expect = Expect::Revision(current.revision);
    let change = Change::Remove(current.value());
    match call.server.store.commit(current.key.clone(), expect, change).await {
        Ok(object) => {
            let value = call.value_of(&object);
            call.server.addresses.release(call.names(), &value);
            Ok(Some(value))
        }
        Err(CommitError::Conflict) => Ok(None),
        Err(error) => Err(Status::internal(error.to_string())),
    }
}

fn check_preconditions(
    call: &Call,
    name: &str,
    current: &Object,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let Some(wanted) = &options.preconditions else { return Ok(()) };
    let refuse =
        |why: String| Err(Status::conflict(&call.names().group, &call.names().kind, name, &why));
    if let Some(uid) = &wanted.uid
        && *uid != current.meta.uid
    {
        return refuse(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object \
             might have been deleted and then recreated",
            current.meta.uid
        ));
    }
    if let Some(version) = &wanted.resource_version
        && *version != current.revision.to_string()
    {
        return refuse(format!(
            "the ResourceVersion in the precondition ({version}) does not match the \
             ResourceVersion in record ({}). The object might have been modified",
            current.revision
        ));
    }
    Ok(())
}

fn step(call: &Call, old: &Value, options: &DeleteOptions) -> Step {
    if *call.names().kind == *"Namespace" && call.names().group.is_empty() {
        return namespace_step(call, old);
    }
    let grace = if *call.names().kind == *"Pod" { Some(pod_grace(old, options)) } else { None };
    let mut new = old.clone();
    if meta::is_deleting(old) {
        // Already being deleted: the grace period can only be shortened.
        let before = meta::grace(old).unwrap_or(0);
        let asked = options.grace_period_seconds.filter(|_| grace.is_some());
        let Some(asked) = asked.filter(|asked| *asked < before) else { return Step::Pending };
        let at = meta::parse_seconds(meta::text(old, "deletionTimestamp")).unwrap_or_default();
        mark(&mut new, &meta::format_seconds(at - before + asked), asked);
    } else {
        let mut finalizers = wanted_finalizers(call, old, options);
        // A definition waits until its objects are gone.
        if *call.names().plural == *crd::PLURAL && *call.names().group == *crd::GROUP {
            finalizers.push(crd::CLEANUP.to_owned());
        }
        meta::set_finalizers(&mut new, &finalizers);
        match grace {
            None if finalizers.is_empty() => return Step::Remove,
            None => mark(&mut new, &meta::timestamp(&call.server.clock, 0), 0),
            Some(grace) => mark(&mut new, &meta::timestamp(&call.server.clock, grace), grace),
        }
        meta::raise_generation(&mut new);
    }
    let held = !meta::finalizers(&new).is_empty() || meta::grace(&new).unwrap_or(0) > 0;
    if held { Step::Mark(new) } else { Step::Remove }
}

fn mark(object: &mut Value, at: &str, grace: i64) {
    if let Some(metadata) = meta::of(object) {
        metadata.insert("deletionTimestamp".to_owned(), at.into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    }
}

/// How long a pod may take: what was asked, else what it says, and none if nothing runs.
fn pod_grace(pod: &Value, options: &DeleteOptions) -> i64 {
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let asked = options.grace_period_seconds.or(own).unwrap_or(30);
    let asked = if asked < 0 { 1 } else { asked };
    let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if node.is_empty() || matches!(phase, "Failed" | "Succeeded") { 0 } else { asked }
}

/// The finalizers after the propagation policy has added or removed those of garbage collection.
fn wanted_finalizers(call: &Call, old: &Value, options: &DeleteOptions) -> Vec<String> {
    let has = |wanted| meta::finalizers(old).contains(&wanted);
    let policy = options.propagation_policy.as_deref();
    // Jobs have orphaned their pods by default since before propagation policies existed.
    let by_default = *call.names().group == *"batch" && *call.names().kind == *"Job";
    let orphan = match (options.orphan_dependents, policy) {
        (Some(orphan), _) => orphan,
        (None, Some(policy)) => policy == "Orphan",
        (None, None) => has(ORPHAN) || (by_default && !has(FOREGROUND)),
    };
    let foreground = match (options.orphan_dependents, policy) {
        (Some(_), _) => false,
        (None, Some(policy)) => policy == "Foreground",
        (None, None) => has(FOREGROUND) && !orphan,
    };
    let others = meta::finalizers(old).into_iter().filter(|f| *f != ORPHAN && *f != FOREGROUND);
    let mut wanted: Vec<_> = others.map(str::to_owned).collect();
    if orphan {
        wanted.push(ORPHAN.to_owned());
    }
    if foreground {
        wanted.push(FOREGROUND.to_owned());
    }
    wanted
}

/// A namespace goes when its controller has emptied it and taken away its finalizer.
fn namespace_step(call: &Call, old: &Value) -> Step {
    let held = old
        .pointer("/spec/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|finalizers| !finalizers.is_empty());
    if meta::is_deleting(old) {
        return Step::Pending;
    }
    if !held && meta::finalizers(old).is_empty() {
        return Step::Remove;
    }
    let mut new = old.clone();
    mark(&mut new, &meta::timestamp(&call.server.clock, 0), 0);
    if let Some(metadata) = meta::of(&mut new) {
        metadata.remove("deletionGracePeriodSeconds");
    }
    new["status"]["phase"] = "Terminating".into();
    Step::Mark(new)
}
