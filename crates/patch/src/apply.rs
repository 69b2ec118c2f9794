//! Server-side apply, and the bookkeeping of who owns which field.
//!
//! [`apply`] merges a configuration into the live object; [`track_update`] notes what an ordinary
//! write changed. Both leave `metadata.managedFields` of the outcome in order. Defaults, validation
//! and the names in `metadata` are the caller's business.

use serde_json::{Map, Value};

use crate::{Error, TypeInfo};

mod combine;
mod compare;
mod conflict;
mod last_applied;
mod managed;
mod path;
mod set;
mod walk;

use compare::Changes;
pub use conflict::{Conflict, Conflicts};
use managed::{Managed, ManagerId, Owned};
use path::Step;
use set::FieldSet;

/// Fields that never belong to a manager.
const UNOWNED: [&str; 12] = [
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
];

/// Who writes, and how.
#[derive(Clone, Debug)]
pub struct Writer<'a> {
    /// See [`manager_name`].
    pub manager: &'a str,
    /// The version the request speaks, as in `apps/v1`.
    pub api_version: &'a str,
    /// `status`, `scale` …; empty for the object itself.
    pub subresource: &'a str,
    /// Now, as in `2026-01-02T03:04:05Z`.
    pub time: &'a str,
    /// Dotted paths that this endpoint resets, so that writing them has no effect: `status` for an
    /// object that has a status subresource, `spec` and others for that subresource.
    pub reset: &'a [&'a str],
}

impl Writer<'_> {
    fn id(&self, applied: bool) -> ManagerId {
        ManagerId {
            manager: self.manager.to_owned(),
            applied,
            api_version: if applied { String::new() } else { self.api_version.to_owned() },
            subresource: self.subresource.to_owned(),
        }
    }

    fn reset_set(&self) -> FieldSet {
        dotted(self.reset)
    }
}

/// A refused apply.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Answered with 409.
    #[error(transparent)]
    Conflict(#[from] Conflicts),
    #[error(transparent)]
    Refused(#[from] Error),
}

/// The name of the manager of a request: what it says, else the program in its User-Agent.
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    let name = match field_manager {
        "" => user_agent.split('/').next().unwrap_or_default(),
        name => name,
    };
    name.chars().filter(|c| !c.is_control()).take(128).collect()
}

/// Merges `applied` into `live` (`None`: there is no such object yet).
///
/// The outcome is the whole object with its new managedFields. Fields that this manager applied
/// before and leaves out now are removed, unless others own them.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
    ty: &TypeInfo,
) -> Result<Value, ApplyError> {
    if !applied.pointer("/metadata/managedFields").is_none_or(Value::is_null) {
        return Err(Error::BadApply("metadata.managedFields must be nil".to_owned()).into());
    }
    walk::check(ty, ty.root, applied, false)
        .map_err(|e| not_typed("failed to create typed patch object", applied, writer, &e))?;
    let (live, mut managed) = match live {
        Some(live) => {
            let mut live = live.clone();
            let managed = match take_managed_fields(&mut live) {
                Some(entries) => managed::decode(&entries).ok_or_else(|| {
                    Error::NotTyped("failed to decode managed fields of the live object".to_owned())
                })?,
                None => Managed::new(),
            };
            (live, managed)
        }
        None => (empty_like(applied), Managed::new()),
    };
    walk::check(ty, ty.root, &live, true)
        .map_err(|e| not_typed("failed to create typed live object", &live, writer, &e))?;
    if managed.is_empty() {
        before_first_apply(&live, &mut managed, writer, ty);
    }
    let attempt = merge(&live, applied, managed.clone(), writer, force, ty);
    let (mut out, managed) = match attempt {
        Err(conflicts) => {
            let left = last_applied::unsettled(conflicts, &live, writer, ty);
            if !left.is_empty() {
                return Err(Conflicts(left).into());
            }
            merge(&live, applied, managed, writer, true, ty).map_err(Conflicts)?
        }
        Ok(done) => done,
    };
    last_applied::renew(&mut out, applied, writer);
    put_managed_fields(&mut out, &managed);
    Ok(out)
}

fn not_typed(what: &str, object: &Value, writer: &Writer<'_>, error: &str) -> Error {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let error = error.strip_prefix(": ").unwrap_or(error);
    Error::NotTyped(format!(
        "{what} ({}/{}; {}, Kind={}): {error}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        writer.api_version,
        text("/kind"),
    ))
}

