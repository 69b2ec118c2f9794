//! A tree of files as it is now: in comes a folder, out come the files that may hold objects, each
//! with a stamp that changes when the file does.
//!
//! Links are followed, so the atomically swapped folders of Kubernetes volumes (`..data`) work; names
//! that begin with a dot are not looked at, so each file is seen once, by its own name.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Deeper trees are not configuration.
const DEEPEST: usize = 16;
/// More files are not configuration either.
const MOST: usize = 100_000;
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Changes whenever a file's content may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: (u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
    size: u64,
}

/// What cannot be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) path: PathBuf,
    pub(super) why: String,
}

#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: BTreeMap<PathBuf, Stamp>,
    pub(super) troubles: Vec<Trouble>,
}

impl Tree {
    /// Looks at everything below `root`; blocks.
    pub(super) fn scan(root: &Path) -> Self {
        let mut tree = Self::default();
        let mut above = BTreeSet::new();
        tree.visit(root, 0, &mut above);
        tree
    }

    fn trouble(&mut self, path: &Path, why: &dyn std::fmt::Display) {
        self.troubles.push(Trouble { path: path.to_owned(), why: why.to_string() });
    }

    /// `above` are the folders on the way here: a link to one of them is a loop.
    fn visit(&mut self, path: &Path, depth: usize, above: &mut BTreeSet<(u64, u64)>) {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            // Gone since its folder was read, or a link into a folder just being swapped.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && depth > 0 => return,
            Err(error) => return self.trouble(path, &error),
        };
        if metadata.is_file() {
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if depth > 0 && !ENDINGS.contains(&ending) {
                return;
            }
            if self.files.len() >= MOST {
                return self.trouble(path, &format!("more than {MOST} files"));
            }
            self.files.insert(path.to_owned(), Stamp::of(&metadata));
            return;
        }
        if !metadata.is_dir() {
            return;
        }
        let identity = (metadata.dev(), metadata.ino());
        if depth >= DEEPEST || !above.insert(identity) {
            return self.trouble(path, &"a folder within itself, or too deep a tree");
        }
        match std::fs::read_dir(path) {
            Ok(entries) => {
                for entry in entries.flatten() {
                    if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                        self.visit(&entry.path(), depth + 1, above);
                    }
                }
            }
            Err(error) => self.trouble(path, &error),
        }
        above.remove(&identity);
    }
}

impl Stamp {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            inode: (metadata.dev(), metadata.ino()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.size(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(root: &Path) -> Vec<String> {
        let tree = Tree::scan(root);
        let name = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
        tree.files.keys().map(name).collect()
    }

    #[test]
    fn a_mounted_volume_is_seen_once_and_its_swap_changes_the_stamps() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for version in ["..one", "..two"] {
            std::fs::create_dir(root.join(version)).unwrap();
            std::fs::write(root.join(version).join("a.yaml"), "x").unwrap();
        }
        symlink("..one", root.join("..data")).unwrap();
        symlink("..data/a.yaml", root.join("a.yaml")).unwrap();
        std::fs::write(root.join("README"), "not configuration").unwrap();
        assert_eq!(names(root), ["a.yaml"]);
        let before = Tree::scan(root).files;
        symlink("..two", root.join("..tmp")).unwrap();
        std::fs::rename(root.join("..tmp"), root.join("..data")).unwrap();
        assert_ne!(Tree::scan(root).files, before);
    }

    #[test]
    fn a_loop_of_links_ends_and_a_missing_root_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/b.json"), "{}").unwrap();
        symlink(folder.path(), folder.path().join("sub/loop")).unwrap();
        let tree = Tree::scan(folder.path());
        assert_eq!(names(folder.path()), ["sub/b.json"]);
        assert_eq!(tree.troubles.len(), 1);
        let tree = Tree::scan(&folder.path().join("nowhere"));
        assert_eq!(tree.troubles.len(), 1);
    }
}
