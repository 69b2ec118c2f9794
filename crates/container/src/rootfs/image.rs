//! The image's files in a container's root.
//!
//! Each top-level directory is shown through an overlay of its own, since in a user namespace an
//! overlay over the whole of a root is refused. A directory below which other file systems are
//! mounted is taken apart, so that they are seen too. What cannot be overlaid is shown read-only.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use ironsail_sys::mount::table::{self, Mounted};
use ironsail_sys::mount::{self, Tree};

use super::point;
use super::volume::Volume;
use crate::StartError;
use crate::init::Step;

/// How deep, and into how many pieces, a directory is taken apart for the sake of what is mounted
/// below it.
const MAX_DEPTH: usize = 8;
const MAX_PIECES: usize = 512;

pub(super) struct Image<'a> {
    root: &'a Path,
    stage: &'a Path,
    replaced: &'a [&'a str],
    userns: bool,
    mounts: Vec<Mounted>,
    /// How many overlays there are, and where: paths inside the container.
    layers: Vec<PathBuf>,
}

impl<'a> Image<'a> {
    /// To be called before the stage is mounted on.
    pub(super) fn new(
        root: &'a Path,
        stage: &'a Path,
        replaced: &'a [&'a str],
        userns: bool,
    ) -> Result<Self, StartError> {
        let mounts = table::read().step(|| "reading the table of mounts".to_owned())?;
        Ok(Self { root, stage, replaced, userns, mounts, layers: vec![PathBuf::from("/")] })
    }

    /// Shows the image in `target`; returns the paths inside of all mounts that make up the root.
    pub(super) fn place(
        mut self,
        volumes: &[Volume],
        target: &Path,
    ) -> Result<Vec<PathBuf>, StartError> {
        let root = self.root;
        for entry in entries(root)? {
            let name = entry.file_name();
            // A file system's own, of no use to anyone.
            if self.replaced.iter().any(|r| name == *r) || name == "lost+found" {
                continue;
            }
            self.place_entry(&entry, Path::new(&name), volumes, target, 0)?;
        }
        Ok(self.layers)
    }

    fn place_entry(
        &mut self,
        entry: &DirEntry,
        inside: &Path,
        volumes: &[Volume],
        target: &Path,
        depth: usize,
    ) -> Result<(), StartError> {
        let lower = entry.path();
        let place = target.join(inside);
        let kind = entry.file_type().step(|| format!("looking at {}", lower.display()))?;
        if kind.is_symlink() {
            fs::read_link(&lower)
                .and_then(|to| std::os::unix::fs::symlink(to, &place))
                .step(|| format!("copying the symlink {}", lower.display()))
        } else if kind.is_dir() {
            self.place_directory(&lower, inside, volumes, target, depth)
        } else if kind.is_file() {
            fs::File::create(&place).step(|| format!("making {}", place.display()))?;
            self.show_read_only(&lower, inside, &place)
        } else {
            // Sockets, pipes and devices of the host mean nothing in a container.
            Ok(())
        }
    }

    fn place_directory(
        &mut self,
        lower: &Path,
        inside: &Path,
        volumes: &[Volume],
        target: &Path,
        depth: usize,
    ) -> Result<(), StartError> {
        let place = target.join(inside);
        fs::create_dir(&place).step(|| format!("making {}", place.display()))?;
        point::copy_attributes(lower, &place)
            .step(|| format!("setting the mode of {}", place.display()))?;
        let mounted_here = self.mounts.iter().rev().find(|m| m.target == lower);
        if lower == self.stage || mounted_here.is_some_and(|m| !m.holds_files()) {
            return Ok(());
        }
        let below = || self.mounts.iter().filter(|m| m.is_below(lower));
        let files_below = below().any(Mounted::holds_files);
        let any_below = below().next().is_some();
        // What the caller may not read is shown by a bind, which needs no looking into.
        let Ok(children) = entries(lower) else {
            return self.show_read_only(lower, inside, &place);
        };
        if children.is_empty() {
            return Ok(());
        }
        if !files_below && self.overlay(lower, inside, volumes, &place)? {
            return Ok(());
        }
        if any_below && depth < MAX_DEPTH && children.len() <= MAX_PIECES {
            for child in children {
                let inside = inside.join(child.file_name());
                self.place_entry(&child, &inside, volumes, target, depth + 1)?;
            }
            return Ok(());
        }
        self.show_read_only(lower, inside, &place)
    }

    /// Whether the kernel lets this directory be overlaid.
    fn overlay(
        &mut self,
        lower: &Path,
        inside: &Path,
        volumes: &[Volume],
        place: &Path,
    ) -> Result<bool, StartError> {
        let number = self.layers.len().to_string();
        let upper = self.stage.join("upper").join(&number);
        let work = self.stage.join("work").join(&number);
        for dir in [&upper, &work] {
            fs::create_dir(dir).step(|| format!("making {}", dir.display()))?;
        }
        point::copy_attributes(lower, &upper)
            .step(|| format!("setting the mode of {}", upper.display()))?;
        let root = Path::new("/").join(inside);
        for volume in volumes {
            let Ok(within) = volume.inside.strip_prefix(&root) else { continue };
            if within.as_os_str().is_empty() {
                continue;
            }
            point::make_in_layer(lower, &upper, within, volume.directory)
                .step(|| format!("making the mount point {}", volume.inside.display()))?;
        }
        let overlaid = mount::overlay(lower, &upper, &work, place, self.userns).is_ok();
        if overlaid {
            self.layers.push(root);
        } else {
            let _ = fs::remove_dir_all(&upper);
            let _ = fs::remove_dir_all(&work);
        }
        Ok(overlaid)
    }

    fn show_read_only(
        &mut self,
        lower: &Path,
        inside: &Path,
        place: &Path,
    ) -> Result<(), StartError> {
        let shown = Tree::clone_of(lower, true).and_then(|tree| {
            tree.set_read_only()?;
            tree.attach(place)
        });
        shown.step(|| format!("showing {} as /{}", lower.display(), inside.display()))
    }
}

fn entries(dir: &Path) -> Result<Vec<DirEntry>, StartError> {
    fs::read_dir(dir)
        .and_then(Iterator::collect)
        .step(|| format!("reading the directory {}", dir.display()))
}
