//! The zygote process: forks what it is asked for, reaps what has ended, and does nothing else.
//!
//! It stays small on purpose, since every container starts as a copy of it: long requests are read
//! only by the child they are for.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use ironsail_sys::fdpass::{Channel, Packet};
use ironsail_sys::process::{self, Namespaces, Pid};
use ironsail_sys::signal::Signals;

use crate::StartError;
use crate::init::{command, container, pod};
use crate::wire::{Report, Request, Token, shortened, tell};

struct Child {
    pid: Pid,
    /// Closed when the child has been reaped, which tells the other side that all is over.
    _channel: Channel,
    /// Whose PID namespace its processes are in, unless its own.
    shared_pids: Option<Token>,
}

/// The life of the zygote; returns its exit code. Its end is the end of every container.
pub(super) fn serve(channel: &Channel) -> i32 {
    match Server::default().run(channel) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("podlet: the process that starts containers fails: {e}");
            1
        }
    }
}

#[derive(Default)]
struct Server {
    children: HashMap<Token, Child>,
}

impl Server {
    fn run(&mut self, channel: &Channel) -> io::Result<()> {
        // Should the parent be gone already, the channel is at its end and the loop stops at once.
        process::die_with_parent()?;
        // Keys typed at the program's terminal are not meant for containers.
        process::new_session()?;
        process::set_name(c"podlet-zygote");
        process::set_standard_stream(process::null_device()?.as_fd(), 0)?;
        let signals = Signals::take_all()?;
        loop {
            let [asked, signalled] = process::poll_readable([channel.as_fd(), signals.as_fd()])?;
            if signalled {
                while signals.next()?.is_some() {}
                self.reap()?;
            }
            if asked {
                match channel.recv()? {
                    Some(packet) => self.handle(packet),
                    None => return Ok(()),
                }
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, _)) = process::reap()? {
            self.children.retain(|_, child| child.pid != pid);
        }
        Ok(())
    }

    fn handle(&mut self, packet: Packet) {
        let Packet { bytes, mut fds } = packet;
        let Ok(request) = serde_json::from_slice::<Request>(&bytes) else { return };
        if fds.is_empty() {
            return;
        }
        let channel = Channel::from(fds.remove(0));
        let kept = match channel.try_clone() {
            Ok(kept) => kept,
            Err(e) => return refuse(&channel, &e),
        };
        fds.insert(0, channel.into());
        let (token, shared_pids) = match request {
            Request::Start { token, shared_pids } => (token, shared_pids),
            Request::Exec { token, .. } | Request::PodPids { token } => (token, None),
        };
        match self.spawn(&request, fds) {
            Ok(pid) => {
                self.children.insert(token, Child { pid, _channel: kept, shared_pids });
            }
            Err(e) => refuse(&kept, &e),
        }
    }

    fn spawn(&self, request: &Request, mut fds: Vec<OwnedFd>) -> io::Result<Pid> {
        match *request {
            Request::Start { shared_pids: None, .. } => {
                let own = Namespaces { pid: true, mount: true, uts: true, ipc: true, net: false };
                process::spawn(own, fds, |fds| container::run(fds, None))
            }
            Request::Start { shared_pids: Some(pod), .. } => {
                fds.push(self.pidfd(pod)?);
                let own = Namespaces { mount: true, uts: true, ipc: true, ..Namespaces::default() };
                process::spawn(own, fds, |mut fds| {
                    let pids = fds.pop();
                    container::run(fds, pids)
                })
            }
            Request::Exec { of, .. } => {
                let pids = self.children.get(&of).and_then(|child| child.shared_pids);
                fds.push(self.pidfd(pids.unwrap_or(of))?);
                fds.push(self.pidfd(of)?);
                process::spawn(Namespaces::default(), fds, |mut fds| {
                    let (of, pids) = (fds.pop(), fds.pop());
                    command::run(fds, pids, of)
                })
            }
            Request::PodPids { .. } => {
                let own = Namespaces { pid: true, ..Namespaces::default() };
                process::spawn(own, fds, pod::run)
            }
        }
    }

    fn pidfd(&self, token: Token) -> io::Result<OwnedFd> {
        let child = self.children.get(&token).ok_or(io::ErrorKind::NotFound)?;
        process::pidfd(child.pid)
    }
}

fn refuse(channel: &Channel, e: &io::Error) {
    let error = match e.kind() {
        io::ErrorKind::NotFound => StartError::NotRunning { id: String::new() },
        _ => StartError::Setup { step: "forking".to_owned(), reason: shortened(e.to_string()) },
    };
    tell(channel, &Report::Failed(error), &[]);
}
