//! pilot-discovery: the control plane "istiod".
//!
//! In: flags, environment, and the objects of a mesh; out: discovery for its proxies, certificates,
//! webhooks, debug pages and metrics. This program only puts the parts together.

mod address;
mod args;
mod authority;
mod console;
mod control;
mod env;
mod grpc;
mod http;
mod identity;
mod issuer;
mod keys;
mod ops;
mod request;
mod serve;
mod setting;
mod source;
mod version;
mod webhook;
mod wire;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Cli, Command};

/// Samples what it gives out, for heap profiles.
#[global_allocator]
static ALLOCATOR: ironsail_profile::Allocator = ironsail_profile::Allocator;

/// Bad settings, as sysexits.h has it.
const BAD_SETTINGS: u8 = 64;

/// How a command can fail.
enum Failure {
    Settings(Vec<String>),
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Discovery(args) => wire::run(args),
        Command::Request(args) => print_request(args).map_err(Failure::from),
        Command::Version(args) => {
            print!("{}", version::text(args));
            Ok(())
        }
        Command::Completion(args) => {
            let mut command = Cli::command();
            clap_complete::generate(
                args.shell,
                &mut command,
                "pilot-discovery",
                &mut std::io::stdout(),
            );
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Settings(faults)) => {
            faults.iter().for_each(|fault| eprintln!("pilot-discovery: {fault}"));
            ExitCode::from(BAD_SETTINGS)
        }
        Err(Failure::Other(error)) => {
            eprintln!("pilot-discovery: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print_request(args: &args::Request) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(request::run(args))?);
    Ok(())
}
