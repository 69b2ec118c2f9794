//! The last steps before the exec: streams, cgroups, user, environment, finding the program.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ironsail_sys::credential::{self, Credentials};
use ironsail_sys::fdpass::Channel;
use ironsail_sys::process::{self, Fork, Pid};
use ironsail_sys::{cgroup, mount, pty, signal};

use super::{Step, misunderstood};
use crate::account::{self, Account};
use crate::wire::{Descriptors, ProcessBody, Report, shortened, tell};
use crate::{StartError, StdioSpec};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Forks the program and returns when it has been executed, which is reported on `channel`.
pub(super) fn start(
    channel: &Channel,
    body: &ProcessBody,
    mut descriptors: Descriptors,
) -> Result<Pid, StartError> {
    let terminal = terminal(channel, body.stdio)?;
    let (mut failure, told) = process::pipe()
        .map(|(read, write)| (std::fs::File::from(read), std::fs::File::from(write)))
        .step(|| "making a pipe".to_owned())?;
    match process::fork().step(|| "forking".to_owned())? {
        Fork::Child => {
            let error = become_program(body, &mut descriptors, terminal.as_ref());
            let bytes = serde_json::to_vec(&error).unwrap_or_default();
            let _ = (&told).write_all(&bytes);
            process::exit_now(error.exit_code())
        }
        Fork::Parent(pid) => {
            // The streams must end when the program closes them.
            drop((told, terminal, descriptors));
            let mut bytes = Vec::new();
            // The other end is closed by the exec, or written to before the child exits.
            failure.read_to_end(&mut bytes).step(|| "waiting for the program".to_owned())?;
            if !bytes.is_empty() {
                let _ = process::wait_for(pid);
                return Err(serde_json::from_slice(&bytes).unwrap_or_else(|_| misunderstood()));
            }
            tell(channel, &Report::Running, &[]);
            Ok(pid)
        }
    }
}

/// Makes the terminal if one is wanted, sends off its master end and returns the other.
fn terminal(channel: &Channel, stdio: StdioSpec) -> Result<Option<OwnedFd>, StartError> {
    let StdioSpec::Terminal { size } = stdio else { return Ok(None) };
    let make = || -> io::Result<OwnedFd> {
        let master = pty::open_master(Path::new("/dev/pts/ptmx"))?;
        let slave = pty::open_slave(master.as_fd())?;
        if let Some(size) = size {
            pty::resize(master.as_fd(), size.columns, size.rows)?;
        }
        tell(channel, &Report::Terminal, &[&master]);
        Ok(slave)
    };
    make().map(Some).step(|| "making a terminal".to_owned())
}

/// Returns only when something fails.
fn become_program(
    body: &ProcessBody,
    descriptors: &mut Descriptors,
    terminal: Option<&OwnedFd>,
) -> StartError {
    match prepare(body, descriptors, terminal) {
        Ok((path, argv, env)) => {
            let error = process::exec(&path, &argv, &env);
            refused(&body.argv[0], &error)
        }
        Err(error) => error,
    }
}

type Ready = (PathBuf, Vec<CString>, Vec<CString>);

fn prepare(
    body: &ProcessBody,
    descriptors: &mut Descriptors,
    terminal: Option<&OwnedFd>,
) -> Result<Ready, StartError> {
    for entrance in descriptors.cgroups.drain(..) {
        cgroup::enter(entrance).step(|| "entering the cgroup".to_owned())?;
    }
    if let Some(score) = body.oom_score_adj {
        // Lowering it takes a right that even root may lack; it is a wish, not a bound.
        let _ = std::fs::write("/proc/self/oom_score_adj", score.to_string());
    }
    let account = account::look_up(body.user.uid);
    let env = environment(body, &account);
    streams(body, descriptors, terminal).step(|| "setting up standard streams".to_owned())?;
    working_directory(&body.cwd)?;
    let capabilities = crate::capability::resolve(&body.capabilities)?;
    let gid = body.user.gid.unwrap_or(account.gid);
    credential::assume(&Credentials {
        uid: body.user.uid,
        gid,
        groups: &body.user.groups,
        capabilities,
        no_new_privs: body.no_new_privs,
    })
    .step(|| format!("becoming user {} and group {gid}", body.user.uid))?;
    mount::usual_umask();
    let program = body.argv.first().ok_or_else(misunderstood)?;
    let path = find(program, &env)?;
    let argv = body.argv.iter().map(|a| c_string(a)).collect::<Result<_, _>>()?;
    let env = env.iter().map(|(k, v)| c_string(&format!("{k}={v}"))).collect::<Result<_, _>>()?;
    signal::restore_defaults().step(|| "restoring signals".to_owned())?;
    Ok((path, argv, env))
}

