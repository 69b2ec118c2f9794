//! The command line. Every flag keeps the text it was given; `settings` judges all of them together.

use clap::{ArgAction, Args, Parser, Subcommand};

/// Commands that are also installed as programs of their own.
pub(crate) const ALSO_PROGRAMS: [&str; 2] = ["istio-iptables", "istio-clean-iptables"];

/// Runs beside the proxy of a pod.
#[derive(Debug, Parser)]
#[command(name = "pilot-agent", version, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: Log,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Least level to log: `LEVEL` or `SCOPE:LEVEL,…`, from none to debug.
    #[arg(
        long = "log_output_level",
        value_name = "LEVELS",
        default_value = "default:info",
        global = true
    )]
    pub(crate) log_output_level: String,
    /// Log one JSON object a line.
    #[arg(long = "log_as_json", global = true)]
    pub(crate) log_as_json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Set up the packet rules that bring this pod's traffic to its proxy.
    #[command(name = "istio-iptables", args_override_self = true)]
    Iptables(Box<Iptables>),
    /// Remove these packet rules.
    #[command(name = "istio-clean-iptables", args_override_self = true)]
    CleanIptables(CleanIptables),
    /// Run the proxy of a pod: as `proxy sidecar` or `proxy router`.
    #[command(args_override_self = true)]
    Proxy(Box<Proxy>),
    /// Wait until the proxy is ready.
    Wait(Wait),
    /// Ask the proxy's administration: `request GET /config_dump`.
    Request(Request),
    /// Print the version.
    Version,
    /// Print a script that completes commands in a shell.
    Completion { shell: clap_complete::Shell },
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  pilot-agent proxy sidecar --domain default.svc.cluster.local")]
pub(crate) struct Proxy {
    /// What the proxy is: sidecar, or router for a gateway
    #[arg(value_parser = ["sidecar", "router"], default_value = "sidecar")]
    pub(crate) role: Option<String>,
    /// DNS domain of the pod [default: NAMESPACE.svc.cluster.local]
    #[arg(long)]
    pub(crate) domain: Option<String>,
    /// Level of the proxy's own log
    #[arg(long = "proxyLogLevel", default_value = "warning")]
    pub(crate) proxy_log_level: String,
    /// Levels of parts of the proxy's log: `COMPONENT:LEVEL,…`
    #[arg(long = "proxyComponentLogLevel", default_value = "")]
    pub(crate) proxy_component_log_level: String,
    /// Worker threads of the proxy; 0 for one a core [default: by the CPU limit]
    #[arg(long)]
    pub(crate) concurrency: Option<u32>,
    /// Name of the service in traces; set in the proxy config
    #[arg(long = "serviceCluster")]
    pub(crate) service_cluster: Option<String>,
    /// Template of the proxy's bootstrap file
    #[arg(long = "templateFile")]
    pub(crate) template_file: Option<std::path::PathBuf>,
    /// Where outlier events are logged
    #[arg(long = "outlierLogPath", default_value = "")]
    pub(crate) outlier_log_path: String,
    /// Mesh configuration [default: ./etc/istio/config/mesh]
    #[arg(long = "meshConfig")]
    pub(crate) mesh_config: Option<std::path::PathBuf>,
    /// Port of an exchange of tokens for Google's, which is not supported: only 0
    #[arg(long = "stsPort", default_value_t = 0)]
    pub(crate) sts_port: u16,
}

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Seconds until it is given up
    #[arg(long = "timeoutSeconds", default_value_t = 60)]
    pub(crate) timeout_seconds: u64,
    /// Milliseconds between tries
    #[arg(long = "periodMillis", default_value_t = 500)]
    pub(crate) period_millis: u64,
    /// Milliseconds that one try may take
    #[arg(long = "requestTimeoutMillis", default_value_t = 500)]
    pub(crate) request_timeout_millis: u64,
    /// Where readiness is asked
    #[arg(long, default_value = "http://localhost:15021/healthz/ready")]
    pub(crate) url: String,
}

#[derive(Debug, Args)]
pub(crate) struct Request {
    /// GET or POST
    pub(crate) method: String,
    /// Path of the proxy's administration
    pub(crate) path: String,
    /// Port to ask; the agent's own is 15020
    #[arg(long = "debug-port", default_value_t = ironsail_names::port::ENVOY_ADMIN, value_name = "PORT")]
    pub(crate) debug_port: u16,
}

/// A switch that may be written `--switch`, `--switch=true` and `--switch=false`.
macro_rules! switches {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$text_meta:meta])* text $text:ident,)*
        ; $($(#[$switch_meta:meta])* switch $switch:ident,)*
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$text_meta])* pub(crate) $text: Option<String>,)*
            $(
                $(#[$switch_meta])*
                #[arg(
                    action = ArgAction::Set,
                    num_args = 0..=1,
                    require_equals = true,
                    default_missing_value = "true",
                    value_parser = parse_switch,
                    value_name = "BOOL"
                )]
                pub(crate) $switch: Option<bool>,
            )*
        }
    };
}

