//! The command line, with Istio's names and defaults; `discovery`, `request`, `version`, `completion`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use ironsail_daemon::duration;

#[derive(Debug, Parser)]
#[command(name = "pilot-discovery", about = "Istio Pilot: the control plane of the mesh")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of them in a process")]
pub(crate) enum Command {
    /// Start the discovery service of the mesh
    Discovery(Discovery),
    /// Make an HTTP request to the debug endpoint of a running control plane
    Request(Request),
    /// Print out build version information
    Version(Version),
    /// Generate the autocompletion script for the specified shell
    Completion(Completion),
}

#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Minimum level of messages, as LEVEL or SCOPE:LEVEL,… with none, error, warn, info, debug
    #[arg(long = "log_output_level", default_value = "default:info")]
    pub(crate) output_level: String,
    /// One JSON object a line
    #[arg(long = "log_as_json")]
    pub(crate) as_json: bool,
    /// Where to log; only standard error, the default, is supported
    #[arg(long = "log_target", default_value = "stderr", hide = true)]
    pub(crate) target: Vec<String>,
    /// Accepted for compatibility: lines never have a caller
    #[arg(long = "log_caller", default_value = "", hide = true)]
    pub(crate) caller: String,
    /// Accepted for compatibility: lines never have a stack trace
    #[arg(long = "log_stacktrace_level", default_value = "default:none", hide = true)]
    pub(crate) stacktrace_level: String,
}

#[derive(Debug, Args)]
pub(crate) struct Discovery {
    #[command(flatten)]
    pub(crate) log: Log,
    #[command(flatten)]
    pub(crate) listen: Listen,
    #[command(flatten)]
    pub(crate) keepalive: Keepalive,
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// DNS suffix of the cluster
    #[arg(long, default_value = "cluster.local")]
    pub(crate) domain: String,
    /// Namespace of the control plane; the variable POD_NAMESPACE counts if the flag is not given
    #[arg(long, short = 'n')]
    pub(crate) namespace: Option<String>,
    /// File with the mesh configuration; the config map of the same content is used if it is missing
    #[arg(long = "meshConfig", default_value = "./etc/istio/config/mesh")]
    pub(crate) mesh_config: PathBuf,
    /// File with the mesh networks
    #[arg(long = "networksConfig", default_value = "./etc/istio/config/meshNetworks")]
    pub(crate) networks_config: PathBuf,
    /// Time that connected proxies get to move away when the program ends
    #[arg(long = "shutdownDuration", default_value = "10s", value_parser = duration::parse)]
    pub(crate) shutdown: Duration,
    /// Serve profiles under /debug/pprof
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) profile: bool,
}

