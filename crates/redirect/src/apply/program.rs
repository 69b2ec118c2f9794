//! The programs that talk to the kernel, and the seam at which tests stand in for them.

use std::cell::RefCell;
use std::io::{self, Write};
use std::process::Stdio;

use ironsail_sys::env::Env;
use ironsail_sys::exec;

use super::Error;

/// What a program printed and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// `None`: ended by a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs programs to their end.
pub trait Programs {
    fn run(&self, program: &str, args: &[&str], stdin: &str) -> io::Result<Output>;
}

/// The machine's own programs.
#[derive(Clone, Debug)]
pub struct System {
    path: String,
    lock: Option<String>,
}

impl System {
    /// Looks in the `PATH` of `env` and in the folders that an ordinary user's lacks. `lock` is a
    /// file that legacy iptables locks instead of the machine's own.
    pub fn new(env: &Env, lock: Option<String>) -> Self {
        let path = env.var("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
        Self { path: format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"), lock }
    }
}

impl Programs for System {
    fn run(&self, program: &str, args: &[&str], stdin: &str) -> io::Result<Output> {
        let mut command = exec::command(program);
        command.args(args).env("PATH", &self.path);
        if let Some(lock) = &self.lock {
            command.env("XTABLES_LOCKFILE", lock);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let pipe = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // Written beside the reading, or both sides could wait for each other. A program that
            // ends without reading says why by its exit code.
            scope.spawn(move || pipe.map(|mut pipe| pipe.write_all(stdin.as_bytes())));
            child.wait_with_output()
        })?;
        Ok(Output {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

/// Asks the real programs, but only notes down what would change something.
pub struct Rehearsal<P> {
    real: P,
    written: RefCell<String>,
}

impl<P: Programs> Rehearsal<P> {
    pub fn of(real: P) -> Self {
        Self { real, written: RefCell::default() }
    }

    /// The commands that were not run, each with its input.
    pub fn written(&self) -> String {
        self.written.borrow().clone()
    }
}

impl<P: Programs> Programs for Rehearsal<P> {
    fn run(&self, program: &str, args: &[&str], stdin: &str) -> io::Result<Output> {
        // Every change is fed to a program; questions come without input.
        if stdin.is_empty() {
            return self.real.run(program, args, stdin);
        }
        let line = format!("# {program} {}\n{stdin}", args.join(" "));
        self.written.borrow_mut().push_str(&line);
        Ok(Output { code: Some(0), stdout: String::new(), stderr: String::new() })
    }
}

/// What the program printed, if it ended well.
pub(super) fn ask(
    programs: &dyn Programs,
    program: &str,
    args: &[&str],
    stdin: &str,
) -> Result<String, Error> {
    let output = programs
        .run(program, args, stdin)
        .map_err(|source| Error::Start { program: program.to_owned(), source })?;
    if output.code == Some(0) {
        tracing::debug!(program, ?args, stdin, "done");
        return Ok(output.stdout);
    }
    let message = output.stderr.trim().to_owned();
    Err(Error::Failed { program: program.to_owned(), code: output.code, message })
}
