//! `metadata.managedFields`: read, written, sorted, capped.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// How many managers of ordinary writes are kept apart; older ones are thrown together.
const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// Who wrote: by name, way of writing and subresource; for ordinary writes by version as well.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagerId {
    pub(super) manager: String,
    pub(super) applied: bool,
    /// Empty for appliers, which keep one entry whatever version they use.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl ManagerId {
    /// As conflict texts name a manager.
    pub(super) fn describe(&self) -> String {
        let mut out = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            out.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if !self.applied {
            out.push_str(&format!(" using {}", self.api_version));
        }
        out
    }
}

#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) api_version: String,
    pub(super) time: Option<String>,
    pub(super) set: FieldSet,
}

pub(super) type Managed = BTreeMap<ManagerId, Owned>;

/// Reads the entries. `None` when they cannot be understood.
pub(super) fn decode(entries: &Value) -> Option<Managed> {
    let mut managed = Managed::new();
    for entry in entries.as_array()? {
        let text =
            |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let applied = match text("operation").as_str() {
            "Apply" => true,
            "Update" => false,
            _ => return None,
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() || text("fieldsType") != "FieldsV1" {
            return None;
        }
        let id = ManagerId {
            manager: text("manager"),
            applied,
            api_version: if applied { String::new() } else { api_version.clone() },
            subresource: text("subresource"),
        };
        let set = match entry.get("fieldsV1") {
            None | Some(Value::Null) => FieldSet::default(),
            Some(fields) => FieldSet::decode(fields)?,
        };
        let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
        managed.insert(id, Owned { api_version, time, set });
    }
    Some(managed)
}

/// Writes the entries in the order Kubernetes keeps them.
pub(super) fn encode(managed: &Managed) -> Value {
    let mut all: Vec<(&ManagerId, &Owned)> = managed.iter().collect();
    all.sort_by_key(|(id, owned)| {
        (
            !id.applied,
            owned.time.clone().unwrap_or_default(),
            &id.manager,
            &owned.api_version,
            &id.subresource,
        )
    });
    let entry = |(id, owned): (&ManagerId, &Owned)| {
        let mut out = Map::new();
        out.insert("manager".to_owned(), json!(id.manager));
        out.insert("operation".to_owned(), json!(if id.applied { "Apply" } else { "Update" }));
        out.insert("apiVersion".to_owned(), json!(owned.api_version));
        if let Some(time) = &owned.time {
            out.insert("time".to_owned(), json!(time));
        }
        out.insert("fieldsType".to_owned(), json!("FieldsV1"));
        out.insert("fieldsV1".to_owned(), owned.set.encode());
        if !id.subresource.is_empty() {
            out.insert("subresource".to_owned(), json!(id.subresource));
        }
        Value::Object(out)
    };
    all.into_iter().map(entry).collect()
}

/// Throws the oldest ordinary managers together until no more than the maximum are left.
pub(super) fn cap(managed: &mut Managed) {
    let mut updaters: Vec<ManagerId> = managed.keys().filter(|id| !id.applied).cloned().collect();
    let mut left = updaters.len();
    if left <= MAX_UPDATE_MANAGERS {
        return;
    }
    updaters.sort_by_key(|id| (managed[id].time.clone().unwrap_or_default(), id.clone()));
    let mut first: BTreeMap<String, ManagerId> = BTreeMap::new();
    for id in updaters {
        if left <= MAX_UPDATE_MANAGERS {
            break;
        }
        let version = managed[&id].api_version.clone();
        let bucket = ManagerId {
            manager: ANCIENT.to_owned(),
            applied: false,
            api_version: version.clone(),
            subresource: String::new(),
        };
        let Some(oldest) = first.get(&version) else {
            first.insert(version, id);
            continue;
        };
        if !managed.contains_key(&bucket)
            && let Some(owned) = managed.remove(oldest)
        {
            managed.insert(bucket.clone(), owned);
        }
        if id != bucket
            && let (Some(owned), Some(kept)) = (managed.remove(&id), managed.get_mut(&bucket))
        {
            kept.set = std::mem::take(&mut kept.set).union(&owned.set);
            kept.time = owned.time;
            left -= 1;
        }
    }
}
