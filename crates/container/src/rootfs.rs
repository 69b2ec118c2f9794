//! A container's root file system, built in its own mount namespace.
//!
//! In goes a spec; out comes a process whose root is the container's, with the image's files below
//! (changes to them go to memory), fresh kernel file systems, and the volumes in place. The order
//! matters: sources of volumes are opened while the host's root is still there, and mounted when the
//! container's own root is, so that no symlink can lead out of it.

use std::path::{Path, PathBuf};

use ironsail_sys::mount::{self, Tree};
use ironsail_sys::userns;

use crate::init::Step;
use crate::{ContainerSpec, RootSpec, StartError};

mod device;
mod image;
mod kernel;
mod point;
mod volume;

use image::Image;
use volume::Volume;

/// Directories that are the container's own in every case.
const KERNEL_DIRS: [&str; 3] = ["proc", "sys", "dev"];
/// Directories that are empty at the start when the image is the host itself: what they hold belongs
/// to the host's running programs.
const FRESH_ON_HOST: [&str; 2] = ["tmp", "run"];

/// Builds the root and moves the calling process into it. `with_proc` runs when `/proc` is there and
/// still writable.
pub(crate) fn build(
    spec: &ContainerSpec,
    stage: &Path,
    with_proc: impl FnOnce() -> Result<(), StartError>,
) -> Result<(), StartError> {
    mount::clear_umask();
    let (image_root, fresh): (&Path, &[&str]) = match &spec.root {
        RootSpec::Host => (Path::new("/"), &FRESH_ON_HOST),
        RootSpec::Dir(dir) => (dir, &[]),
    };
    let replaced: Vec<&str> = KERNEL_DIRS.iter().chain(fresh).copied().collect();
    let volumes = volume::open_all(spec, image_root, &replaced)?;

    let userns = userns::is_inside();
    let image = Image::new(image_root, stage, &replaced, userns)?;
    let root = prepare_stage(stage, spec.scratch_bytes)?;
    let layers = image.place(&volumes, &root)?;
    for dir in fresh {
        make_dir(&root.join(dir), if *dir == "tmp" { 0o1777 } else { 0o755 })?;
    }
    if spec.root == RootSpec::Host {
        make_dir(&root.join("run/lock"), 0o1777)?;
    } else if !root.join("tmp").exists() {
        make_dir(&root.join("tmp"), 0o1777)?;
    }
    kernel::mount_all(&root, &spec.capabilities)?;
    device::make_all(&root.join("dev"))?;

    mount::pivot_to(&root).step(|| "entering the container's root".to_owned())?;
    with_proc()?;
    if !spec.capabilities.privileged {
        kernel::protect()?;
    }
    for path in &spec.masked {
        volume::mask(&point::resolve(Path::new("/"), path, &[]))?;
    }
    let covered: Vec<PathBuf> = volumes.iter().map(|volume| volume.inside.clone()).collect();
    volumes.into_iter().try_for_each(Volume::attach)?;
    if spec.read_only_root {
        // What a volume covers is out of reach, and its path is the volume's now.
        for layer in layers.iter().filter(|layer| !covered.contains(layer)) {
            mount::set_read_only(layer).step(|| format!("making {} read-only", layer.display()))?;
        }
    }
    Ok(())
}

/// Memory for everything the container writes outside volumes, with the mount point of the new root.
fn prepare_stage(stage: &Path, bytes: u64) -> Result<PathBuf, StartError> {
    mount::root_tmpfs(stage, bytes, 0o755)
        .step(|| format!("mounting a tmpfs on {}", stage.display()))?;
    let root = stage.join("root");
    for dir in [&root, &stage.join("upper"), &stage.join("work")] {
        make_dir(dir, 0o755)?;
    }
    // Only a mount can become a root.
    Tree::clone_of(&root, false)
        .and_then(|tree| tree.attach(&root))
        .step(|| format!("binding {}", root.display()))?;
    Ok(root)
}

fn make_dir(path: &Path, mode: u32) -> Result<(), StartError> {
    use std::os::unix::fs::DirBuilderExt;
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.step(|| format!("making directory {}", path.display())),
    }
}
