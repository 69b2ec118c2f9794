//! pilot-agent: what runs beside the proxy.
//!
//! It sets up and removes the packet rules, under its own name and as `istio-iptables` and
//! `istio-clean-iptables`; it runs the proxy and gives it all it needs; it waits for it and asks it.

mod args;
mod env;
mod proxy;
mod redirect;
mod request;
mod settings;
mod wait;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};

/// Bad settings, as sysexits.h has it.
const BAD_SETTINGS: u8 = 64;
/// The rules do not work: the code that tells the platform's repair to act.
const NOT_VALID: u8 = 126;

/// How a command can fail.
enum Failure {
    Settings(Vec<String>),
    NotValid(anyhow::Error),
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(with_command(std::env::args_os().collect()));
    let environment = ironsail_sys::env::Env::of_process();
    let log = &cli.log;
    let config = ironsail_daemon::log::Config {
        levels: log.log_output_level.clone(),
        json: log.log_as_json,
    };
    let result = match ironsail_daemon::log::start(&config) {
        Err(error) => Err(Failure::Settings(vec![format!("--log_output_level: {error}")])),
        Ok(_) => match &cli.command {
            Command::Iptables(args) => redirect::set_up(args, &environment),
            Command::CleanIptables(args) => redirect::clean(args, &environment),
            Command::Proxy(args) => proxy::run(args, &environment, log.log_as_json),
            Command::Wait(args) => wait::run(args),
            Command::Request(args) => request::run(args),
            Command::Version => {
                println!("{}", proxy::version());
                Ok(())
            }
            Command::Completion { shell } => {
                let mut command = <Cli as clap::CommandFactory>::command();
                clap_complete::generate(
                    *shell,
                    &mut command,
                    "pilot-agent",
                    &mut std::io::stdout(),
                );
                Ok(())
            }
        },
    };
    report(result)
}

fn report(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Settings(faults)) => {
            faults.iter().for_each(|fault| eprintln!("pilot-agent: {fault}"));
            ExitCode::from(BAD_SETTINGS)
        }
        Err(Failure::NotValid(error)) => {
            eprintln!("pilot-agent: {error:#}");
            ExitCode::from(NOT_VALID)
        }
        Err(Failure::Other(error)) => {
            eprintln!("pilot-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Started under the name of one of its commands, the program is that command.
fn with_command(mut args: Vec<OsString>) -> Vec<OsString> {
    let name = args.first().and_then(|name| Path::new(name).file_name()?.to_str());
    let command = name.filter(|name| args::ALSO_PROGRAMS.contains(name)).map(OsString::from);
    if let Some(command) = command {
        args.insert(1, command);
    }
    args
}

#[cfg(test)]
mod tests {
    use super::with_command;
    use std::ffi::OsString;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_programs_name_can_be_the_command() {
        let as_program = with_command(words("/usr/bin/istio-iptables -p 15001"));
        assert_eq!(as_program, words("/usr/bin/istio-iptables istio-iptables -p 15001"));
        let plain = words("/bin/pilot-agent istio-iptables -p 1");
        assert_eq!(with_command(plain.clone()), plain);
    }
}
