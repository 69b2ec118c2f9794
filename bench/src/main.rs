//! `make bench`: the measurements that the README quotes.
//!
//! Prints one line a figure: what, how much, and what it is held against where there is an aim.
//! Machines differ and are noisy, so nothing here passes or fails by the clock; counts do.

mod agent;
mod module;
mod podlet;
mod process;
mod signing;

use std::process::ExitCode;

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("bench: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `signing` alone on request; it needs nothing but this program. `agent [FOLDER]` measures the agent
/// with the programs in the folder, or beside this one; `module [FOLDER]` the Envoy module likewise.
async fn run() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("signing") => signing::run().await,
        Some("agent") => agent::run(words.next()).await,
        Some("module") => module::run(words.next()).await,
        _ => {
            signing::run().await?;
            module::run(None).await?;
            podlet::run().await
        }
    }
}
