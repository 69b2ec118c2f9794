//! What is mounted into a container's root: volumes, placed programs, and covers.

use std::path::{Path, PathBuf};

use ironsail_sys::mount::{self, Tree};

use super::point;
use crate::init::Step;
use crate::{ContainerSpec, MountSource, StartError};

/// One thing to mount, with its source already open.
pub(super) struct Volume {
    /// Where, with symlinks of the image followed.
    pub(super) inside: PathBuf,
    pub(super) directory: bool,
    source: Source,
}

enum Source {
    Tree(Tree),
    Tmpfs { size_bytes: u64, mode: u32, read_only: bool },
}

/// Opens everything that the spec mounts, ordered so that parents come first.
pub(super) fn open_all(
    spec: &ContainerSpec,
    image: &Path,
    replaced: &[&str],
) -> Result<Vec<Volume>, StartError> {
    let mut volumes = Vec::with_capacity(spec.placed.len() + spec.mounts.len());
    for placed in &spec.placed {
        let tree = open_tree(&placed.host, false, true)?;
        volumes.push(Volume::new(image, &placed.inside, replaced, Source::Tree(tree))?);
    }
    for wanted in &spec.mounts {
        let read_only = wanted.read_only;
        let source = match &wanted.source {
            MountSource::Bind { host, recursive } => {
                Source::Tree(open_tree(host, *recursive, read_only)?)
            }
            MountSource::Tmpfs { size_bytes, mode } => {
                Source::Tmpfs { size_bytes: *size_bytes, mode: *mode, read_only }
            }
        };
        volumes.push(Volume::new(image, &wanted.inside, replaced, source)?);
    }
    volumes.sort_by_key(|volume| volume.inside.components().count());
    Ok(volumes)
}

fn open_tree(host: &Path, recursive: bool, read_only: bool) -> Result<Tree, StartError> {
    Tree::clone_of(host, recursive)
        .or_else(|e| {
            // In a user namespace what the host has mounted below cannot be left behind.
            if e.kind() == std::io::ErrorKind::InvalidInput {
                Tree::clone_of(host, true)
            } else {
                Err(e)
            }
        })
        .and_then(|tree| {
            if read_only {
                tree.set_read_only()?;
            }
            Ok(tree)
        })
        .step(|| format!("opening {} for mounting", host.display()))
}

impl Volume {
    fn new(
        image: &Path,
        inside: &Path,
        replaced: &[&str],
        source: Source,
    ) -> Result<Self, StartError> {
        let directory = match &source {
            Source::Tree(tree) => tree
                .is_directory()
                .step(|| format!("looking at the source of {}", inside.display()))?,
            Source::Tmpfs { .. } => true,
        };
        Ok(Self { inside: point::resolve(image, inside, replaced), directory, source })
    }

    /// Mounts it in the root of the calling process.
    pub(super) fn attach(self) -> Result<(), StartError> {
        point::make(&self.inside, self.directory)
            .step(|| format!("making the mount point {}", self.inside.display()))?;
        match self.source {
            Source::Tree(tree) => tree.attach(&self.inside),
            Source::Tmpfs { size_bytes, mode, read_only } => {
                mount::tmpfs(&self.inside, size_bytes, mode, read_only)
            }
        }
        .step(|| format!("mounting on {}", self.inside.display()))
    }
}

/// Covers what is at `path`, if anything is.
pub(super) fn mask(path: &Path) -> Result<(), StartError> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    if metadata.is_dir() {
        mount::tmpfs(path, 4096, 0o555, true)
    } else {
        Tree::clone_of(Path::new("/dev/null"), false).and_then(|null| null.attach(path))
    }
    .step(|| format!("covering {}", path.display()))
}
