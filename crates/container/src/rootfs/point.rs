//! Where in a container a path leads, and making the places that volumes are mounted on.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// As many symlinks as the kernel follows.
const MAX_LINKS: usize = 40;

/// Follows symlinks in `path` as a process with the root `root` would, without ever leaving it.
/// What lies below one of the `replaced` top-level names is taken as it is, since the container does
/// not see the image there. The outcome is absolute inside the root, and need not exist.
pub(super) fn resolve(root: &Path, path: &Path, replaced: &[&str]) -> PathBuf {
    let mut done = PathBuf::new();
    let mut todo: VecDeque<OsString> = names(path).collect();
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        if name == ".." {
            done.pop();
            continue;
        }
        done.push(&name);
        let own = done.iter().next().is_some_and(|first| replaced.iter().any(|r| first == *r));
        if own || links == MAX_LINKS {
            continue;
        }
        if let Ok(target) = fs::read_link(root.join(&done)) {
            links += 1;
            done.pop();
            if target.is_absolute() {
                done = PathBuf::new();
            }
            for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                todo.push_front(name);
            }
        }
    }
    Path::new("/").join(done)
}

/// The parts of a path that matter, `..` among them.
fn names(path: &Path) -> impl Iterator<Item = OsString> + use<> {
    let names: Vec<OsString> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsStr::new("..").to_owned()),
            _ => None,
        })
        .collect();
    names.into_iter()
}

/// Makes the mount point `path` with its parents, as a directory or an empty file, unless it exists.
pub(super) fn make(path: &Path, directory: bool) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
    }
    if directory {
        fs::DirBuilder::new().mode(0o755).create(path)
    } else {
        fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o644).open(path)?;
        Ok(())
    }
}

/// Makes the mount point `inside` (relative) in the layer `upper` that is going to lie over `lower`,
/// with those of its parents that `lower` has looking as they do there.
///
/// Making it through the finished overlay would copy the parents up, which a user namespace may not
/// do for directories whose owner it does not know.
pub(super) fn make_in_layer(
    lower: &Path,
    upper: &Path,
    inside: &Path,
    directory: bool,
) -> io::Result<()> {
    if lower.join(inside).symlink_metadata().is_ok() {
        return Ok(());
    }
    let mut parents: Vec<&Path> = inside.ancestors().skip(1).collect();
    parents.pop();
    for parent in parents.into_iter().rev() {
        let made = upper.join(parent);
        if made.is_dir() {
            continue;
        }
        fs::DirBuilder::new().mode(0o755).create(&made)?;
        copy_attributes(&lower.join(parent), &made)?;
    }
    make(&upper.join(inside), directory)
}

/// Gives the directory `to` the mode of `from`, and its owner where that may be.
pub(super) fn copy_attributes(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(metadata) = from.metadata() else { return Ok(()) };
    // An owner that the user namespace does not know cannot be given.
    let _ = std::os::unix::fs::lchown(to, Some(metadata.uid()), Some(metadata.gid()));
    fs::set_permissions(to, fs::Permissions::from_mode(metadata.mode() & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("point-{name}-{}", std::process::id()));
            fs::create_dir_all(&dir).expect("test directory");
            Self(dir)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn symlinks_are_followed_inside_the_root_and_never_out_of_it() {
        let dir = Dir::new("resolve");
        let root = &dir.0;
        fs::create_dir_all(root.join("var")).expect("var");
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, root.join(name)).expect("symlink");
        };
        link("/run", "var/run");
        link("../../../../etc", "escape");
        link("loop", "loop");
        let check = |path: &str, expect: &str| {
            assert_eq!(resolve(root, Path::new(path), &["proc"]), Path::new(expect), "{path}");
        };
        check("/var/run/secrets/token", "/run/secrets/token");
        check("/escape/passwd", "/etc/passwd");
        check("/a/../../b/./c", "/b/c");
        check("/loop/x", "/loop/x");
    }

    #[test]
    fn replaced_directories_are_not_looked_into() {
        let dir = Dir::new("replaced");
        std::os::unix::fs::symlink("/elsewhere", dir.0.join("run")).expect("symlink");
        assert_eq!(resolve(&dir.0, Path::new("/run/x"), &["run"]), Path::new("/run/x"));
        assert_eq!(resolve(&dir.0, Path::new("/run/x"), &[]), Path::new("/elsewhere/x"));
    }

    #[test]
    fn a_point_in_a_layer_brings_its_parents_with_their_modes() {
        let dir = Dir::new("layer");
        let (lower, upper) = (dir.0.join("lower"), dir.0.join("upper"));
        fs::create_dir_all(lower.join("a")).expect("lower");
        fs::create_dir_all(&upper).expect("upper");
        fs::set_permissions(lower.join("a"), fs::Permissions::from_mode(0o751)).expect("mode");
        make_in_layer(&lower, &upper, Path::new("a/b/file"), false).expect("make");
        assert!(upper.join("a/b/file").is_file());
        assert_eq!(upper.join("a").metadata().expect("a").mode() & 0o7777, 0o751);
        make_in_layer(&lower, &upper, Path::new("a"), true).expect("what lower has is enough");
    }
}
