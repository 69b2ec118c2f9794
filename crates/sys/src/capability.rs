//! Capabilities of the kernel, by name and as sets.

use std::io;

/// The names in the order of their numbers in the kernel's interface.
pub const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilitySet(u64);

impl CapabilitySet {
    pub const EMPTY: Self = Self(0);
    pub const ALL: Self = Self((1 << NAMES.len()) - 1);

    /// Looks a capability up by its name, with or without `CAP_`, in any case.
    pub fn of(name: &str) -> Option<Self> {
        let upper = name.to_ascii_uppercase();
        let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
        let bit = NAMES.iter().position(|n| *n == bare)?;
        Some(Self(1 << bit))
    }

    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The kernel's third interface version, with 64 bits per set.
const VERSION_3: u32 = 0x2008_0522;

/// What this process holds and may raise.
pub fn permitted() -> io::Result<CapabilitySet> {
    let header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: both pointers are to live values of the kernel's layout for this version.
    let done = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(CapabilitySet(u64::from(data[0].permitted) | u64::from(data[1].permitted) << 32))
}

/// Makes `set` the permitted and effective capabilities of this thread; none are inheritable.
pub fn set_held(set: CapabilitySet) -> io::Result<()> {
    let header = Header { version: VERSION_3, pid: 0 };
    let word = |bits: u32| Data { effective: bits, permitted: bits, inheritable: 0 };
    let data = [word(set.0 as u32), word((set.0 >> 32) as u32)];
    // SAFETY: both pointers are to live values of the kernel's layout for this version.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes everything outside `set` away from this process and its descendants for good, and clears
/// the ambient set.
pub fn bound_to(set: CapabilitySet) -> io::Result<()> {
    for bit in 0..NAMES.len() {
        if set.0 & (1 << bit) != 0 {
            continue;
        }
        // SAFETY: the call takes integers only.
        let done = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, bit, 0, 0, 0) };
        let error = io::Error::last_os_error();
        // An older kernel does not know the newest capabilities, so nobody can hold them.
        if done != 0 && error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
    }
    // SAFETY: the call takes integers only.
    let done =
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_and_without_prefix_in_any_case() {
        let admin = CapabilitySet(1 << 12);
        for name in ["NET_ADMIN", "CAP_NET_ADMIN", "net_admin"] {
            assert_eq!(CapabilitySet::of(name), Some(admin), "{name}");
        }
        assert_eq!(CapabilitySet::of("CHECKPOINT_RESTORE"), Some(CapabilitySet(1 << 40)));
        assert_eq!(CapabilitySet::of("NET_ADMINS"), None);
    }

    #[test]
    fn sets_add_and_take_away() {
        let of = |name| CapabilitySet::of(name).expect("known name");
        let set = CapabilitySet::EMPTY.with(of("KILL")).with(of("CHOWN"));
        assert!(set.contains(of("KILL")));
        assert!(!set.without(of("KILL")).contains(of("KILL")));
        assert!(CapabilitySet::ALL.contains(set));
    }
}
