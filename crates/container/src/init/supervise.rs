//! Looking after a program: passing signals on, reaping, telling how it ended.

use std::io;
use std::os::fd::AsFd;

use ironsail_sys::fdpass::Channel;
use ironsail_sys::process::{self, Pid};
use ironsail_sys::signal::{self, Signals};

use crate::ExitStatus;
use crate::wire::{Order, Report, tell};

/// Waits for `program` to end and reports it; returns at once when told to kill, or when the other
/// side is gone. What else is to be killed is up to the caller.
pub(super) fn supervise(program: Pid, channel: &Channel, signals: &Signals) {
    if let Ok(Some(status)) = watch(program, channel, signals) {
        tell(channel, &Report::Ended(status), &[]);
    }
}

fn watch(program: Pid, channel: &Channel, signals: &Signals) -> io::Result<Option<ExitStatus>> {
    loop {
        let [ordered, signalled] = process::poll_readable([channel.as_fd(), signals.as_fd()])?;
        if signalled {
            while let Some(number) = signals.next()? {
                if number != signal::CHILD {
                    // Someone inside signalled PID 1, which stands for the program.
                    let _ = signal::send(program, number);
                }
            }
            // One SIGCHLD may stand for several children, so each time all are looked at.
            let mut ended = None;
            while let Some((pid, ending)) = process::reap()? {
                if pid == program {
                    ended = Some(ending.into());
                }
            }
            if ended.is_some() {
                return Ok(ended);
            }
        }
        if ordered && !obey(program, channel)? {
            return Ok(None);
        }
    }
}

/// Whether to go on.
fn obey(program: Pid, channel: &Channel) -> io::Result<bool> {
    let Some(packet) = channel.recv()? else { return Ok(false) };
    match serde_json::from_slice(&packet.bytes) {
        Ok(Order::Signal(number)) => {
            let _ = signal::send(program, number);
            Ok(true)
        }
        Ok(Order::Kill) | Err(_) => Ok(false),
    }
}