/// The object that an apply of something new starts from.
fn empty_like(applied: &Value) -> Value {
    let mut out = Map::new();
    for name in ["apiVersion", "kind"] {
        if let Some(value) = applied.get(name) {
            out.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(out)
}

/// An object that was never tracked: all it has belongs to whoever wrote before.
fn before_first_apply(live: &Value, managed: &mut Managed, writer: &Writer<'_>, ty: &TypeInfo) {
    let changes = compare::compare(ty, &empty_like(live), live).without(&writer.reset_set());
    let set = changes.modified.union(&changes.added).difference(&dotted(&UNOWNED));
    if set.is_empty() {
        return;
    }
    let id = ManagerId { manager: "before-first-apply".to_owned(), ..writer.id(false) };
    let owned = Owned {
        api_version: writer.api_version.to_owned(),
        time: Some(writer.time.to_owned()),
        set,
    };
    managed.insert(id, owned);
}

/// One try: the new object and owners, or the conflicts.
fn merge(
    live: &Value,
    applied: &Value,
    mut managed: Managed,
    writer: &Writer<'_>,
    force: bool,
    ty: &TypeInfo,
) -> Result<(Value, Managed), Vec<Conflict>> {
    let id = writer.id(true);
    let merged = combine::combine(ty, ty.root, Some(live), Some(applied)).unwrap_or(Value::Null);
    let last = managed.get(&id).map(|owned| owned.set.clone());
    let time = managed.get(&id).and_then(|owned| owned.time.clone());
    let set = walk::field_set(ty, ty.root, applied).recursive_difference(&writer.reset_set());
    managed.insert(id.clone(), Owned { api_version: writer.api_version.to_owned(), time, set });
    let merged = match last {
        Some(last) if !last.is_empty() => prune(ty, &merged, &managed, &last),
        _ => merged,
    };
    let changes = compare::compare(ty, live, &merged).without(&writer.reset_set());
    take_over(&mut managed, &changes, Some(&id), force)?;
    let changed = *live != merged;
    if let Some(owned) = managed.get_mut(&id) {
        owned.set = owned.set.difference(&dotted(&UNOWNED));
        if changed {
            owned.time = Some(writer.time.to_owned());
        }
        if owned.set.is_empty() {
            managed.remove(&id);
        }
    }
    Ok((merged, managed))
}

/// Removes what this manager applied last time and nobody owns any more.
fn prune(ty: &TypeInfo, merged: &Value, managed: &Managed, last: &FieldSet) -> Value {
    let whole = |set: &FieldSet| set.with_declared_parents(ty, ty.root);
    let without = |gone: &FieldSet| {
        walk::remove(ty, ty.root, merged, gone).unwrap_or(Value::Object(Map::new()))
    };
    let last = whole(last);
    let merged_set = whole(&walk::field_set(ty, ty.root, merged));
    let pruned = without(&last);
    let pruned_set = whole(&walk::field_set(ty, ty.root, &pruned));
    let owned = managed.values().fold(FieldSet::default(), |all, owned| all.union(&owned.set));
    // Put back what others, or the new configuration, own.
    let pruned = without(&merged_set.difference(&pruned_set.union(&whole(&owned))));
    // Put back what this manager did not own before.
    let pruned_set = whole(&walk::field_set(ty, ty.root, &pruned));
    without(&merged_set.difference(&pruned_set).intersection(&last))
}

/// Takes changed and removed fields from all managers but `except`. Without force, changed fields of
/// others are conflicts.
fn take_over(
    managed: &mut Managed,
    changes: &Changes,
    except: Option<&ManagerId>,
    force: bool,
) -> Result<(), Vec<Conflict>> {
    let changed = changes.modified.clone().union(&changes.added);
    let mut conflicts = Vec::new();
    for (id, owned) in managed.iter_mut().filter(|(id, _)| Some(*id) != except) {
        let taken = owned.set.intersection(&changed);
        if !force {
            conflicts.extend(taken.paths().into_iter().map(|path| Conflict::new(id, path)));
        }
        owned.set = owned.set.difference(&taken).difference(&changes.removed);
    }
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    managed.retain(|id, owned| Some(id) == except || !owned.set.is_empty());
    Ok(())
}

/// Notes in `new` what an ordinary write (create, update, patch) changed against `old`.
///
/// `new` is the object as it will be stored, after defaults and admission.
pub fn track_update(old: Option<&Value>, new: &mut Value, writer: &Writer<'_>, ty: &TypeInfo) {
    let mut live = old.cloned().unwrap_or_else(|| empty_like(new));
    let live_entries = take_managed_fields(&mut live);
    let from_live = || live_entries.as_ref().and_then(managed::decode).unwrap_or_default();
    let sent = take_managed_fields(new);
    let mut managed = match sent {
        _ if !writer.subresource.is_empty() => from_live(),
        Some(sent) if is_reset(&sent) => Managed::new(),
        Some(sent) => managed::decode(&sent).filter(|m| !m.is_empty()).unwrap_or_else(from_live),
        None => from_live(),
    };
    // What was never tracked stays so until the first apply.
    if managed.is_empty() && old.is_some() {
        return;
    }
    let changes = compare::compare(ty, &live, new).without(&writer.reset_set());
    if take_over(&mut managed, &changes, None, true).is_err() {
        unreachable!("a forced take-over has no conflicts");
    }
    let gained = changes.modified.union(&changes.added).difference(&dotted(&UNOWNED));
    if !gained.is_empty() {
        let owned = managed.entry(writer.id(false)).or_insert_with(|| Owned {
            api_version: writer.api_version.to_owned(),
            time: None,
            set: FieldSet::default(),
        });
        owned.set = std::mem::take(&mut owned.set).union(&gained);
        owned.time = Some(writer.time.to_owned());
    }
    managed::cap(&mut managed);
    put_managed_fields(new, &managed);
}

/// `[]` and `[{}]` ask to forget all owners.
fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

fn put_managed_fields(object: &mut Value, managed: &Managed) {
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    let Some(metadata) = metadata.as_object_mut() else { return };
    if managed.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), managed::encode(managed));
    }
}

fn dotted(paths: &[&str]) -> FieldSet {
    let mut set = FieldSet::default();
    for path in paths {
        let steps: Vec<Step> = path.split('.').map(Step::field).collect();
        set.insert(&steps);
    }
    set
}

#[cfg(test)]
mod tests;
