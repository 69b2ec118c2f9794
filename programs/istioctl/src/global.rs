//! Flags of every command, spelled as Istio spells them.

use clap::Args;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Kubernetes configuration file [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(short = 'c', long, value_name = "FILE", global = true)]
    pub(crate) kubeconfig: Option<std::path::PathBuf>,
    /// Context of that file [default: its current one]
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) context: Option<String>,
    /// Namespace of the mesh's control plane
    #[arg(
        short = 'i',
        long = "istioNamespace",
        value_name = "NAMESPACE",
        env = "ISTIOCTL_ISTIONAMESPACE",
        default_value = "istio-system",
        global = true
    )]
    pub(crate) istio_namespace: String,
    /// Namespace of what is named without one [default: the context's]
    #[arg(short = 'n', long, value_name = "NAMESPACE", global = true)]
    pub(crate) namespace: Option<String>,
    /// User to act as
    #[arg(long = "as", value_name = "USER", global = true)]
    pub(crate) as_user: Option<String>,
    /// Group to act as; may be given more than once
    #[arg(long = "as-group", value_name = "GROUP", global = true)]
    pub(crate) as_group: Vec<String>,
    /// UID to act as
    #[arg(long = "as-uid", value_name = "UID", global = true)]
    pub(crate) as_uid: Option<String>,
    /// How much the Kubernetes client logs: 0 nothing, 6 requests, 9 all
    #[arg(long, value_name = "LEVEL", default_value_t = 0, global = true)]
    pub(crate) vklog: u8,
}

/// Logs of the libraries go to standard error, and only when asked for.
pub(crate) fn start_log(level: u8) {
    let level = match level {
        0 => return,
        1..=4 => tracing::Level::WARN,
        5 => tracing::Level::INFO,
        6..=8 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let started = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_target(true)
        .try_init();
    if let Err(error) = started {
        eprintln!("istioctl: no log: {error}");
    }
}
