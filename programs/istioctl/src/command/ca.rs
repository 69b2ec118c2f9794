//! `istioctl ca`: who signs for the mesh, who trusts whom, and a new root without a failed request.

mod material;
mod rotate;
mod rotation;
mod status;
mod step;
mod view;

use crate::Context;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show who signs, which roots are trusted, and which root and certificate every workload has.
    Status(status::Args),
    /// Replace the root of the mesh, step by step, without a moment in which somebody is not trusted.
    Rotate(rotate::Args),
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    match &args.command {
        Command::Status(args) => status::run(args, context).await,
        Command::Rotate(args) => Box::pin(rotate::run(args, context)).await,
    }
}
