//! `istioctl completion SHELL`: a script on standard output.

use clap_complete::Shell;

use crate::failure::Failure;
use crate::{Cli, Context, output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Complete in this shell, now
  source <(istioctl completion bash)
  # Complete in every zsh
  istioctl completion zsh > \"${fpath[1]}/_istioctl\"")]
pub(crate) struct Args {
    /// bash, zsh, fish, powershell or elvish
    shell: Shell,
}

#[expect(clippy::unused_async, reason = "every command has this form")]
pub(crate) async fn run(args: &Args, _: &Context) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = <Cli as clap::CommandFactory>::command();
    clap_complete::generate(args.shell, &mut command, "istioctl", &mut script);
    output::write(&String::from_utf8_lossy(&script))
}
