//! `Sidecar`: what a workload sees of the mesh, and how traffic reaches it.

use super::{ConnectionPoolSettings, Destination, LabelSelector, ServerTlsSettings};
use crate::wire::{choice, message};

message! {
    /// What workloads see of the mesh, and how traffic reaches them.
    pub struct Sidecar {
        /// Workloads that it is for; all of the namespace if left out.
        pub workload_selector: Option<LabelSelector>,
        /// How traffic reaches the workload.
        pub ingress: Vec<IstioIngressListener>,
        /// What the workload sees.
        pub egress: Vec<IstioEgressListener>,
        /// Limits of connections to the workload.
        pub inbound_connection_pool: Option<ConnectionPoolSettings>,
        /// What happens to traffic to unknown places.
        pub outbound_traffic_policy: Option<OutboundTrafficPolicy>,
    }

    /// A port that the workload is reached at.
    pub struct IstioIngressListener {
        /// The port.
        pub port: Option<SidecarPort> => required(),
        /// Address to listen on.
        pub bind: String,
        /// How traffic comes to the listener.
        pub capture_mode: CaptureMode,
        /// Where the application listens.
        pub default_endpoint: String,
        /// TLS of the port.
        pub tls: Option<ServerTlsSettings>,
        /// Limits of connections to the port.
        pub connection_pool: Option<ConnectionPoolSettings>,
    }

    /// What the workload sees, on one port or all.
    pub struct IstioEgressListener {
        /// The port; all if left out.
        pub port: Option<SidecarPort>,
        /// Address to listen on.
        pub bind: String,
        /// How traffic comes to the listener.
        pub capture_mode: CaptureMode,
        /// Services as namespace/host.
        pub hosts: Vec<String> => required(),
    }

    /// A port of a listener.
    pub struct SidecarPort {
        /// Number of the port.
        pub number: u32,
        /// Protocol of the port.
        pub protocol: String,
        /// Name of the port.
        pub name: String,
        /// Not used.
        pub target_port: u32,
    }

    /// What happens to traffic to unknown places.
    pub struct OutboundTrafficPolicy {
        /// Refuse or let through.
        pub mode: OutboundMode,
        /// Gateway that it goes through.
        pub egress_proxy: Option<Destination>,
    }
}

choice! {
    /// How traffic comes to a listener.
    pub enum CaptureMode {
        Default = "DEFAULT",
        Iptables = "IPTABLES",
        None = "NONE",
    }

    /// Traffic to unknown places.
    pub enum OutboundMode {
        RegistryOnly = "REGISTRY_ONLY",
        AllowAny = "ALLOW_ANY",
    }
}
