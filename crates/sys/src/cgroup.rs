//! Control groups: bounds on what a container may use, where the machine lets us set them.
//!
//! All groups of one program lie in directories of one name, made of the instance's id, so that the
//! next start finds and removes what a killed one left. Version 1 (a hierarchy per controller) and
//! version 2 (one for all) look the same from outside. Groups that are not ours are never changed,
//! except that version 2 needs controllers switched on in the group that ours hang in.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

mod leftover;
mod limit;
mod place;

pub use limit::{Controller, GroupLimits};

use limit::Setting;
use place::Place;

/// Where this program may make groups.
#[derive(Debug)]
pub struct Cgroups {
    places: Vec<Place>,
    refused: Option<String>,
}

impl Cgroups {
    /// Finds out what may be done, removes what an earlier run of `instance` left, and makes the
    /// directories that groups go in. Never fails: where nothing is permitted, [`refused`] says why.
    ///
    /// [`refused`]: Self::refused
    pub fn open(instance: &str) -> Self {
        let name = format!("podlet-{instance}");
        let hierarchies = match place::hierarchies() {
            Ok(found) => found,
            Err(e) => return Self::none(format!("reading the table of mounts: {e}")),
        };
        if hierarchies.is_empty() {
            return Self::none("no cgroup file system is mounted".to_owned());
        }
        let mut places = Vec::new();
        let mut refusals = Vec::new();
        for hierarchy in hierarchies {
            leftover::remove(&hierarchy.mount, &name);
            match Place::make(&hierarchy, &name) {
                Ok(place) => places.push(place),
                Err(reason) => {
                    let names: Vec<_> = hierarchy.controllers.iter().map(|c| c.name()).collect();
                    refusals.push(format!("{}: {reason}", names.join(", ")));
                }
            }
        }
        let refused = (!refusals.is_empty()).then(|| refusals.join("; "));
        Self { places, refused }
    }

    fn none(reason: String) -> Self {
        Self { places: Vec::new(), refused: Some(reason) }
    }

    /// Which limits are not kept, and why.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Makes a group with `limits`, as far as controllers are at hand; `None` where none is.
    pub fn create(&self, name: &str, limits: &GroupLimits) -> io::Result<Option<Group>> {
        let mut group = Group { dirs: Vec::new(), oom_file: None };
        for place in &self.places {
            let settings: Vec<Setting> = limits.settings(place.version, &place.controllers);
            if settings.is_empty() {
                continue;
            }
            let dir = place.dir.join(name);
            // A group of this name is one of ours whose removal failed; its processes are gone.
            match std::fs::create_dir(&dir) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                other => other.map_err(|e| about("making", &dir, &e))?,
            }
            group.dirs.push(dir.clone());
            for setting in settings {
                let file = dir.join(setting.file);
                let written = write_existing(&file, &setting.value);
                if let Err(e) = written
                    && !setting.optional
                {
                    let _ = group.remove();
                    return Err(about("writing", &file, &e));
                }
            }
            if place.controllers.contains(&Controller::Memory) {
                group.oom_file = Some(dir.join(place.version.oom_file()));
            }
        }
        Ok((!group.dirs.is_empty()).then_some(group))
    }

    /// Removes the directories of this instance. Groups that are still in use stay.
    pub fn remove_all(&self) {
        for place in &self.places {
            leftover::remove_dir(&place.dir);
        }
    }
}

/// One container's groups.
#[derive(Debug)]
pub struct Group {
    dirs: Vec<PathBuf>,
    oom_file: Option<PathBuf>,
}

impl Group {
    /// Files that a process writes "0" to in order to enter the group, opened with our rights.
    pub fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        self.dirs
            .iter()
            .map(|dir| {
                let file = dir.join("cgroup.procs");
                let opened = std::fs::OpenOptions::new().write(true).open(&file);
                opened.map(OwnedFd::from).map_err(|e| about("opening", &file, &e))
            })
            .collect()
    }

    /// How many processes of the group the kernel has killed for want of memory.
    pub fn oom_kills(&self) -> u64 {
        let Some(text) = self.oom_file.as_ref().and_then(|f| std::fs::read_to_string(f).ok())
        else {
            return 0;
        };
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill "))
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Removes the groups; fails while a process is in them.
    pub fn remove(&self) -> io::Result<()> {
        let mut outcome = Ok(());
        for dir in &self.dirs {
            match std::fs::remove_dir(dir) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => outcome = Err(e),
                _ => {}
            }
        }
        outcome
    }
}

/// Enters a group through one of its [entrances](Group::entrances).
pub fn enter(entrance: OwnedFd) -> io::Result<()> {
    io::Write::write_all(&mut std::fs::File::from(entrance), b"0")
}

/// Writes a file that the kernel has made; never makes one.
fn write_existing(path: &Path, value: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    io::Write::write_all(&mut file, value.as_bytes())
}

fn about(doing: &str, path: &Path, source: &io::Error) -> io::Error {
    io::Error::new(source.kind(), format!("{doing} {}: {source}", path.display()))
}

#[cfg(test)]
mod tests;
