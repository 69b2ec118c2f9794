//! `WorkloadEntry` and `WorkloadGroup`: workloads outside of Kubernetes.

use std::collections::BTreeMap;

use crate::wire::{message, oneof};

message! {
    /// A workload outside of Kubernetes, such as a virtual machine.
    pub struct WorkloadEntry
        => rule("Address is required", "has(self.address) || has(self.network)")
        .rule("UDS may not include ports",
            r#"(has(self.address) ? self.address : "").startsWith("unix://") ? !has(self.ports) : true"#)
    {
        /// Its address, or a name for DNS, or unix:// and a path.
        pub address: String => max_len(256)
            .rule("UDS must be an absolute path or abstract socket",
                r#"self.startsWith("unix://") ? (self.substring(7, 8) == "/" || self.substring(7, 8) == "@") : true"#)
            .rule("UDS may not be a dir",
                r#"self.startsWith("unix://") ? !self.endsWith("/") : true"#),
        /// Its ports by name of the service's port.
        pub ports: BTreeMap<String, u32> => max_keys(128)
            .rule("port name must be valid",
                r#"self.all(key, size(key) < 63 && key.matches("^[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?$"))"#)
            .each(crate::wire::Node::port),
        /// Its labels.
        pub labels: BTreeMap<String, String> => max_keys(256),
        /// Network that the address belongs to.
        pub network: String => max_len(2048),
        /// Place: region/zone/subzone.
        pub locality: String => max_len(2048),
        /// Share of traffic relative to others.
        pub weight: u32,
        /// Service account that it runs as.
        pub service_account: String => max_len(253),
    }

    /// What a kind of workloads outside of Kubernetes has in common.
    pub struct WorkloadGroup {
        /// Labels and annotations of the entries.
        pub metadata: Option<ObjectMeta>,
        /// What an entry looks like.
        pub template: Option<WorkloadEntry> => required()
            .without(&["x-kubernetes-validations"])
            .rule("UDS may not include ports",
                r#"(has(self.address) ? self.address : "").startsWith("unix://") ? !has(self.ports) : true"#),
        /// How it is known to be ready.
        pub probe: Option<ReadinessProbe>,
    }

    /// Labels and annotations.
    pub struct ObjectMeta {
        /// Labels.
        pub labels: BTreeMap<String, String> => max_keys(256),
        /// Annotations.
        pub annotations: BTreeMap<String, String> => max_keys(256),
    }

    /// How a workload is known to be ready.
    pub struct ReadinessProbe {
        /// Seconds before the first look.
        pub initial_delay_seconds: i32 => min(0),
        /// Seconds that a look may take.
        pub timeout_seconds: i32 => min(0),
        /// Seconds between looks.
        pub period_seconds: i32 => min(0),
        /// Good looks in a row before it counts as ready.
        pub success_threshold: i32 => min(0),
        /// Bad looks in a row before it does not.
        pub failure_threshold: i32 => min(0),
        /// The look itself.
        pub method: HealthCheckMethod,
    }

    /// A GET that must succeed.
    pub struct HttpHealthCheck {
        /// Path.
        pub path: String,
        /// Port.
        pub port: u32 => required().port(),
        /// Host.
        pub host: String,
        /// HTTP or HTTPS.
        pub scheme: String
            => rule("scheme must be one of [HTTP, HTTPS]", r#"self in ["", "HTTP", "HTTPS"]"#),
        /// Headers.
        pub http_headers: Vec<HttpHeader>,
    }

    /// A header of a request.
    pub struct HttpHeader {
        /// Its name.
        pub name: String => pattern("^[-_A-Za-z0-9]+$"),
        /// Its value.
        pub value: String,
    }

    /// A connection that must succeed.
    pub struct TcpHealthCheck {
        /// Host.
        pub host: String,
        /// Port.
        pub port: u32 => required().port(),
    }

    /// A program that must succeed.
    pub struct ExecHealthCheck {
        /// The program and its arguments.
        pub command: Vec<String> => required().each(|word| word.min_len(1)),
    }

    /// A gRPC health check that must succeed.
    pub struct GrpcHealthCheck {
        /// Port.
        pub port: u32 => port(),
        /// Service to ask for.
        pub service: String,
    }
}

oneof! {
    /// How readiness is looked at.
    pub enum HealthCheckMethod {
        /// A GET.
        HttpGet(HttpHealthCheck) = http_get,
        /// A connection.
        TcpSocket(TcpHealthCheck) = tcp_socket,
        /// A program.
        Exec(ExecHealthCheck) = exec,
        /// A gRPC health check.
        Grpc(GrpcHealthCheck) = grpc,
    }
}
