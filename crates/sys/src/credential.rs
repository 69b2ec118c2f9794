//! Becoming another user, for good.

use std::io;

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::capability::{self, CapabilitySet};

/// Who a process becomes and what it may at most do.
#[derive(Clone, Debug)]
pub struct Credentials<'a> {
    pub uid: u32,
    pub gid: u32,
    pub groups: &'a [u32],
    /// The bounding set. A user other than root holds none of these after the next exec, unless the
    /// program file grants them.
    pub capabilities: CapabilitySet,
    pub no_new_privs: bool,
}

/// Takes on `credentials`; needs the rights of root. There is no way back.
pub fn assume(credentials: &Credentials<'_>) -> io::Result<()> {
    let held = capability::permitted()?.common(credentials.capabilities);
    capability::bound_to(credentials.capabilities)?;
    nix::sys::prctl::set_keepcaps(true)?;
    let groups: Vec<Gid> = credentials.groups.iter().map(|g| Gid::from_raw(*g)).collect();
    setgroups(&groups)?;
    let gid = Gid::from_raw(credentials.gid);
    setresgid(gid, gid, gid)?;
    let uid = Uid::from_raw(credentials.uid);
    setresuid(uid, uid, uid)?;
    capability::set_held(held)?;
    nix::sys::prctl::set_keepcaps(false)?;
    if credentials.no_new_privs {
        nix::sys::prctl::set_no_new_privs()?;
    }
    Ok(())
}
