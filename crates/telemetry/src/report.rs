//! From what is known of a request or connection to the values of its labels.

use std::borrow::Cow;

use crate::config::{Reporter, Service};
use crate::label::{Label, NAMES};
use crate::peer::{MOST_VALUE, Peer, UNKNOWN, namespace_of};

/// All that labels are made of. Empty texts are not known.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub reporter: Reporter,
    /// The proxy's own workload.
    pub local: &'a Peer,
    pub peer: Option<&'a Peer>,
    /// Of the service's metadata or the cluster's name.
    pub service: Option<&'a Service>,
    pub cluster: &'a str,
    pub route: &'a str,
    /// The request's `:authority`; looked at from a client's side only.
    pub host: &'a str,
    pub source_principal: &'a str,
    pub destination_principal: &'a str,
    pub protocol: &'static str,
    /// The connection to this proxy is mutual TLS.
    pub mutual_tls: bool,
    pub response_code: &'a str,
    pub grpc_status: &'a str,
    pub response_flags: &'a str,
}

/// Clusters that stand for no service and name themselves.
fn is_nobodys(cluster: &str) -> bool {
    matches!(cluster, "PassthroughCluster" | "BlackHoleCluster")
        || cluster.starts_with("InboundPassthroughCluster")
}

/// The values in the order of [`NAMES`].
pub fn labels<'a>(facts: &Facts<'a>) -> [Cow<'a, str>; NAMES.len()] {
    let mut out = [const { Cow::Borrowed(UNKNOWN) }; NAMES.len()];
    let mut put = |label: Label, value: &'a str| {
        if !value.is_empty() {
            out[label as usize] = bounded(value);
        }
    };
    put(Label::Reporter, facts.reporter.name());
    let (source, destination) = match facts.reporter {
        Reporter::Source => (Some(facts.local), facts.peer),
        Reporter::Destination | Reporter::Waypoint => (facts.peer, Some(facts.local)),
    };
    if let Some(peer) = source {
        put(Label::SourceWorkload, &peer.workload);
        put(Label::SourceCanonicalService, &peer.canonical_service);
        put(Label::SourceCanonicalRevision, &peer.canonical_revision);
        put(Label::SourceWorkloadNamespace, &peer.namespace);
        put(Label::SourceApp, &peer.app);
        put(Label::SourceVersion, &peer.version);
        put(Label::SourceCluster, &peer.cluster);
    }
    if let Some(peer) = destination {
        put(Label::DestinationWorkload, &peer.workload);
        put(Label::DestinationWorkloadNamespace, &peer.namespace);
        put(Label::DestinationApp, &peer.app);
        put(Label::DestinationVersion, &peer.version);
        put(Label::DestinationCanonicalService, &peer.canonical_service);
        put(Label::DestinationCanonicalRevision, &peer.canonical_revision);
        put(Label::DestinationCluster, &peer.cluster);
    }
    // What a certificate proves is stronger than what a peer says.
    put(Label::SourcePrincipal, facts.source_principal);
    put(Label::DestinationPrincipal, facts.destination_principal);
    let proved = |principal: &'a str| namespace_of(principal).unwrap_or_default();
    put(Label::SourceWorkloadNamespace, proved(facts.source_principal));
    put(Label::DestinationWorkloadNamespace, proved(facts.destination_principal));
    service(facts, destination, &mut put);
    put(Label::RequestProtocol, facts.protocol);
    put(Label::ResponseFlags, facts.response_flags);
    let security = match (facts.reporter, facts.mutual_tls) {
        // A client does not know what its server takes for proved.
        (Reporter::Source, _) => UNKNOWN,
        (_, true) => "mutual_tls",
        (_, false) => "none",
    };
    put(Label::ConnectionSecurityPolicy, security);
    put(Label::ResponseCode, facts.response_code);
    out[Label::GrpcResponseStatus as usize] = bounded(facts.grpc_status);
    out
}

