//! A further command in a running container: joins its namespaces, starts the program, stays beside
//! it until it ends.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use ironsail_sys::fdpass::Channel;
use ironsail_sys::process::{self, Namespaces, Pid};
use ironsail_sys::signal::{self, Signals};

use super::supervise::supervise;
use super::{Step, fail, misunderstood, program, read_body, unpack};
use crate::StartError;
use crate::wire::{Descriptors, ExecBody};

/// `of` is the container's first process, `pids` PID 1 of its PID namespace (often the same).
pub(crate) fn run(fds: Vec<OwnedFd>, pids: Option<OwnedFd>, of: Option<OwnedFd>) -> i32 {
    let Some((channel, fds)) = unpack(fds) else { return 1 };
    process::set_name(c"podlet-exec");
    match start(&channel, fds, pids, of) {
        Ok((program, signals)) => {
            supervise(program, &channel, &signals);
            // The program leads a group of its own; with it go the processes it left behind there.
            let _ = signal::send_group(program, signal::KILL);
            0
        }
        Err(error) => fail(&channel, error),
    }
}

fn start(
    channel: &Channel,
    mut fds: VecDeque<OwnedFd>,
    pids: Option<OwnedFd>,
    of: Option<OwnedFd>,
) -> Result<(Pid, Signals), StartError> {
    let signals = Signals::take_all().step(|| "taking signals".to_owned())?;
    let body: ExecBody = read_body(&mut fds)?;
    let descriptors = Descriptors::take(&mut fds, &body.process).ok_or_else(misunderstood)?;
    let (pids, of) = (pids.ok_or_else(misunderstood)?, of.ok_or_else(misunderstood)?);
    let pid = Namespaces { pid: true, ..Namespaces::default() };
    let rest = Namespaces { pid: false, mount: true, uts: true, ipc: true, net: body.has_netns };
    process::join(pids.as_fd(), pid)
        .and_then(|()| process::join(of.as_fd(), rest))
        .step(|| "joining the container's namespaces".to_owned())?;
    drop((pids, of));
    let pid = program::start(channel, &body.process, descriptors)?;
    Ok((pid, signals))
}
