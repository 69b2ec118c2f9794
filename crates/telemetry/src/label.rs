//! The labels of the standard metrics, in one order for all of them.

/// A label of a standard metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Label {
    Reporter,
    SourceWorkload,
    SourceCanonicalService,
    SourceCanonicalRevision,
    SourceWorkloadNamespace,
    SourcePrincipal,
    SourceApp,
    SourceVersion,
    SourceCluster,
    DestinationWorkload,
    DestinationWorkloadNamespace,
    DestinationPrincipal,
    DestinationApp,
    DestinationVersion,
    DestinationService,
    DestinationCanonicalService,
    DestinationCanonicalRevision,
    DestinationServiceName,
    DestinationServiceNamespace,
    DestinationCluster,
    RequestProtocol,
    ResponseFlags,
    ConnectionSecurityPolicy,
    ResponseCode,
    GrpcResponseStatus,
}

/// Of all labels, in the order of [`Label`].
pub const NAMES: [&str; 25] = [
    "reporter",
    "source_workload",
    "source_canonical_service",
    "source_canonical_revision",
    "source_workload_namespace",
    "source_principal",
    "source_app",
    "source_version",
    "source_cluster",
    "destination_workload",
    "destination_workload_namespace",
    "destination_principal",
    "destination_app",
    "destination_version",
    "destination_service",
    "destination_canonical_service",
    "destination_canonical_revision",
    "destination_service_name",
    "destination_service_namespace",
    "destination_cluster",
    "request_protocol",
    "response_flags",
    "connection_security_policy",
    "response_code",
    "grpc_response_status",
];

/// How many of them a connection has: all but those of a response.
pub const OF_TCP: usize = 23;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_stand_in_one_order() {
        assert_eq!(NAMES[Label::Reporter as usize], "reporter");
        assert_eq!(NAMES[Label::SourceCluster as usize], "source_cluster");
        assert_eq!(NAMES[Label::DestinationService as usize], "destination_service");
        assert_eq!(NAMES[Label::ConnectionSecurityPolicy as usize], "connection_security_policy");
        assert_eq!(NAMES[Label::GrpcResponseStatus as usize], "grpc_response_status");
        assert_eq!(NAMES[OF_TCP], "response_code");
    }
}
