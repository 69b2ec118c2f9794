//! A container's first process: builds the root, starts the program, stays as its PID 1.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ironsail_sys::fdpass::Channel;
use ironsail_sys::process::{self, Namespaces, Pid};
use ironsail_sys::signal::{self, Signals};

use super::supervise::supervise;
use super::{Step, fail, misunderstood, program, read_body, unpack};
use crate::wire::{Descriptors, StartBody};
use crate::{ContainerSpec, StartError, rootfs};

/// `pids` is PID 1 of the pod's namespace where the container joins one.
pub(crate) fn run(fds: Vec<OwnedFd>, pids: Option<OwnedFd>) -> i32 {
    let Some((channel, fds)) = unpack(fds) else { return 1 };
    process::set_name(c"podlet-init");
    let shared = pids.is_some();
    match start(&channel, fds, pids) {
        Ok((program, signals)) => {
            supervise(program, &channel, &signals);
            // In a namespace of its own the kernel kills what is left when this process ends.
            if shared {
                let _ = signal::send_group(program, signal::KILL);
            }
            0
        }
        Err(error) => fail(&channel, error),
    }
}

fn start(
    channel: &Channel,
    mut fds: VecDeque<OwnedFd>,
    pids: Option<OwnedFd>,
) -> Result<(Pid, Signals), StartError> {
    let signals = Signals::take_all().step(|| "taking signals".to_owned())?;
    let body: StartBody = read_body(&mut fds)?;
    if body.has_netns {
        let netns = fds.pop_front().ok_or_else(misunderstood)?;
        process::join_netns(netns.as_fd()).step(|| "joining the network namespace".to_owned())?;
    }
    if let Some(pids) = pids {
        let pid = Namespaces { pid: true, ..Namespaces::default() };
        process::join(pids.as_fd(), pid).step(|| "joining the pod's PID namespace".to_owned())?;
    }
    let descriptors = Descriptors::take(&mut fds, &body.process).ok_or_else(misunderstood)?;
    process::set_hostname(&body.spec.hostname)
        .step(|| format!("setting the host name {:?}", body.spec.hostname))?;
    rootfs::build(&body.spec, &body.stage, || write_sysctls(&body.spec))?;
    let pid = program::start(channel, &body.process, descriptors)?;
    Ok((pid, signals))
}

fn write_sysctls(spec: &ContainerSpec) -> Result<(), StartError> {
    for (name, value) in &spec.sysctls {
        // In the dotted form a slash stands for a dot inside a name, as with sysctl(8).
        let path: String = name
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            })
            .collect();
        std::fs::write(Path::new("/proc/sys").join(path), value)
            .step(|| format!("setting sysctl {name}={value}"))?;
    }
    Ok(())
}
