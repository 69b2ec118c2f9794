//! Where roots are kept, so that all replicas have the same and restarts do not make new ones.
//!
//! In and out: named sets of files, like Secrets. What the files mean is not known here.

mod memory;
mod secret;

use std::collections::BTreeMap;
use std::fmt;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use zeroize::Zeroizing;

pub use memory::MemoryStrongbox;
pub use secret::SecretStrongbox;

use crate::material::Files;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading {name}")]
    Read { name: String, source: Box<kube::Error> },
    #[error("creating {name}")]
    Create { name: String, source: Box<kube::Error> },
    #[error("replacing {name}")]
    Replace { name: String, source: Box<kube::Error> },
}

/// What lies under a name.
#[derive(Clone)]
pub struct Contents {
    pub files: Files,
    /// Changes with every write.
    pub version: String,
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.files.keys().collect();
        f.debug_struct("Contents").field("files", &names).field("version", &self.version).finish()
    }
}

/// Keeps secrets by name. Everybody who uses the same one sees the same.
pub trait Strongbox: Send + Sync + 'static {
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Contents>, Error>>;

    /// Puts something where nothing is. False when somebody else was first; theirs stays.
    fn create<'a>(&'a self, name: &'a str, files: Files) -> BoxFuture<'a, Result<bool, Error>>;

    /// Replaces what was read. False when it has changed since; theirs stays.
    fn replace<'a>(
        &'a self,
        name: &'a str,
        old: &'a Contents,
        files: Files,
    ) -> BoxFuture<'a, Result<bool, Error>>;

    /// Says when what lies under `name` may have changed. Never ends.
    fn changes(&self, name: &str) -> BoxStream<'static, ()>;

    /// What an object of that name is called in messages.
    fn describe(&self, name: &str) -> String;
}

/// Files with their values made secret.
pub(crate) fn files<K: Into<String>, V: Into<Vec<u8>>>(
    entries: impl IntoIterator<Item = (K, V)>,
) -> Files {
    let entries = entries.into_iter().map(|(k, v)| (k.into(), Zeroizing::new(v.into())));
    entries.collect::<BTreeMap<_, _>>()
}
