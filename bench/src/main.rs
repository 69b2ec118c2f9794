//! `make bench`: the measurements that the README quotes.
//!
//! Prints one line a figure: what, how much, and what it is held against where there is an aim.
//! Machines differ and are noisy, so nothing here passes or fails by the clock; counts do.

mod agent;
#[path = "adsload/extract.rs"]
mod extract;
#[path = "adsload/measure.rs"]
#[allow(dead_code, reason = "the load tool uses the rest")]
mod measure;
mod module;
#[path = "adsload/node.rs"]
mod node;
#[path = "../../crates/discovery/tests/world/objects.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod objects;
mod podlet;
mod process;
#[path = "adsload/proxy.rs"]
#[allow(dead_code, reason = "the load tool uses the rest")]
mod proxy;
mod routes;
#[path = "../../crates/discovery/tests/world/server.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "tests use the rest; a run may end so")]
mod server;
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

/// `signing` and `routes` alone on request; they need nothing but this program. `agent [FOLDER]` measures
/// the agent with the programs in the folder, or beside this one; `module [FOLDER]` the Envoy module likewise.
async fn run() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("signing") => signing::run().await,
        Some("routes") => routes::run().await,
        Some("agent") => agent::run(words.next()).await,
        Some("module") => module::run(words.next()).await,
        _ => {
            signing::run().await?;
            routes::run().await?;
            module::run(None).await?;
            podlet::run().await
        }
    }
}