fn streams(
    body: &ProcessBody,
    descriptors: &Descriptors,
    terminal: Option<&OwnedFd>,
) -> io::Result<()> {
    process::new_session()?;
    if let Some(terminal) = terminal {
        pty::take_control(terminal.as_fd())?;
        process::give_to(terminal.as_fd(), body.user.uid)?;
        return (0..3).try_for_each(|n| process::set_standard_stream(terminal.as_fd(), n));
    }
    let null = process::null_device()?;
    let wanted = [&descriptors.stdin, &descriptors.stdout, &descriptors.stderr];
    for (number, stream) in (0..).zip(wanted) {
        if let Some(stream) = stream {
            // Otherwise a user other than root could not open /dev/stdout.
            process::give_to(stream.as_fd(), body.user.uid)?;
        }
        process::set_standard_stream(stream.as_ref().unwrap_or(&null).as_fd(), number)?;
    }
    Ok(())
}

fn working_directory(cwd: &Path) -> Result<(), StartError> {
    // With a read-only root it cannot be made; entering it then says what is wrong.
    let _ = std::fs::create_dir_all(cwd);
    std::env::set_current_dir(cwd)
        .step(|| format!("entering the working directory {}", cwd.display()))
}

/// The spec's variables, and the usual ones where they are absent.
fn environment(body: &ProcessBody, account: &Account) -> Vec<(String, String)> {
    let mut env = body.env.clone();
    let terminal = matches!(body.stdio, StdioSpec::Terminal { .. });
    let defaults = [
        ("PATH", Some(DEFAULT_PATH)),
        ("HOSTNAME", Some(body.hostname.as_str())),
        ("HOME", Some(account.home.as_str())),
        ("TERM", terminal.then_some("xterm")),
    ];
    for (name, value) in defaults {
        if let Some(value) = value
            && !env.iter().any(|(k, _)| k == name)
        {
            env.push((name.to_owned(), value.to_owned()));
        }
    }
    env
}

/// Finds the program as the shell does, with the rights of the user it will run as.
fn find(program: &str, env: &[(String, String)]) -> Result<PathBuf, StartError> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return match path.metadata().and_then(|_| process::may_execute(&path)) {
            Ok(()) => Ok(path),
            Err(e) => Err(refused(program, &e)),
        };
    }
    let path = env.iter().rev().find(|(k, _)| k == "PATH").map_or("", |(_, v)| v);
    path.split(':')
        .filter(|dir| !program.is_empty() && dir.starts_with('/'))
        .map(|dir| Path::new(dir).join(program))
        .find(|candidate| candidate.is_file() && process::may_execute(candidate).is_ok())
        .ok_or_else(|| StartError::NotInPath { program: shortened(program) })
}

fn refused(program: &str, error: &io::Error) -> StartError {
    let program = shortened(program);
    match error.kind() {
        io::ErrorKind::NotFound => StartError::NoSuchFile { program },
        io::ErrorKind::PermissionDenied => {
            StartError::NotExecutable { program, reason: "permission denied".to_owned() }
        }
        _ => StartError::NotExecutable { program, reason: shortened(error.to_string()) },
    }
}

fn c_string(text: &str) -> Result<CString, StartError> {
    CString::new(text).map_err(|_| {
        StartError::Spec("arguments and environment must not hold zero bytes".to_owned())
    })
}
