//! `adsload`: simulated proxies against any control plane that speaks Istio's discovery.
//!
//! Connects proxies as Istio's agents do, subscribes and answers as Envoy does, and measures what a
//! change costs: time until the last proxy took it, bytes and resources by type, processor time and
//! memory of the server. Uses only what any istiod serves, so the same run measures a peer. The
//! subcommand `generate` writes a mesh as YAML, and changes in it.

mod extract;
mod generate;
mod measure;
mod node;
#[path = "../process.rs"]
mod process;
mod proxy;
mod run;

use std::process::ExitCode;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "adsload", about = "Load for a discovery server, and what it costs")]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    load: run::Args,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Writes a mesh as YAML files, or changes one that was written.
    Generate(generate::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.command {
        Some(Command::Generate(generate)) => generate::run(generate),
        None => load(&args.load),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("adsload: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn load(args: &run::Args) -> anyhow::Result<()> {
    ironsail_sys::process::raise_file_limit()?;
    tokio::runtime::Runtime::new()?.block_on(run::run(args))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        use clap::CommandFactory;
        super::Args::command().debug_assert();
    }
}