fn service<'a>(
    facts: &Facts<'a>,
    destination: Option<&'a Peer>,
    put: &mut impl FnMut(Label, &'a str),
) {
    let outgoing = facts.reporter == Reporter::Source;
    if let Some(service) = facts.service {
        put(Label::DestinationService, &service.host);
        put(Label::DestinationServiceName, &service.name);
        put(Label::DestinationServiceNamespace, &service.namespace);
        return;
    }
    let name = match (facts.cluster, facts.route) {
        (cluster, _) if is_nobodys(cluster) => cluster,
        ("", "block_all") => "BlackHoleCluster",
        ("", "allow_any") => "PassthroughCluster",
        _ => "",
    };
    // A server must not count by a header that anybody can fill.
    if outgoing {
        put(Label::DestinationService, facts.host);
        put(Label::DestinationServiceName, facts.host);
    }
    put(Label::DestinationServiceName, name);
    if let Some(peer) = destination {
        put(Label::DestinationServiceNamespace, &peer.namespace);
    }
}

fn bounded(value: &str) -> Cow<'_, str> {
    if value.len() <= MOST_VALUE {
        return Cow::Borrowed(value);
    }
    let mut end = MOST_VALUE;
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Borrowed(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts<'a>(reporter: Reporter, local: &'a Peer) -> Facts<'a> {
        Facts {
            reporter,
            local,
            peer: None,
            service: None,
            cluster: "",
            route: "",
            host: "",
            source_principal: "",
            destination_principal: "",
            protocol: "http",
            mutual_tls: false,
            response_code: "200",
            grpc_status: "",
            response_flags: "-",
        }
    }

    fn value<'a>(labels: &'a [Cow<'_, str>; 25], label: Label) -> &'a str {
        &labels[label as usize]
    }

    #[test]
    fn a_client_reports_itself_and_what_it_knows_of_the_server() {
        let local = Peer { workload: "curl".into(), namespace: "a".into(), ..Peer::default() };
        let peer = Peer::from_endpoint("web-v1;b;web;v1;c").unwrap();
        let service =
            Service { host: "web.b.svc".into(), name: "web".into(), namespace: "b".into() };
        let labels = labels(&Facts {
            peer: Some(&peer),
            service: Some(&service),
            host: "other",
            mutual_tls: true,
            ..facts(Reporter::Source, &local)
        });
        assert_eq!(value(&labels, Label::Reporter), "source");
        assert_eq!(value(&labels, Label::SourceWorkload), "curl");
        assert_eq!(value(&labels, Label::DestinationWorkload), "web-v1");
        assert_eq!(value(&labels, Label::DestinationService), "web.b.svc");
        assert_eq!(value(&labels, Label::DestinationApp), UNKNOWN);
        assert_eq!(value(&labels, Label::ConnectionSecurityPolicy), UNKNOWN);
        assert_eq!(value(&labels, Label::GrpcResponseStatus), "");
    }

    #[test]
    fn a_namespace_comes_from_the_certificate_and_not_from_what_a_client_says() {
        let local = Peer::default();
        let peer = Peer { namespace: "victim".into(), workload: "x".into(), ..Peer::default() };
        let labels = labels(&Facts {
            peer: Some(&peer),
            source_principal: "spiffe://cluster.local/ns/real/sa/y",
            mutual_tls: true,
            ..facts(Reporter::Destination, &local)
        });
        assert_eq!(value(&labels, Label::SourceWorkloadNamespace), "real");
        assert_eq!(value(&labels, Label::ConnectionSecurityPolicy), "mutual_tls");
    }

    #[test]
    fn a_host_header_names_the_service_only_from_a_client_s_side() {
        let local = Peer::default();
        let out = labels(&Facts {
            host: "example.com",
            cluster: "PassthroughCluster",
            ..facts(Reporter::Source, &local)
        });
        assert_eq!(value(&out, Label::DestinationService), "example.com");
        assert_eq!(value(&out, Label::DestinationServiceName), "PassthroughCluster");
        let inbound = labels(&Facts {
            host: "example.com",
            cluster: "InboundPassthroughCluster",
            ..facts(Reporter::Destination, &local)
        });
        assert_eq!(value(&inbound, Label::DestinationService), UNKNOWN);
        assert_eq!(value(&inbound, Label::DestinationServiceName), "InboundPassthroughCluster");
        let blocked = labels(&Facts {
            host: "example.com",
            route: "block_all",
            ..facts(Reporter::Source, &local)
        });
        assert_eq!(value(&blocked, Label::DestinationServiceName), "BlackHoleCluster");
    }

    #[test]
    fn long_values_are_cut() {
        let local = Peer::default();
        let host = "x".repeat(5000);
        let out = labels(&Facts { host: &host, ..facts(Reporter::Source, &local) });
        assert_eq!(value(&out, Label::DestinationService).len(), MOST_VALUE);
    }
}
