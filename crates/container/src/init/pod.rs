//! PID 1 of a PID namespace that the containers of one pod share: reaps orphans, and ends, with
//! everything in the namespace, when its channel does.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use ironsail_sys::fdpass::Channel;
use ironsail_sys::process;
use ironsail_sys::signal::Signals;

use super::unpack;
use crate::wire::{Report, tell};

pub(crate) fn run(fds: Vec<OwnedFd>) -> i32 {
    let Some((channel, _)) = unpack(fds) else { return 1 };
    process::set_name(c"podlet-pod");
    i32::from(stay(&channel).is_err())
}

fn stay(channel: &Channel) -> io::Result<()> {
    let signals = Signals::take_all()?;
    tell(channel, &Report::Running, &[]);
    loop {
        let [ordered, signalled] = process::poll_readable([channel.as_fd(), signals.as_fd()])?;
        if signalled {
            while signals.next()?.is_some() {}
            while process::reap()?.is_some() {}
        }
        // No order makes sense here but the one to end.
        if ordered {
            return Ok(());
        }
    }
}
