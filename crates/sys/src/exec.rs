//! Starting other programs.

use std::ffi::OsStr;

pub use nix::sys::signal::Signal;

/// A program to start and wait for without a runtime.
pub fn command(program: impl AsRef<OsStr>) -> std::process::Command {
    std::process::Command::new(program)
}

/// A program to start from async code. It is killed when its handle is dropped, so that no child
/// outlives the task that wanted it.
pub fn async_command(program: impl AsRef<OsStr>) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    command.kill_on_drop(true);
    command
}

/// Has the kernel send `signal` to the program when the thread that starts it ends, however it
/// ends. Start it from a thread that lives as long as the program should.
pub fn die_with_thread(command: &mut std::process::Command, signal: Signal) {
    use std::os::unix::process::CommandExt;
    // SAFETY: prctl is async-signal-safe and touches nothing that other threads share.
    unsafe {
        command
            .pre_exec(move || nix::sys::prctl::set_pdeathsig(signal).map_err(std::io::Error::from));
    }
}

/// Sends `signal` to a process this program started. One that is gone already is no fault.
pub fn send_signal(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
    }
}
