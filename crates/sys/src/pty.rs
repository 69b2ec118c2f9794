//! Pseudo terminals of a given devpts instance.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

/// The master end of a terminal made from the multiplexer at `ptmx`.
pub fn open_master(ptmx: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(ptmx)?;
    let unlocked: libc::c_int = 0;
    // SAFETY: the request reads one integer from a live pointer.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file.into())
}

/// The other end of `master`, found without its name, so that it works across mount namespaces.
pub fn open_slave(master: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the request takes flags by value and returns a new descriptor or -1.
    let fd = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes `slave` the controlling terminal of this process, which must lead a new session.
pub fn take_control(slave: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request takes an integer by value.
    let done = unsafe { libc::ioctl(slave.as_raw_fd(), libc::TIOCSCTTY, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the size that programs on the terminal see; they are told by SIGWINCH.
pub fn resize(terminal: BorrowedFd<'_>, columns: u16, rows: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request reads one struct of this type from a live pointer.
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
