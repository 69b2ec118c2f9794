//! How a command can fail, and what the caller sees of it.

use std::process::ExitCode;

/// Bad settings, as sysexits.h has it.
const BAD_SETTINGS: u8 = 64;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or a file that it names is wrong; all faults at once.
    Settings(Vec<String>),
    /// The command did its work, and the answer is bad news that it has printed already.
    Bad,
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl Failure {
    pub(crate) fn setting(fault: impl Into<String>) -> Self {
        Self::Settings(vec![fault.into()])
    }
}

/// Says what went wrong, once, and gives the exit code.
pub(crate) fn report(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Settings(faults)) => {
            faults.iter().for_each(|fault| eprintln!("istioctl: {fault}"));
            ExitCode::from(BAD_SETTINGS)
        }
        Err(Failure::Bad) => ExitCode::FAILURE,
        Err(Failure::Other(error)) => {
            eprintln!("istioctl: {error:#}");
            ExitCode::FAILURE
        }
    }
}
