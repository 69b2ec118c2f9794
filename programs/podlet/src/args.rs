//! The command line, and what is wrong with it, all at once.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use ipnet::IpNet;

#[derive(Parser)]
#[command(
    name = "podlet",
    version,
    about = "A node without a cluster: ordinary Kubernetes manifests on one Linux machine",
    after_help = "\
Examples:
  podlet run --data ~/.podlet --kubeconfig ~/.podlet/kubeconfig --image-map images.yaml
  export KUBECONFIG=~/.podlet/kubeconfig
  kubectl apply -f app.yaml"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run in the foreground until SIGTERM or Ctrl-C, which stop every pod gracefully.
    Run(Box<Run>),
}

#[derive(clap::Args)]
pub(crate) struct Run {
    /// Folder for all state; made where missing. What is in it survives a restart.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// File to write, once everything is ready, with the address and credentials of the API.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// How many nodes to run pods on.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) nodes: u16,
    /// What image names stand for on this machine (YAML).
    #[arg(long, value_name = "FILE")]
    pub(crate) image_map: Option<PathBuf>,
    /// Addresses of pods; give one of each family for dual stack.
    #[arg(long = "pod-cidr", value_name = "CIDR", value_delimiter = ',')]
    pub(crate) pod_cidrs: Vec<IpNet>,
    /// Addresses of Services; give one of each family for dual stack.
    #[arg(long = "service-cidr", value_name = "CIDR", value_delimiter = ',')]
    pub(crate) service_cidrs: Vec<IpNet>,
    /// IPv6 beside IPv4, with the usual ranges where none are given.
    #[arg(long)]
    pub(crate) dual_stack: bool,
    /// Let pods reach the world outside this machine (TCP, and DNS names). Off: nothing leaves.
    #[arg(long)]
    pub(crate) egress: bool,
    /// Where the API listens on this machine; only loopback addresses. Port 0 takes a free one, and
    /// the same again after a restart.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Hosts beside the nodes that play the outside world (YAML).
    #[arg(long, value_name = "FILE")]
    pub(crate) outside: Option<PathBuf>,
    /// Run the CNI plugin chain configured here for every pod. A plugin with the capability ipRanges
    /// is told the ranges of its node, so that one configuration serves several nodes.
    #[arg(long, value_name = "DIR")]
    pub(crate) cni_conf_dir: Option<PathBuf>,
    /// Where CNI plugins are.
    #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin", value_delimiter = ':')]
    pub(crate) cni_bin_dir: Vec<PathBuf>,
    /// Zones that nodes are spread over, in turn; the region is the part before the last dash.
    #[arg(long, value_name = "ZONES", value_delimiter = ',', default_value = "local-a")]
    pub(crate) zones: Vec<String>,
    /// Log levels: a level, or scope:level,…
    #[arg(long, default_value = "info", value_name = "LEVELS")]
    pub(crate) log_output_level: String,
    /// Log as JSON.
    #[arg(long)]
    pub(crate) log_as_json: bool,
}

impl Run {
    /// Everything that can be seen to be wrong before anything is started.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.listen.ip().is_loopback() {
            faults.push(format!("--listen {}: the API listens on loopback only", self.listen));
        }
        for (flag, cidrs) in
            [("--pod-cidr", &self.pod_cidrs), ("--service-cidr", &self.service_cidrs)]
        {
            let v4 = cidrs.iter().filter(|c| matches!(c, IpNet::V4(_))).count();
            if cidrs.len() > 2 || (cidrs.len() == 2 && v4 != 1) || (cidrs.len() == 1 && v4 == 0) {
                faults.push(format!("{flag}: give one IPv4 range, and at most one IPv6 range"));
            }
        }
        for (flag, file) in [("--image-map", &self.image_map), ("--outside", &self.outside)] {
            if let Some(file) = file
                && let Err(error) = std::fs::metadata(file)
            {
                faults.push(format!("{flag} {}: {error}", file.display()));
            }
        }
        if self.zones.iter().any(String::is_empty) {
            faults.push("--zones: a zone has no name".to_owned());
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(more: &[&str]) -> Run {
        let args = ["podlet", "run", "--data", "d", "--kubeconfig", "k"];
        let args = args.into_iter().chain(more.iter().copied());
        let Command::Run(run) = Args::try_parse_from(args).unwrap().command;
        *run
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let faults =
            run(&["--listen", "0.0.0.0:1", "--pod-cidr", "fd00::/64", "--image-map", "/no/such"])
                .faults();
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(run(&[]).faults().is_empty());
    }

    #[test]
    fn the_help_can_be_built() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
