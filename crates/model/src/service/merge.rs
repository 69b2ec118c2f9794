//! One service from all the objects that declare the same host in the same namespace.
//!
//! A Kubernetes Service decides over ServiceEntries, which then only add endpoints; of several
//! entries the oldest decides, and the others add ports if they agree with it in all else.

use ironsail_api::{ClusterId, Code, Diagnostic, ObjectKey, Severity};

use super::{Registry, Service};

/// A host that is declared twice, differently.
const CLASH: Code = Code("IRN0101");

/// `drafts` may come in any order; None if there are none. Entries that are left out are named by
/// diagnostics and are not among the sources.
pub(crate) fn merge(
    mut drafts: Vec<Service>,
    own: &ClusterId,
) -> (Option<Service>, Vec<Diagnostic>) {
    let mut notes = Vec::new();
    drafts.sort_by(|a, b| rank(a, own).cmp(&rank(b, own)));
    let mut drafts = drafts.into_iter();
    let Some(mut service) = drafts.next() else { return (None, notes) };
    for other in drafts {
        match (service.registry, other.registry) {
            (Registry::Kubernetes, Registry::Kubernetes) => {
                service.cluster_addresses.extend(other.cluster_addresses);
                service.service_accounts.extend(other.service_accounts);
                service.sources.extend(other.sources);
            }
            (Registry::Kubernetes, Registry::ServiceEntry) if !other.external => {
                service.subject_alt_names.extend(other.subject_alt_names);
                service.sources.extend(other.sources);
            }
            (Registry::ServiceEntry, Registry::ServiceEntry) if agree(&service, &other) => {
                add_ports(&mut service, &other, &mut notes);
                service.subject_alt_names.extend(other.subject_alt_names);
                service.sources.extend(other.sources);
            }
            _ => notes.extend(clash(&other, &service)),
        }
    }
    (Some(service), notes)
}

/// Kubernetes first, the own cluster before others, then the oldest.
fn rank<'a>(
    service: &'a Service,
    own: &ClusterId,
) -> (Registry, bool, Option<jiff::Timestamp>, Option<&'a ObjectKey>) {
    let source = service.sources.first();
    let foreign = source.is_some_and(|source| source.cluster != *own);
    (service.registry, foreign, service.created, source)
}

fn agree(a: &Service, b: &Service) -> bool {
    a.resolution == b.resolution
        && a.external == b.external
        && a.export_to == b.export_to
        && a.selector == b.selector
        && a.labels == b.labels
}

fn add_ports(service: &mut Service, other: &Service, notes: &mut Vec<Diagnostic>) {
    for port in &other.ports {
        let taken =
            service.ports.iter().find(|own| own.number == port.number || own.name == port.name);
        match taken {
            None => service.ports.push(port.clone()),
            Some(own) if own == port => {}
            Some(_) => {
                let message = format!(
                    "port {} {:?} of host {} is declared otherwise by {}",
                    port.number,
                    port.name,
                    service.key.hostname,
                    first(service),
                );
                notes.extend(about(other, message));
            }
        }
    }
    for address in &other.addresses {
        if !service.addresses.contains(address) {
            service.addresses.push(*address);
        }
    }
}

fn clash(loser: &Service, winner: &Service) -> Option<Diagnostic> {
    about(
        loser,
        format!("host {} is declared by {}, which decides", winner.key.hostname, first(winner)),
    )
}

fn first(service: &Service) -> String {
    service.sources.first().map(ToString::to_string).unwrap_or_default()
}

fn about(service: &Service, message: String) -> Option<Diagnostic> {
    service.sources.first().map(|source| Diagnostic {
        code: CLASH,
        severity: Severity::Warning,
        kind: source.kind,
        namespace: source.namespace.to_string(),
        name: source.name.to_string(),
        field: Some("spec.hosts".to_owned()),
        message,
    })
}
