//! `pilot-agent proxy`: Envoy, and everything it needs beside it.
//!
//! In: settings; out: an Envoy that is configured by the control plane and has the workload's
//! certificate, until this process is told to end. Each part is a task; if one that matters fails, all
//! end.

mod admin;
mod bootstrap;
mod config;
mod debug;
mod drain;
mod envoy;
mod expiry;
mod health;
mod names;
mod node;
mod pod;
mod relay;
mod root;
mod sds;
mod secret;
mod start;
mod status;
#[cfg(test)]
mod tests;
mod wasm;

use anyhow::Context;
use ironsail_sys::env::Env;

pub(crate) use admin::Admin;
pub(crate) use node::version;

use crate::Failure;
use crate::args::Proxy;

pub(crate) fn run(args: &Proxy, env: &Env, log_as_json: bool) -> Result<(), Failure> {
    let config = config::Config::gather(args, env).map_err(Failure::Settings)?;
    ironsail_sys::memory::give_back_early();
    // A sidecar does little itself; one thread keeps it small, and it is the one that Envoy's life
    // is tied to.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    Ok(runtime.block_on(start::run(config, log_as_json))?)
}
