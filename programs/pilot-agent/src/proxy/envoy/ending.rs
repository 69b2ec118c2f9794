//! Why a child ended, in words.
//!
//! In: the status that the kernel gives, and its counter of processes killed for want of memory; out: a
//! sentence. A kill for want of memory and one by somebody look the same in the status; the counter
//! tells them apart.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// The kernel's count of processes that it killed for want of memory.
#[derive(Debug)]
pub(super) enum Memory {
    /// In this container.
    Container(PathBuf),
    /// On the whole machine.
    Machine(PathBuf),
    /// It is not told here.
    Unknown,
}

/// What the count says about one ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Killed {
    /// The container was at its limit.
    AtLimit,
    /// The machine had no more memory, or another container was at its limit.
    SomewhereElse,
    /// Not for want of memory.
    No,
}

const GROUPS: &str = "/proc/self/cgroup";
const MOUNT: &str = "/sys/fs/cgroup";
const MACHINE: &str = "/proc/vmstat";

impl Memory {
    pub(super) fn of_this_process() -> Self {
        let groups = std::fs::read_to_string(GROUPS).unwrap_or_default();
        let mut files = candidates(&groups, Path::new(MOUNT)).into_iter();
        match files.find(|file| read(file).is_some()) {
            Some(file) => Self::Container(file),
            None if read(Path::new(MACHINE)).is_some() => Self::Machine(MACHINE.into()),
            None => Self::Unknown,
        }
    }

    pub(super) fn kills(&self) -> Option<u64> {
        match self {
            Self::Container(file) | Self::Machine(file) => read(file),
            Self::Unknown => None,
        }
    }

    /// None: nobody can tell.
    pub(super) fn killed_since(&self, before: Option<u64>) -> Option<Killed> {
        let more = self.kills()? > before?;
        Some(match (self, more) {
            (_, false) => Killed::No,
            (Self::Container(_), true) => Killed::AtLimit,
            (_, true) => Killed::SomewhereElse,
        })
    }
}

/// Files that count for this process, with both versions of control groups. Inside a container the
/// group's own folder is often the root of what is mounted.
fn candidates(groups: &str, mount: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(kinds), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (folder, file) = match kinds {
            "" => (mount.to_owned(), "memory.events"),
            kinds if kinds.split(',').any(|kind| kind == "memory") => {
                (mount.join("memory"), "memory.oom_control")
            }
            _ => continue,
        };
        files.push(folder.join(path.trim_start_matches('/')).join(file));
        files.push(folder.join(file));
    }
    files
}

fn read(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// `memory` is what the kernel's count says, if anything does.
pub(super) fn reason(status: ExitStatus, memory: Option<Killed>) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "exit code 0".to_owned(),
        (Some(code), _) => format!("exit code {code}; its own log says why"),
        (_, Some(9)) => match memory {
            Some(Killed::AtLimit) => {
                "out of memory: the kernel killed it because the container is at its memory limit; \
                 raise the limit or make its configuration smaller"
            }
            Some(Killed::SomewhereElse) => {
                "killed (SIGKILL), probably because the machine is out of memory: the kernel killed \
                 processes for that in the meantime"
            }
            Some(Killed::No) => "killed (SIGKILL) by somebody; the memory limit was not the reason",
            None => "killed (SIGKILL): by somebody, or for want of memory, which cannot be told here",
        }
        .to_owned(),
        (_, Some(6)) => "it crashed: it aborted itself (SIGABRT); its own log says why".to_owned(),
        (_, Some(signal @ (4 | 7 | 8 | 11))) => {
            format!("it crashed (signal {signal}, a fault in memory or code); its own log says where")
        }
        (_, Some(signal)) => format!("ended by somebody (signal {signal})"),
        _ => format!("{status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_looked_for_in_both_versions() {
        let files = candidates("0::/pod/a\n", Path::new("/m"));
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        assert_eq!(files, ["/m/pod/a/memory.events", "/m/memory.events"]);
        let files = candidates("3:cpu,memory:/a\n1:name=x:/\nbroken\n", Path::new("/m"));
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        assert_eq!(files, ["/m/memory/a/memory.oom_control", "/m/memory/memory.oom_control"]);
    }

    #[test]
    fn the_count_tells_want_of_memory_from_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.events");
        let count = |kills| std::fs::write(&file, format!("oom 7\noom_kill {kills}\n")).unwrap();
        count(1);
        let memory = Memory::Container(file.clone());
        let before = memory.kills();
        assert_eq!(memory.killed_since(before), Some(Killed::No));
        count(2);
        assert_eq!(memory.killed_since(before), Some(Killed::AtLimit));
        assert_eq!(Memory::Machine(file.clone()).killed_since(before), Some(Killed::SomewhereElse));
        assert_eq!(Memory::Unknown.killed_since(None), None);
    }

    #[test]
    fn every_ending_has_its_own_words() {
        let ended = |raw| ExitStatus::from_raw(raw);
        let memory = Some(Killed::AtLimit);
        assert!(reason(ended(9), memory).starts_with("out of memory"));
        assert!(reason(ended(9), Some(Killed::No)).starts_with("killed (SIGKILL) by somebody"));
        assert!(reason(ended(11), memory).starts_with("it crashed"));
        assert!(reason(ended(6), memory).starts_with("it crashed"));
        assert!(reason(ended(15), None).starts_with("ended by somebody"));
        assert!(reason(ended(3 << 8), None).starts_with("exit code 3"));
    }
}
