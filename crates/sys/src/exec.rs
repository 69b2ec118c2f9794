//! Starting other programs.

use std::ffi::OsStr;

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
