//! Follows the definitions and keeps what is served in line with them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::names::{Settled, Wanted};
use super::resource::Resource;
use super::version::{self, Version};
use super::{GROUP, PLURAL, cleanup};
use crate::meta;
use crate::registry::{Definition, Names};
use crate::server::{Server, Shared};
use crate::store::{Cursor, Reader};

/// Stops following when it is dropped.
pub(crate) struct Keeper {
    _ended: DropGuard,
}

impl Keeper {
    /// Serves what is defined now, and follows from then on. The server is held weakly: it ends the
    /// keeper, not the other way round.
    pub(crate) async fn start(server: &Server) -> Self {
        let ended = CancellationToken::new();
        let reader = server.reader().clone();
        let revision = reader.revision();
        let mut follower = Follower {
            server: server.downgrade(),
            cursor: reader.follow(GROUP, PLURAL, revision),
            reader,
            known: HashMap::new(),
            cleanups: Arc::default(),
            ended: ended.clone(),
        };
        follower.sync(server).await;
        tokio::spawn(follower.run());
        Self { _ended: ended.drop_guard() }
    }
}

/// A definition as it was compiled.
struct Known {
    uid: String,
    generation: i64,
    versions: Vec<Arc<Version>>,
    /// By version; cancelled when that version is served no more.
    retired: HashMap<String, CancellationToken>,
}

struct Follower {
    server: Weak<Shared>,
    reader: Reader,
    cursor: Cursor,
    known: HashMap<String, Known>,
    /// Definitions whose objects are being deleted.
    cleanups: Arc<Mutex<Vec<String>>>,
    ended: CancellationToken,
}

impl Follower {
    async fn run(mut self) {
        loop {
            tokio::select! {
                // A gap in the history does not matter: the definitions are listed anew.
                _ = self.cursor.next() => {}
                () = self.ended.cancelled() => return,
            }
            let Some(server) = Server::upgrade(&self.server) else { return };
            self.sync(&server).await;
        }
    }

    async fn sync(&mut self, server: &Server) {
        let listing = self.reader.list(GROUP, PLURAL, None);
        let mut definitions: Vec<Value> =
            listing.objects.iter().map(|object| object.value()).collect();
        // Whoever has names keeps them; among the others the older comes first.
        definitions.sort_by_key(|definition| {
            let created = meta::text(definition, "creationTimestamp").to_owned();
            (!is_established(definition), created, meta::text(definition, "name").to_owned())
        });
        let mut accepted: Vec<Wanted> = Vec::new();
        let mut served: Vec<Arc<dyn Definition>> = Vec::new();
        let mut statuses = Vec::new();
        for definition in &definitions {
            let wanted = Wanted::of(definition);
            let settled = wanted.settle(&accepted);
            if self.compile(definition).await && settled.conflict.is_none() {
                served.extend(self.resources(definition, &wanted));
            }
            let now = meta::timestamp(server.clock(), 0);
            let status = status(definition, &settled, &now);
            accepted.push(settled.accepted);
            if status != definition["status"] {
                statuses.push((meta::text(definition, "name").to_owned(), status));
            }
        }
        self.forget(&definitions);
        server.registry().set_custom(served);
        // Who waits for the conditions finds the resource served.
        for (name, status) in statuses {
            publish(server, &name, &status).await;
        }
        for definition in definitions.iter().filter(|d| meta::is_deleting(d)) {
            cleanup::begin(server, definition, &self.cleanups);
        }
    }

    /// Compiles a definition unless that was done; answers whether it can be served.
    async fn compile(&mut self, definition: &Value) -> bool {
        let name = meta::text(definition, "name").to_owned();
        let uid = meta::text(definition, "uid").to_owned();
        let generation = definition["metadata"]["generation"].as_i64().unwrap_or(0);
        let same = |known: &Known| known.uid == uid && known.generation == generation;
        if self.known.get(&name).is_some_and(same) {
            return true;
        }
        let text = definition.clone();
        let compiled = tokio::task::spawn_blocking(move || version::compile(&text)).await;
        let versions = match compiled {
            Ok(Ok(versions)) => versions.into_iter().map(Arc::new).collect(),
            Ok(Err(errors)) => {
                let errors = ironsail_schema::field::aggregate(&errors);
                tracing::warn!(definition = name, errors, "a stored definition cannot be served");
                return false;
            }
            Err(_) => return false,
        };
        let mut retired = match self.known.remove(&name) {
            Some(known) if known.uid == uid => known.retired,
            _ => HashMap::new(),
        };
        let known = Known { uid, generation, retired: HashMap::new(), versions };
        let still = |name: &String| known.versions.iter().any(|v| v.served && v.name == *name);
        retired.retain(|name, token| {
            if !still(name) {
                token.cancel();
            }
            still(name)
        });
        self.known.insert(name, Known { retired, ..known });
        true
    }

