//! Which hierarchies there are, and where in each this program may make groups.

use std::io;
use std::path::{Path, PathBuf};

use super::limit::{Controller, Version};
use super::write_existing;
use crate::mount::table::{self, Mounted};

/// A mounted hierarchy with controllers of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    pub(super) mount: PathBuf,
    /// The group this process is in.
    pub(super) own: PathBuf,
    pub(super) controllers: Vec<Controller>,
}

/// The directory of this instance in one hierarchy.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) version: Version,
    pub(super) dir: PathBuf,
    pub(super) controllers: Vec<Controller>,
}

pub(super) fn hierarchies() -> io::Result<Vec<Hierarchy>> {
    let mounts = table::read()?;
    let groups = std::fs::read_to_string("/proc/self/cgroup")?;
    Ok(from_tables(&mounts, &groups, |mount| {
        std::fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default()
    }))
}

/// Each controller is in one hierarchy only, so nothing is listed twice, except that a hierarchy may
/// be mounted in several places: the first counts.
fn from_tables(
    mounts: &[Mounted],
    groups: &str,
    controllers_of_unified: impl Fn(&Path) -> String,
) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for mounted in mounts {
        let (version, names) = match mounted.fs.as_str() {
            "cgroup" => (Version::One, mounted.super_options.replace(',', " ")),
            "cgroup2" => (Version::Two, controllers_of_unified(&mounted.target)),
            _ => continue,
        };
        let controllers: Vec<_> = Controller::ALL
            .into_iter()
            .filter(|c| names.split_whitespace().any(|name| name == c.name()))
            .filter(|c| !found.iter().any(|h| h.controllers.contains(c)))
            .collect();
        let Some(first) = controllers.first() else { continue };
        let Some(group) = own_group(groups, version, *first) else { continue };
        // Inside a container only a part of the hierarchy is mounted.
        let inside = Path::new(group).strip_prefix(&mounted.root).unwrap_or(Path::new(""));
        let own = mounted.target.join(inside.strip_prefix("/").unwrap_or(inside));
        found.push(Hierarchy { version, mount: mounted.target.clone(), own, controllers });
    }
    found
}

/// Lines look like `4:memory:/path` and, for version 2, `0::/path`.
fn own_group(groups: &str, version: Version, controller: Controller) -> Option<&str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (names, path) = (fields.next()?, fields.next()?);
        let hit = match version {
            Version::One => names.split(',').any(|name| name == controller.name()),
            Version::Two => names.is_empty(),
        };
        hit.then_some(path)
    })
}

impl Place {
    /// Makes the directory `name`, or says why that may not be.
    pub(super) fn make(hierarchy: &Hierarchy, name: &str) -> Result<Self, String> {
        let parent = match hierarchy.version {
            Version::One => hierarchy.own.clone(),
            // Root of the machine hangs its groups at the top, where no process gets in the way.
            Version::Two if crate::process::effective_uid() == 0 && !crate::userns::is_inside() => {
                hierarchy.mount.clone()
            }
            Version::Two => hierarchy.own.clone(),
        };
        let dir = parent.join(name);
        make_dir(&dir)?;
        if hierarchy.version == Version::Two
            && let Err(reason) = delegate(&parent, &dir, &hierarchy.controllers)
        {
            let _ = std::fs::remove_dir(&dir);
            return Err(reason);
        }
        Ok(Self { version: hierarchy.version, dir, controllers: hierarchy.controllers.clone() })
    }
}

fn make_dir(dir: &Path) -> Result<(), String> {
    match std::fs::create_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            Err(format!("making {}: {e}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Switches the controllers on for what lies in `dir`. A group of version 2 cannot both hold
/// processes and pass controllers on, so when ours are the only ones in `parent` they move into a
/// group of their own first.
fn delegate(parent: &Path, dir: &Path, controllers: &[Controller]) -> Result<(), String> {
    if switch_on(parent, controllers).is_err() {
        let own = dir.join("self");
        make_dir(&own)?;
        let procs = std::fs::read_to_string(parent.join("cgroup.procs")).unwrap_or_default();
        for pid in procs.lines().filter(|pid| is_ours(pid)) {
            write_existing(&own.join("cgroup.procs"), pid)
                .map_err(|e| format!("moving process {pid} to {}: {e}", own.display()))?;
        }
        switch_on(parent, controllers).map_err(|e| {
            let _ = std::fs::remove_dir(&own);
            format!(
                "passing controllers on from {}: {e}; start it in a group of its own, as with systemd-run --user --scope -p Delegate=yes",
                parent.display()
            )
        })?;
    }
    switch_on(dir, controllers)
        .map_err(|e| format!("passing controllers on from {}: {e}", dir.display()))
}

fn switch_on(dir: &Path, controllers: &[Controller]) -> io::Result<()> {
    let words: Vec<_> = controllers.iter().map(|c| format!("+{}", c.name())).collect();
    write_existing(&dir.join("cgroup.subtree_control"), &words.join(" "))
}

/// This process and its children, such as the zygote.
fn is_ours(pid: &str) -> bool {
    let own = std::process::id().to_string();
    let parent = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| Some(line.strip_prefix("PPid:")?.trim().to_owned()))
    };
    pid == own || parent().is_some_and(|parent| parent == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(fs: &str, root: &str, target: &str, super_options: &str) -> Mounted {
        Mounted {
            root: root.into(),
            target: target.into(),
            fs: fs.into(),
            super_options: super_options.into(),
        }
    }

    #[test]
    fn version_one_has_a_place_per_controller_even_beside_an_empty_unified_one() {
        let mounts = [
            mounted("cgroup", "/", "/cg/cpu", "rw,cpu"),
            mounted("cgroup", "/", "/cg/memory", "rw,memory"),
            mounted("cgroup", "/", "/cg/blkio", "rw,blkio"),
            mounted("cgroup2", "/", "/cg/unified", "rw"),
        ];
        let groups = "4:memory:/jobs/one\n1:cpu:/\n0::/\n";
        let found = from_tables(&mounts, groups, |_| String::new());
        let seen: Vec<_> =
            found.iter().map(|h| (h.version, h.own.to_str().expect("utf-8"))).collect();
        assert_eq!(seen, [(Version::One, "/cg/cpu/"), (Version::One, "/cg/memory/jobs/one")]);
    }

    #[test]
    fn version_two_is_one_place_below_the_part_that_is_mounted() {
        let mounts = [mounted("cgroup2", "/user", "/cg", "rw")];
        let found = from_tables(&mounts, "0::/user/session\n", |_| "cpu io memory pids".to_owned());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].own, Path::new("/cg/session"));
        assert_eq!(found[0].controllers, Controller::ALL);
    }
}
