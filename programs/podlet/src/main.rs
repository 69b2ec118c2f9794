//! podlet: a node without a cluster.
//!
//! Everything that must happen before the first thread exists happens here: the user namespace of an
//! ordinary user, the mount namespace, and the zygote that starts every container.

mod api;
mod args;
mod cut;
mod data;
mod network;
mod nodes;
mod outside;
mod run;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use ironsail_container::ForkedZygote;
use ironsail_sys::userns;

use crate::args::{Args, Command};

/// Bad settings, as sysexits.h has it.
const BAD_SETTINGS: u8 = 64;

fn main() -> ExitCode {
    let Command::Run(args) = Args::parse().command;
    let faults = args.faults();
    if !faults.is_empty() {
        for fault in faults {
            eprintln!("podlet: {fault}");
        }
        return ExitCode::from(BAD_SETTINGS);
    }
    match start(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("podlet: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &args::Run) -> anyhow::Result<()> {
    let levels = args.log_output_level.clone();
    ironsail_daemon::log::start(&ironsail_daemon::log::Config { levels, json: args.log_as_json })?;
    userns::enter_if_unprivileged()?;
    let zygote = ForkedZygote::fork()?;
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let result = runtime.block_on(run::run(args, zygote));
    // Whatever still blocks a thread has nothing left to say.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    result
}