/// Where to listen. `:PORT` is every address of the machine, an empty text is nowhere.
#[derive(Debug, Args)]
pub(crate) struct Listen {
    /// Readiness and debug pages; if not given, :8080, where others than this machine get readiness only
    #[arg(long = "httpAddr")]
    pub(crate) http: Option<String>,
    /// Injection and validation webhooks
    #[arg(long = "httpsAddr", default_value = ":15017")]
    pub(crate) https: String,
    /// Discovery without TLS
    #[arg(long = "grpcAddr", default_value = "127.0.0.1:15010")]
    pub(crate) grpc: String,
    /// Discovery and certificate authority over TLS
    #[arg(long = "secureGRPCAddr", default_value = ":15012")]
    pub(crate) secure_grpc: String,
    /// Metrics and version
    #[arg(long = "monitoringAddr", default_value = ":15014")]
    pub(crate) monitoring: String,
    /// Address of the ControlZ page
    #[arg(long = "ctrlz_address", default_value = "localhost")]
    pub(crate) ctrlz_address: String,
    /// Port of the ControlZ page
    #[arg(long = "ctrlz_port", default_value_t = 9876)]
    pub(crate) ctrlz_port: u16,
    /// Certificate to serve with; the program's own CA makes one if it is not given
    #[arg(long = "tlsCertFile", default_value = "")]
    pub(crate) tls_cert: String,
    /// Key of that certificate
    #[arg(long = "tlsKeyFile", default_value = "")]
    pub(crate) tls_key: String,
    /// Roots of that certificate
    #[arg(long = "caCertFile", default_value = "")]
    pub(crate) ca_cert: String,
    /// Cipher suites of TLS 1.2, by their names in Go, with commas between; all sound ones if empty
    #[arg(long = "tls-cipher-suites", value_delimiter = ',')]
    pub(crate) cipher_suites: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Keepalive {
    /// Time without traffic after which a connection is pinged
    #[arg(long = "keepaliveInterval", default_value = "30s", value_parser = duration::parse)]
    pub(crate) interval: Duration,
    /// Time after which a connection that does not answer pings is closed
    #[arg(long = "keepaliveTimeout", default_value = "10s", value_parser = duration::parse)]
    pub(crate) timeout: Duration,
    /// Longest life of a connection, give or take a tenth
    #[arg(long = "keepaliveMaxServerConnectionAge", default_value = "2562047h47m16.854775807s", value_parser = duration::parse)]
    pub(crate) max_age: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Sources {
    /// Name of the cluster that this control plane runs in; the variable CLUSTER_ID counts if the
    /// flag is not given
    #[arg(long = "clusterID")]
    pub(crate) cluster_id: Option<String>,
    /// Namespace of the config map with the mesh configuration and of remote clusters' secrets
    #[arg(long = "clusterRegistriesNamespace")]
    pub(crate) registries_namespace: Option<String>,
    /// Where objects come from
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["Kubernetes"])]
    pub(crate) registries: Vec<Registry>,
    /// Directory with YAML files of objects, watched; then Kubernetes is not asked
    #[arg(long = "configDir", default_value = "")]
    pub(crate) config_dir: String,
    /// Kubernetes configuration file; inside a cluster none is needed
    #[arg(long, default_value = "")]
    pub(crate) kubeconfig: String,
    /// Requests a second to the Kubernetes API; accepted, requests are not limited
    #[arg(long = "kubernetesApiQPS", default_value_t = 80.0, hide = true)]
    pub(crate) api_qps: f32,
    /// Burst of requests to the Kubernetes API; accepted, requests are not limited
    #[arg(long = "kubernetesApiBurst", default_value_t = 160, hide = true)]
    pub(crate) api_burst: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Registry {
    #[value(name = "Kubernetes", alias = "kubernetes")]
    Kubernetes,
    /// No service registry: files only
    #[value(name = "Mock", alias = "mock", hide = true)]
    Mock,
}

#[derive(Debug, Args)]
pub(crate) struct Request {
    /// HTTP method
    pub(crate) method: String,
    /// Path with query
    pub(crate) path: String,
    /// Body
    pub(crate) body: Option<String>,
    /// Where the control plane serves its debug pages
    #[arg(long, default_value = "127.0.0.1:15014", hide = true)]
    pub(crate) address: String,
}

#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Only the version number
    #[arg(long, short)]
    pub(crate) short: bool,
    /// Format of the output
    #[arg(long, short, value_enum)]
    pub(crate) output: Option<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Json,
    Yaml,
}

#[derive(Debug, Args)]
pub(crate) struct Completion {
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_of_the_deployment_is_understood() {
        let line = "pilot-discovery discovery --monitoringAddr=:15014 --log_output_level=default:info \
            --log_as_json --domain cluster.local --keepaliveMaxServerConnectionAge 30m";
        let Command::Discovery(args) = Cli::parse_from(line.split_whitespace()).command else {
            panic!("not discovery")
        };
        assert_eq!(args.keepalive.max_age, Duration::from_secs(1800));
        assert_eq!(args.listen.monitoring, ":15014");
        assert!(args.log.as_json);
    }

    #[test]
    fn the_plaintext_port_is_on_loopback_unless_asked() {
        let Command::Discovery(args) = Cli::parse_from(["pilot-discovery", "discovery"]).command
        else {
            panic!("not discovery")
        };
        assert_eq!(args.listen.grpc, "127.0.0.1:15010");
        assert_eq!(args.sources.registries, [Registry::Kubernetes]);
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
