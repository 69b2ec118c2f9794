//! The kernel's table of mounts, as far as building a root needs it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// File systems that hold no files of the machine's owner.
const WITHOUT_FILES: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tmpfs",
    "tracefs",
];

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Which directory of the file system is shown.
    pub root: PathBuf,
    pub target: PathBuf,
    pub fs: String,
    pub super_options: String,
}

impl Mounted {
    /// Whether it holds files, rather than being a view of the kernel or scratch memory.
    pub fn holds_files(&self) -> bool {
        !WITHOUT_FILES.contains(&self.fs.as_str())
    }

    pub fn is_below(&self, dir: &Path) -> bool {
        self.target != dir && self.target.starts_with(dir)
    }
}

/// All mounts of this process's mount namespace.
pub fn read() -> io::Result<Vec<Mounted>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

fn parse(table: &[u8]) -> Vec<Mounted> {
    table.split(|b| *b == b'\n').filter_map(parse_line).collect()
}

/// Lines look like `36 35 98:0 /root /target rw,noatime shared:1 - ext4 /dev/x rw,errors=continue`.
fn parse_line(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|b| *b == b' ');
    let root = unescape(fields.nth(3)?);
    let target = unescape(fields.next()?);
    let mut tail = fields.skip_while(|f| *f != b"-").skip(1);
    let fs = String::from_utf8(tail.next()?.to_vec()).ok()?;
    let super_options = String::from_utf8_lossy(tail.nth(1)?).into_owned();
    Some(Mounted { root, target, fs, super_options })
}

/// Blanks and backslashes are written as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| first == b'\\');
        let byte = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = byte {
            out.push(byte);
            rest = &after[3..];
        } else {
            out.push(first);
            rest = after;
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_escapes_and_optional_fields() {
        let table = b"36 35 98:0 /sub /mnt/a\\040b rw,noatime shared:1 master:2 - ext4 /dev/x rw,errors=continue\n\
            37 35 0:21 / /proc rw - proc proc rw\nnonsense\n";
        let mounts = parse(table);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].root, Path::new("/sub"));
        assert_eq!(mounts[0].target, Path::new("/mnt/a b"));
        assert_eq!(mounts[0].super_options, "rw,errors=continue");
        assert!(mounts[0].holds_files());
        assert!(!mounts[1].holds_files());
    }

    #[test]
    fn below_means_strictly_and_by_whole_names() {
        let at = |target: &str| Mounted {
            root: "/".into(),
            target: target.into(),
            fs: "ext4".into(),
            super_options: String::new(),
        };
        assert!(at("/usr/share").is_below(Path::new("/usr")));
        assert!(!at("/usr").is_below(Path::new("/usr")));
        assert!(!at("/usrlocal").is_below(Path::new("/usr")));
    }
}
