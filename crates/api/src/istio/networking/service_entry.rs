//! `ServiceEntry`: a service that Kubernetes does not know.

use super::{LabelSelector, WorkloadEntry};
use crate::wire::{choice, message};

message! {
    /// A service that Kubernetes does not know, or knows otherwise.
    pub struct ServiceEntry
        => rule("only one of WorkloadSelector or Endpoints can be set",
            "(has(self.workloadSelector) ? 1 : 0) + (has(self.endpoints) ? 1 : 0) <= 1")
        .rule("CIDR addresses are allowed only for NONE/STATIC resolution types",
            r#"!((has(self.addresses) ? self.addresses : []).exists(k, k.contains("/")) && !((has(self.resolution) ? self.resolution : "NONE") in ["STATIC", "NONE"]))"#)
        .rule("NONE mode cannot set endpoints",
            r#"((has(self.resolution) ? self.resolution : "NONE") == "NONE") ? !has(self.endpoints) : true"#)
        .rule("DNS_ROUND_ROBIN mode cannot have multiple endpoints",
            r#"((has(self.resolution) ? self.resolution : "") == "DNS_ROUND_ROBIN") ? ((has(self.endpoints) ? self.endpoints : []).size() <= 1) : true"#)
    {
        /// Hosts of the service.
        pub hosts: Vec<String> => required().min_items(1).max_items(256)
            .each(|host| host.rule("hostname cannot be wildcard", r#"self != "*""#)),
        /// Virtual addresses, or ranges of them.
        pub addresses: Vec<String> => max_items(256).each(|address| address.max_len(64)),
        /// Ports of the service.
        pub ports: Vec<ServicePort> => max_items(256).keyed_by("name")
            .rule("port number cannot be duplicated",
                "self.all(l1, self.exists_one(l2, l1.number == l2.number))"),
        /// Part of the mesh or not.
        pub location: Location,
        /// How addresses of endpoints are found.
        pub resolution: Resolution,
        /// The endpoints.
        pub endpoints: Vec<WorkloadEntry> => max_items(4096).each(|endpoint| endpoint
            .without(&["x-kubernetes-validations"])
            .rule("Address is required", "has(self.address) || has(self.network)")
            .rule("UDS may not include ports",
                r#"(has(self.address) ? self.address : "").startsWith("unix://") ? !has(self.ports) : true"#)),
        /// Pods and WorkloadEntries that are the endpoints.
        pub workload_selector: Option<LabelSelector>,
        /// Namespaces that the service is visible in.
        pub export_to: Vec<String>,
        /// Names that the servers' certificates may have.
        pub subject_alt_names: Vec<String>,
    }

    /// A port of a service.
    pub struct ServicePort {
        /// Number of the port.
        pub number: u32 => required().port(),
        /// HTTP, HTTPS, GRPC, HTTP2, MONGO, TCP or TLS.
        pub protocol: String => max_len(256),
        /// Name of the port.
        pub name: String => required().max_len(256),
        /// Port of the endpoints, if another one.
        pub target_port: u32 => port(),
    }
}

choice! {
    /// Part of the mesh or not.
    pub enum Location {
        MeshExternal = "MESH_EXTERNAL",
        MeshInternal = "MESH_INTERNAL",
    }

    /// How addresses of endpoints are found.
    pub enum Resolution {
        None = "NONE",
        Static = "STATIC",
        Dns = "DNS",
        DnsRoundRobin = "DNS_ROUND_ROBIN",
        DynamicDns = "DYNAMIC_DNS",
    }
}
