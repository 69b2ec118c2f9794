//! What a node is told when it starts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ironsail_sys::clock::Clock;

use crate::cni;
use crate::etc::ClusterDns;
use crate::log;
use crate::pod::backoff;
use crate::security::Ids;

/// The settings of one node. Nothing in it changes while the node runs.
#[derive(Clone, Debug)]
pub struct Config {
    pub node: NodeConfig,
    /// Holds `pods/` and `logs/` of this node and nothing else.
    pub data: PathBuf,
    /// Paths that containers on the host's root must not see, such as podlet's own data.
    pub masked: Vec<PathBuf>,
    pub image_map: Option<PathBuf>,
    pub dns: ClusterDns,
    /// The resolv.conf and hosts file of the node, for pods that use its network or DNS.
    pub resolv_conf: PathBuf,
    pub hosts: PathBuf,
    pub backoff: backoff::Limits,
    pub log: log::writer::Limits,
    pub cni: Option<cni::Config>,
    pub ids: Ids,
    pub clock: Clock,
}

/// How the node shows itself in the API.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub name: String,
    /// Beside those every node has: zone, region, and what the user wants.
    pub labels: BTreeMap<String, String>,
    pub pod_cidrs: Vec<String>,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub max_pods: u32,
    pub machine_id: String,
    pub boot_id: String,
    pub kernel_version: String,
    pub os_image: String,
}

impl Config {
    /// The usual settings for a node called `name` that keeps its files in `data`.
    pub fn new(name: impl Into<String>, data: impl Into<PathBuf>, dns: ClusterDns) -> Self {
        Self {
            node: NodeConfig::new(name),
            data: data.into(),
            masked: Vec::new(),
            image_map: None,
            dns,
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            hosts: PathBuf::from("/etc/hosts"),
            backoff: backoff::Limits::KUBERNETES,
            log: log::writer::Limits::default(),
            cni: None,
            ids: Ids::of_process(),
            clock: Clock::system(),
        }
    }
}

impl NodeConfig {
    /// A node that offers what this machine has.
    pub fn new(name: impl Into<String>) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let memory = read("/proc/meminfo").lines().find_map(|l| {
            l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        });
        let os = read("/etc/os-release");
        let os = os
            .lines()
            .find_map(|l| Some(l.strip_prefix("PRETTY_NAME=")?.trim_matches('"').to_owned()));
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            pod_cidrs: Vec::new(),
            cpus: std::thread::available_parallelism()
                .map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)),
            memory_bytes: memory.unwrap_or(1 << 20) * 1024,
            max_pods: 250,
            machine_id: read("/etc/machine-id"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            kernel_version: read("/proc/sys/kernel/osrelease"),
            os_image: os.unwrap_or_else(|| "Linux".to_owned()),
        }
    }
}
