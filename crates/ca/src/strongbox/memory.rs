//! A strongbox that lasts as long as the process: for tests, and for istiod without Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Contents, Error, Strongbox};
use crate::material::Files;

/// Keeps secrets in memory. Clones share them.
#[derive(Clone, Debug)]
pub struct MemoryStrongbox {
    kept: Arc<Mutex<BTreeMap<String, Contents>>>,
    writes: Arc<watch::Sender<u64>>,
}

impl Default for MemoryStrongbox {
    fn default() -> Self {
        Self { kept: Arc::default(), writes: Arc::new(watch::Sender::new(0)) }
    }
}

impl MemoryStrongbox {
    /// Puts something under a name, whatever was there.
    pub fn put(&self, name: &str, files: Files) {
        let version = self.next();
        self.kept.lock().insert(name.to_owned(), Contents { files, version });
        self.writes.send_modify(|n| *n += 1);
    }

    pub fn remove(&self, name: &str) {
        self.kept.lock().remove(name);
        self.writes.send_modify(|n| *n += 1);
    }

    fn next(&self) -> String {
        (*self.writes.borrow() + 1).to_string()
    }
}

impl Strongbox for MemoryStrongbox {
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Contents>, Error>> {
        let found = self.kept.lock().get(name).cloned();
        async move { Ok(found) }.boxed()
    }

    fn create<'a>(&'a self, name: &'a str, files: Files) -> BoxFuture<'a, Result<bool, Error>> {
        async move {
            {
                let version = self.next();
                let mut kept = self.kept.lock();
                if kept.contains_key(name) {
                    return Ok(false);
                }
                kept.insert(name.to_owned(), Contents { files, version });
            }
            self.writes.send_modify(|n| *n += 1);
            Ok(true)
        }
        .boxed()
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        old: &'a Contents,
        files: Files,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        async move {
            {
                let version = self.next();
                let mut kept = self.kept.lock();
                match kept.get_mut(name) {
                    Some(now) if now.version == old.version => *now = Contents { files, version },
                    _ => return Ok(false),
                }
            }
            self.writes.send_modify(|n| *n += 1);
            Ok(true)
        }
        .boxed()
    }

    fn changes(&self, _: &str) -> BoxStream<'static, ()> {
        let seen = self.writes.subscribe();
        // The box outlives its watchers only in tests; then there is nothing to wait for any more.
        stream::unfold(seen, |mut seen| async move {
            seen.changed().await.ok()?;
            Some(((), seen))
        })
        .chain(stream::pending())
        .boxed()
    }

    fn describe(&self, name: &str) -> String {
        format!("secret {name} in memory")
    }
}
