//! istioctl: looks into a mesh and works on it, from outside.
//!
//! In: a command line; out: text or JSON on standard output, complaints on standard error, and an exit
//! code. A new command is a module under `command/` and one line in `command.rs`.

#[allow(dead_code, reason = "each command uses its part of it")]
mod cluster;
mod command;
#[allow(dead_code, reason = "each command fails in its own ways")]
mod failure;
mod global;
mod output;
mod table;

use std::process::ExitCode;

use clap::Parser;

use crate::failure::Failure;
use crate::global::Global;

/// Everything a command may need.
pub(crate) struct Context {
    pub(crate) global: Global,
    #[allow(dead_code, reason = "for commands that start programs or find files")]
    pub(crate) env: ironsail_sys::env::Env,
}

/// Looks into a service mesh and works on it.
#[derive(Debug, Parser)]
#[command(name = "istioctl", version, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: command::Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    global::start_log(cli.global.vklog);
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let context = Context { global: cli.global, env: ironsail_sys::env::Env::of_process() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(Box::pin(cli.command.run(&context))),
        Err(error) => Err(Failure::Other(anyhow::Error::new(error).context("starting"))),
    };
    failure::report(result)
}
