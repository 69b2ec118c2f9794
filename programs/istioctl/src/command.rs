//! The commands. Each is a module with `Args` and `async fn run(args, context)`; its line here gives
//! it its name and its help.

use crate::Context;
use crate::failure::Failure;

/// Declares the modules, the enum that clap reads, and who runs what.
macro_rules! commands {
    ($($(#[$meta:meta])* $name:ident => $module:ident;)*) => {
        $(mod $module;)*

        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $($(#[$meta])* $name(Box<$module::Args>),)*
        }

        impl Command {
            pub(crate) async fn run(&self, context: &Context) -> Result<(), Failure> {
                match self {
                    $(Self::$name(args) => Box::pin($module::run(args, context)).await,)*
                }
            }
        }
    };
}

commands! {
    /// Show and replace the mesh's certificate authority.
    Ca => ca;
    /// Print a script that completes commands in a shell.
    Completion => completion;
    /// Open the page of the mesh, or another one that a pod serves.
    #[command(visible_alias = "dash", alias = "d")]
    Dashboard => dashboard;
    /// Say what becomes of a request, step by step, and which object says so.
    Explain => explain;
    /// Print the versions of this program, of the control plane and of the proxies.
    Version => version;
}