switches! {
    #[derive(Debug, Default, Args)]
    pub(crate) struct Iptables {
        /// Port of the proxy to which leaving TCP connections go [default: 15001]
        #[arg(short = 'p', long, value_name = "PORT")]
        text envoy_port,
        /// Port of the proxy to which arriving TCP connections go [default: 15006]
        #[arg(short = 'z', long, value_name = "PORT")]
        text inbound_capture_port,
        /// Port of the proxy's tunnel, never captured [default: 15008]
        #[arg(short = 'e', long, value_name = "PORT")]
        text inbound_tunnel_port,
        /// Users whose connections are not captured: the proxy's [default: that of $ENVOY_USER, or 1337]
        #[arg(short = 'u', long, value_name = "UID,…")]
        text proxy_uid,
        /// Groups whose connections are not captured [default: as --proxy-uid]
        #[arg(short = 'g', long, value_name = "GID,…")]
        text proxy_gid,
        /// How arriving connections are captured: REDIRECT, TPROXY or NONE [default: REDIRECT]
        #[arg(short = 'm', long, value_name = "MODE")]
        text istio_inbound_interception_mode,
        /// Ports whose arriving connections are captured; `*` for all, nothing for none
        #[arg(short = 'b', long, value_name = "PORTS")]
        text istio_inbound_ports,
        /// Ports that are not captured although `*` is
        #[arg(short = 'd', long, value_name = "PORTS")]
        text istio_local_exclude_ports,
        /// Links whose traffic is not captured, neither arriving nor leaving
        #[arg(short = 'c', long, value_name = "LINK,…")]
        text istio_exclude_interfaces,
        /// IP ranges to which leaving connections are captured; `*` for all, nothing for none
        #[arg(short = 'i', long, value_name = "CIDR,…")]
        text istio_service_cidr,
        /// IP ranges to which leaving connections are not captured
        #[arg(short = 'x', long, value_name = "CIDR,…")]
        text istio_service_exclude_cidr,
        /// Ports to which leaving connections are captured, wherever they go
        #[arg(short = 'q', long, value_name = "PORTS")]
        text istio_outbound_ports,
        /// Ports to which leaving connections are not captured
        #[arg(short = 'o', long, value_name = "PORTS")]
        text istio_local_outbound_ports_exclude,
        /// Links to virtual machines: what arrives there counts as leaving
        #[arg(short = 'k', long, value_name = "LINK,…")]
        text kube_virt_interfaces,
        /// Mark of transparently captured packets [default: 1337]
        #[arg(short = 't', long, value_name = "MARK")]
        text istio_inbound_tproxy_mark,
        /// Route table of transparently captured packets [default: 133]
        #[arg(short = 'r', long, value_name = "TABLE")]
        text istio_inbound_tproxy_route_table,
        /// Port that the validation connects to [default: 15002]
        #[arg(long, value_name = "PORT")]
        text iptables_probe_port,
        /// How long the validation may take [default: 5s]
        #[arg(long, value_name = "DURATION")]
        text probe_timeout,
        /// Network namespace to work in, as a path
        #[arg(long, value_name = "PATH")]
        text network_namespace,
        /// Use this iptables, whatever the namespace holds: nft or legacy
        #[arg(long, value_name = "KIND")]
        text force_iptables_binary,
        ;
        /// Print what would be done and do nothing
        #[arg(short = 'n', long)]
        switch dry_run,
        /// Leave the rules alone; for validation only
        #[arg(long)]
        switch skip_rule_apply,
        /// Check that connections are redirected; fails with code 126
        #[arg(long)]
        switch run_validation,
        /// Capture name lookups, for the agent [also: $ISTIO_META_DNS_CAPTURE]
        #[arg(long)]
        switch redirect_dns,
        /// Capture lookups to any server, not only to those in resolv.conf
        #[arg(long)]
        switch capture_all_dns,
        /// Drop packets that belong to no connection [also: $INVALID_DROP]
        #[arg(long)]
        switch drop_invalid,
        /// Both IPv4 and IPv6 rules where there are both addresses [also: $ISTIO_DUAL_STACK]
        #[arg(long)]
        switch dual_stack,
        /// Run by a CNI plugin on the node: lock the namespace, not the node
        #[arg(long)]
        switch cni_mode,
        /// Replace rules of another configuration instead of failing
        #[arg(long)]
        switch reconcile,
        /// Remove the rules and add none
        #[arg(long)]
        switch cleanup_only,
        /// Write the rules even if they are in place
        #[arg(long)]
        switch force_apply,
        /// Use nftables, not iptables
        #[arg(long)]
        switch native_nftables,
    }
}

switches! {
    #[derive(Debug, Default, Args)]
    pub(crate) struct CleanIptables {
        /// Users that the rules were made for [default: that of $ENVOY_USER, or 1337]
        #[arg(short = 'u', long, value_name = "UID,…")]
        text proxy_uid,
        /// Groups that the rules were made for [default: as --proxy-uid]
        #[arg(short = 'g', long, value_name = "GID,…")]
        text proxy_gid,
        ;
        /// Print what would be done and do nothing
        #[arg(short = 'n', long)]
        switch dry_run,
        /// The rules captured name lookups; all are removed either way
        #[arg(long)]
        switch redirect_dns,
        /// The rules captured all name lookups; all are removed either way
        #[arg(long)]
        switch capture_all_dns,
    }
}

/// The spellings that Go's programs take for a truth value.
pub(crate) fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("is not true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cli, Command};
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn switches_take_a_value_after_an_equals_sign_only() {
        let parse = |args: &[&str]| {
            let all = ["pilot-agent", "istio-iptables"].into_iter().chain(args.iter().copied());
            match Cli::try_parse_from(all).map(|cli| cli.command) {
                Ok(Command::Iptables(args)) => Some((args.dry_run, args.reconcile)),
                _ => None,
            }
        };
        assert_eq!(parse(&[]), Some((None, None)));
        assert_eq!(parse(&["-n", "--reconcile=false"]), Some((Some(true), Some(false))));
        assert_eq!(
            parse(&["-n=T", "--reconcile", "--reconcile=0"]),
            Some((Some(true), Some(false)))
        );
        assert_eq!(parse(&["--reconcile", "false"]), None);
        assert_eq!(parse(&["--reconcile=maybe"]), None);
    }
}
