//! The files of a tree and what they say: in comes the tree as it is now, out come the objects that
//! are in force and all that is wrong.
//!
//! Of two objects with the same name, the one of the first file (by path, then by line) is in force,
//! and the other is reported with both places.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use ironsail_api::{ClusterId, Diagnostic, Kind, Object, ObjectKey, decode};
use serde_json::Value;

use super::document::{self, Broken};
use super::scan::{Stamp, Tree, Trouble};

pub(super) struct Folder {
    path: PathBuf,
    namespace: String,
    files: BTreeMap<PathBuf, File>,
    troubles: Vec<Trouble>,
}

#[derive(Default)]
struct File {
    stamp: Option<Stamp>,
    entries: Vec<Item>,
    broken: Vec<Broken>,
}

/// One object of a file.
#[derive(Clone)]
struct Item {
    line: usize,
    kind: Kind,
    namespace: String,
    name: String,
    /// Nothing when it cannot be read.
    object: Option<Object>,
    diagnostics: Vec<Diagnostic>,
}

/// What a tree says as a whole.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Nothing for an object that cannot be read.
    pub(super) objects: BTreeMap<ObjectKey, Option<Object>>,
    pub(super) diagnostics: BTreeMap<ObjectKey, Vec<Diagnostic>>,
    /// By `file:line`.
    pub(super) places: BTreeMap<String, String>,
}

impl Folder {
    pub(super) fn new(path: PathBuf, namespace: String) -> Self {
        Self { path, namespace, files: BTreeMap::new(), troubles: Vec::new() }
    }

    /// Reads the files that changed; whether any did. Blocks.
    pub(super) fn read(&mut self) -> bool {
        let tree = Tree::scan(&self.path);
        let before = self.files.len();
        // A folder that cannot be listed hides its files; they are not gone.
        let hidden = |path: &Path| tree.troubles.iter().any(|t| path.starts_with(&t.path));
        self.files.retain(|path, _| tree.files.contains_key(path) || hidden(path));
        let mut changed = self.files.len() != before;
        let mut troubles = tree.troubles;
        for (path, stamp) in tree.files {
            let file = self.files.entry(path.clone()).or_default();
            if file.stamp == Some(stamp) {
                continue;
            }
            match std::fs::read_to_string(&path) {
                Ok(text) => {
                    file.take(&text, &self.namespace);
                    file.stamp = Some(stamp);
                    changed = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                // What it said before stays.
                Err(error) => troubles.push(Trouble { path, why: error.to_string() }),
            }
        }
        changed |= troubles != self.troubles;
        self.troubles = troubles;
        changed
    }

    pub(super) fn state(&self, cluster: &ClusterId) -> State {
        let mut state = State::default();
        for trouble in &self.troubles {
            state.places.insert(trouble.path.display().to_string(), trouble.why.clone());
        }
        let mut first: BTreeMap<ObjectKey, String> = BTreeMap::new();
        for (path, file) in &self.files {
            for broken in &file.broken {
                state.places.insert(place(path, broken.line), broken.why.clone());
            }
            for item in &file.entries {
                let (key, here) = (item.key(cluster), place(path, item.line));
                match first.entry(key.clone()) {
                    Entry::Occupied(other) => {
                        let why = format!(
                            "{key} is defined at {} already; that one is used",
                            other.get()
                        );
                        state.places.insert(here, why);
                    }
                    Entry::Vacant(free) => {
                        free.insert(here.clone());
                        let with_place = |diagnostic: &Diagnostic| Diagnostic {
                            message: format!("{} (at {here})", diagnostic.message),
                            ..diagnostic.clone()
                        };
                        let diagnostics = item.diagnostics.iter().map(with_place).collect();
                        state.diagnostics.insert(key.clone(), diagnostics);
                        state.objects.insert(key, item.object.clone());
                    }
                }
            }
        }
        state
    }
}

fn place(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}

impl File {
    fn take(&mut self, text: &str, namespace: &str) {
        let (found, mut broken) = document::read(text);
        let mut entries = Vec::new();
        for one in found {
            match Item::read(one.value, one.line, namespace) {
                Ok(item) => entries.push(item),
                Err(why) => broken.push(Broken { line: one.line, why }),
            }
        }
        // Who knows what the broken document was: nothing of this file counts as deleted.
        if !broken.is_empty() {
            for old in std::mem::take(&mut self.entries) {
                if !entries.iter().any(|new| new.is(&old)) {
                    entries.push(old);
                }
            }
        }
        (self.entries, self.broken) = (entries, broken);
    }
}

impl Item {
    /// An object whose namespace, if it has none and needs one, is `namespace`.
    fn read(mut value: Value, line: usize, namespace: &str) -> Result<Self, String> {
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&value, "apiVersion"), text(&value, "kind"));
        if version.is_empty() || kind.is_empty() {
            return Err("an object must have apiVersion and kind".to_owned());
        }
        let Some(kind) = Kind::find(&version, &kind) else {
            return Err(format!("{kind} of {version} is no kind that a mesh uses; ignored"));
        };
        let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Err(format!("{kind} without metadata"));
        };
        let own = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
        let namespace = match (kind.namespaced(), own) {
            (false, _) => "",
            (true, "") => namespace,
            (true, own) => own,
        }
        .to_owned();
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(format!("{kind} without a name"));
        }
        metadata.insert("namespace".to_owned(), namespace.as_str().into());
        let decoded = decode(kind, &value);
        let object = decoded.object.ok();
        Ok(Self { line, kind, namespace, name, object, diagnostics: decoded.diagnostics })
    }

    fn is(&self, other: &Self) -> bool {
        (self.kind, &self.namespace, &self.name) == (other.kind, &other.namespace, &other.name)
    }

    fn key(&self, cluster: &ClusterId) -> ObjectKey {
        ObjectKey {
            cluster: cluster.clone(),
            kind: self.kind,
            namespace: self.namespace.as_str().into(),
            name: self.name.as_str().into(),
        }
    }
}