    fn resources(&mut self, definition: &Value, wanted: &Wanted) -> Vec<Arc<dyn Definition>> {
        let name = meta::text(definition, "name");
        let Some(known) = self.known.get_mut(name) else { return Vec::new() };
        let Some(storage) = known.versions.iter().find(|version| version.storage).cloned() else {
            return Vec::new();
        };
        let mut out: Vec<Arc<dyn Definition>> = Vec::new();
        for version in known.versions.iter().filter(|version| version.served) {
            let names = Names {
                group: wanted.group.as_str().into(),
                version: version.name.as_str().into(),
                kind: wanted.kind.as_str().into(),
                list_kind: wanted.list_kind.as_str().into(),
                plural: wanted.plural.as_str().into(),
                singular: wanted.singular.as_str().into(),
                short_names: wanted.short_names.clone(),
                categories: wanted.categories.clone(),
                namespaced: definition["spec"]["scope"] == "Namespaced",
            };
            let retired = known.retired.entry(version.name.clone()).or_default();
            out.push(Arc::new(Resource {
                names,
                version: version.clone(),
                storage: storage.clone(),
                terminating: meta::is_deleting(definition),
                retired: retired.clone(),
                reader: self.reader.clone(),
                definition: name.into(),
            }));
        }
        out
    }

    /// Ends the watches of definitions that are gone.
    fn forget(&mut self, definitions: &[Value]) {
        let there = |name: &str, uid: &str| {
            definitions.iter().any(|d| meta::text(d, "name") == name && meta::text(d, "uid") == uid)
        };
        self.known.retain(|name, known| {
            let keep = there(name, &known.uid);
            if !keep {
                known.retired.values().for_each(CancellationToken::cancel);
            }
            keep
        });
    }
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == "Established" && c["status"] == "True")
}

/// The status a definition should have.
fn status(definition: &Value, settled: &Settled, now: &str) -> Value {
    let mut status = definition["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let accepted = settled.conflict.is_none();
    let none = ("NoConflicts", "no conflicts found".to_owned());
    let (reason, message) = settled.conflict.as_ref().unwrap_or(&none);
    set_condition(&mut status, "NamesAccepted", accepted, reason, message, now);
    status["acceptedNames"] = settled.accepted.to_value();
    if accepted {
        let message = "the initial names have been accepted";
        set_condition(&mut status, "Established", true, "InitialNamesAccepted", message, now);
    } else if !is_established(definition) {
        let message = "not all names are accepted";
        set_condition(&mut status, "Established", false, "NotAccepted", message, now);
    }
    if meta::is_deleting(definition) {
        let message = "CustomResource deletion is in progress";
        set_condition(&mut status, "Terminating", true, "InstanceDeletionInProgress", message, now);
    }
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    for version in versions.filter(|version| version["storage"] == true) {
        let stored = status["storedVersions"].as_array().cloned().unwrap_or_default();
        if !stored.contains(&version["name"]) {
            let all: Vec<Value> = stored.into_iter().chain([version["name"].clone()]).collect();
            status["storedVersions"] = Value::Array(all);
        }
    }
    status
}

fn set_condition(status: &mut Value, kind: &str, on: bool, reason: &str, message: &str, now: &str) {
    let value = if on { "True" } else { "False" };
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let mut new = json!({
        "type": kind, "status": value, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        Some(old) => {
            if old["status"] == value {
                // Reasons stay as they were first given, times as well.
                if on && kind == "Established" {
                    return;
                }
                new["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

async fn publish(server: &Server, name: &str, status: &Value) {
    let path = format!("/apis/{GROUP}/v1/{PLURAL}/{name}/status");
    let patch = json!({"status": status});
    let (code, answer) = server.ask(Method::PATCH, &path, &patch).await;
    if code >= 300 && code != 404 {
        tracing::warn!(definition = name, code, answer, "cannot write the status of a definition");
    }
}
