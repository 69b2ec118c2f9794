//! Deletes the objects of a definition that is being deleted, then lets the definition go.

use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{CLEANUP, GROUP, PLURAL};
use crate::meta;
use crate::server::Server;
use crate::store::{Change, Cursor, Expect};

/// Starts the deletion unless it runs already.
pub(super) fn begin(server: &Server, definition: &Value, running: &Arc<Mutex<Vec<String>>>) {
    if !meta::finalizers(definition).contains(&CLEANUP) {
        return;
    }
    let uid = meta::text(definition, "uid").to_owned();
    {
        let mut running = running.lock();
        if running.contains(&uid) {
            return;
        }
        running.push(uid.clone());
    }
    let text = |path: &str| {
        definition.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let served = definition["spec"]["versions"].as_array().into_iter().flatten();
    let mut served =
        served.filter(|version| version["served"] == true).filter_map(|v| v["name"].as_str());
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let revision = server.reader().revision();
    let work = Cleanup {
        definition: meta::text(definition, "name").to_owned(),
        version: served.next_back().map(str::to_owned),
        cursor: server.reader().follow(&group, &plural, revision),
        server: server.downgrade(),
        ended: server.ended(),
        group,
        plural,
    };
    let running = running.clone();
    tokio::spawn(async move {
        work.run().await;
        running.lock().retain(|one| *one != uid);
    });
}

struct Cleanup {
    server: std::sync::Weak<crate::server::Shared>,
    definition: String,
    group: String,
    plural: String,
    /// One in which the objects are served.
    version: Option<String>,
    cursor: Cursor,
    ended: tokio_util::sync::CancellationToken,
}

impl Cleanup {
    async fn run(mut self) {
        loop {
            let Some(server) = Server::upgrade(&self.server) else { return };
            let objects = server.reader().list(&self.group, &self.plural, None).objects;
            if objects.is_empty() {
                self.release(&server).await;
                return;
            }
            if objects.iter().any(|object| object.meta.deletion_timestamp.is_none()) {
                self.delete(&server).await;
            }
            drop(server);
            // Objects with finalizers go when whoever holds them lets go.
            tokio::select! {
                _ = self.cursor.next() => {}
                () = self.ended.cancelled() => return,
            }
        }
    }

    async fn delete(&self, server: &Server) {
        if let Some(version) = &self.version {
            let path = format!("/apis/{}/{version}/{}", self.group, self.plural);
            let (code, answer) = server.ask(Method::DELETE, &path, &json!({})).await;
            if code < 300 {
                return;
            }
            tracing::warn!(definition = self.definition, code, answer, "deleting objects anew");
        }
        // No version is served, so nobody can be asked; the objects go as they are.
        for object in server.reader().list(&self.group, &self.plural, None).objects {
            let expect = Expect::Revision(object.revision);
            let change = Change::Remove(object.value());
            if let Err(error) = server.store().commit(object.key.clone(), expect, change).await {
                tracing::debug!(%error, key = %object.key, "an object changed while it was deleted");
            }
        }
    }

    /// Takes away the finalizer; with it goes the definition.
    async fn release(&self, server: &Server) {
        let Some(object) = server.reader().get(GROUP, PLURAL, "", &self.definition) else { return };
        let value = object.value();
        let left: Vec<&str> =
            meta::finalizers(&value).into_iter().filter(|name| *name != CLEANUP).collect();
        let patch = json!({"metadata": {"finalizers": left}});
        let path = format!("/apis/{GROUP}/v1/{PLURAL}/{}", self.definition);
        let (code, answer) = server.ask(Method::PATCH, &path, &patch).await;
        if code >= 300 && code != 404 {
            tracing::warn!(
                definition = self.definition,
                code,
                answer,
                "cannot let a definition go"
            );
        }
    }
}
