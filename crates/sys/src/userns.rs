//! A user namespace for programs started by an ordinary user.
//!
//! In goes an unprivileged process with a single thread, out comes one that is root over ids, mounts
//! and networks of its own. When that cannot be, the error says in one line what is missing.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{User, getegid, geteuid, getpid};

use crate::capability::{self, CapabilitySet};
use crate::process::{self, Ending, Fork};

mod map;
mod range;

pub use map::IdMap;
use range::{mapping_arguments, ranges_of};

/// With what rights the process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Root of the machine (or of the container it runs in).
    Root,
    /// Root of a user namespace only.
    UserNamespace,
}

/// Subordinate user ids, or group ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    User,
    Group,
}

impl IdKind {
    fn tool(self) -> &'static str {
        match self {
            Self::User => "newuidmap",
            Self::Group => "newgidmap",
        }
    }

    /// Where subordinate ids are given to users.
    pub fn file(self) -> &'static str {
        match self {
            Self::User => "/etc/subuid",
            Self::Group => "/etc/subgid",
        }
    }
}

impl fmt::Display for IdKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Group => "group",
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "started as root but without {0}: probably inside a container; start that privileged, or start this as an ordinary user"
    )]
    WeakRoot(&'static str),
    #[error("not root, and {0} is missing: install uidmap, or run as root")]
    NoTool(&'static str),
    #[error(
        "not root, and {file} gives {user} no {kind} ids: add a line \"{user}:100000:65536\", or run as root"
    )]
    NoRange { kind: IdKind, file: &'static str, user: String },
    #[error(
        "not root, and the kernel forbids user namespaces ({switch}): {remedy}, or run as root"
    )]
    Forbidden { switch: &'static str, remedy: &'static str },
    #[error("not root, and making a user namespace failed")]
    Unshare(#[source] io::Error),
    #[error("not root, and {tool} failed: {message}")]
    Map { tool: &'static str, message: String },
    #[error("making a mount namespace")]
    Mount(#[source] io::Error),
    #[error("{0} must be called before any thread is started")]
    Threads(&'static str),
}

const APPARMOR_SWITCH: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
const APPARMOR_FORBIDS: Error = Error::Forbidden {
    switch: "kernel.apparmor_restrict_unprivileged_userns=1",
    remedy: "set it to 0 with sysctl",
};

/// Becomes root of a new user namespace unless the process is root already, and in either case
/// enters a private mount namespace. To be called first thing, before any thread exists.
pub fn enter_if_unprivileged() -> Result<Privilege, Error> {
    if !process::is_single_threaded() {
        return Err(Error::Threads("entering a user namespace"));
    }
    if geteuid().is_root() {
        let held = capability::permitted().unwrap_or(CapabilitySet::EMPTY);
        for (name, needed) in [("SYS_ADMIN", "CAP_SYS_ADMIN"), ("NET_ADMIN", "CAP_NET_ADMIN")] {
            if CapabilitySet::of(name).is_some_and(|cap| !held.contains(cap)) {
                return Err(Error::WeakRoot(needed));
            }
        }
        crate::mount::enter_private_namespace().map_err(Error::Mount)?;
        return Ok(Privilege::Root);
    }
    enter()?;
    Ok(Privilege::UserNamespace)
}

/// Whether this process is in a user namespace other than the machine's first.
pub fn is_inside() -> bool {
    // The first namespace maps every id onto itself.
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"])
}

fn enter() -> Result<(), Error> {
    let uid = geteuid();
    let name = User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |u| u.name);
    let mut commands = Vec::new();
    for (kind, own) in [(IdKind::User, uid.as_raw()), (IdKind::Group, getegid().as_raw())] {
        let tool = find_tool(kind.tool()).ok_or(Error::NoTool(kind.tool()))?;
        let table = std::fs::read_to_string(kind.file()).unwrap_or_default();
        let ranges = ranges_of(&table, &name, uid.as_raw());
        if ranges.is_empty() {
            return Err(Error::NoRange { kind, file: kind.file(), user: name });
        }
        commands.push((kind.tool(), tool, mapping_arguments(own, &ranges)));
    }
    unshare_mapped(&commands)?;
    crate::mount::enter_private_namespace().map_err(|source| {
        // This switch lets the namespace be made and then takes away its rights.
        if switched_on(APPARMOR_SWITCH) { APPARMOR_FORBIDS } else { Error::Mount(source) }
    })
}

/// The ids are mapped by a child, which stays outside of the new namespace and so may start the
/// set-user-id tools that do it.
fn unshare_mapped(commands: &[(&'static str, PathBuf, Vec<String>)]) -> Result<(), Error> {
    let (go_read, go_write) = process::pipe().map_err(Error::Unshare)?;
    let (said_read, said_write) = process::pipe().map_err(Error::Unshare)?;
    let parent = getpid();
    match process::fork().map_err(Error::Unshare)? {
        Fork::Child => {
            drop((go_write, said_read));
            let mut byte = [0];
            // Without the byte the parent has failed and has no namespace to map.
            let go = io::Read::read(&mut std::fs::File::from(go_read), &mut byte);
            if matches!(go, Ok(1))
                && let Err(message) = map_ids(parent.as_raw(), commands)
            {
                let _ =
                    io::Write::write_all(&mut std::fs::File::from(said_write), message.as_bytes());
                process::exit_now(1);
            }
            process::exit_now(0)
        }
        Fork::Parent(child) => {
            drop((go_read, said_write));
            let made = unshare(CloneFlags::CLONE_NEWUSER);
            if made.is_ok() {
                let _ = io::Write::write_all(&mut std::fs::File::from(go_write), b"x");
            } else {
                drop(go_write);
            }
            let mut message = String::new();
            let _ = io::Read::read_to_string(&mut std::fs::File::from(said_read), &mut message);
            let ending = process::wait_for(child).map_err(Error::Unshare)?;
            made.map_err(|e| explain_refusal(e.into()))?;
            if ending == Ending::Code(0) {
                return Ok(());
            }
            let (tool, text) = message.split_once('\t').unwrap_or(("newuidmap", &message));
            let tool = if tool == "newgidmap" { "newgidmap" } else { "newuidmap" };
            Err(Error::Map { tool, message: text.trim().replace('\n', "; ") })
        }
    }
}

fn map_ids(pid: i32, commands: &[(&'static str, PathBuf, Vec<String>)]) -> Result<(), String> {
    for (name, path, arguments) in commands {
        let done = crate::exec::command(path).arg(pid.to_string()).args(arguments).output();
        match done {
            Ok(out) if out.status.success() => {}
            Ok(out) => return Err(format!("{name}\t{}", String::from_utf8_lossy(&out.stderr))),
            Err(e) => return Err(format!("{name}\t{e}")),
        }
    }
    Ok(())
}

fn explain_refusal(source: io::Error) -> Error {
    if read_switch("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return Error::Forbidden {
            switch: "kernel.unprivileged_userns_clone=0",
            remedy: "set it to 1 with sysctl",
        };
    }
    if read_switch("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") {
        return Error::Forbidden {
            switch: "user.max_user_namespaces=0",
            remedy: "raise it with sysctl",
        };
    }
    // The limit of a namespace around this one, which cannot be read from here.
    if source.raw_os_error() == Some(nix::libc::ENOSPC) {
        return Error::Forbidden {
            switch: "user.max_user_namespaces is reached",
            remedy: "raise it with sysctl",
        };
    }
    if switched_on(APPARMOR_SWITCH) { APPARMOR_FORBIDS } else { Error::Unshare(source) }
}

fn switched_on(path: &str) -> bool {
    read_switch(path).is_some_and(|value| value != "0")
}

fn read_switch(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn find_tool(name: &str) -> Option<PathBuf> {
    let env = crate::env::Env::of_process();
    std::env::split_paths(env.var("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin"))
        .map(|dir| dir.join(name))
        .find(|candidate| process::may_execute(candidate).is_ok())
}
