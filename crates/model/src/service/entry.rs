//! Services that ServiceEntries declare: one for each host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use ironsail_api::istio::networking as net;
use ironsail_api::{Code, Diagnostic, Kind, ObjectKey, Resource, Severity};
use ironsail_names::{Hostname, Namespace};

use super::{
    Registry, Resolution, Service, ServiceKind, ServicePort, TargetPort, TrafficDistribution,
};
use crate::mesh::Mesh;
use crate::{Protocol, ServiceKey, Visibility};

/// Set to `false`, no address is given to the entry.
const ALLOCATE: &str = "networking.istio.io/enable-autoallocate-ip";

/// The services that an entry is about, each once. Hosts that are no names are none.
pub(crate) fn keys(key: &ObjectKey, object: &Resource<net::ServiceEntry>) -> BTreeSet<ServiceKey> {
    let Ok(namespace) = key.namespace.parse::<Namespace>() else { return BTreeSet::new() };
    let hosts = object.spec.hosts.iter().filter_map(|host| host.parse::<Hostname>().ok());
    hosts.map(|hostname| ServiceKey { hostname, namespace: namespace.clone() }).collect()
}

/// The service for one of the entry's hosts, and what is odd about it.
pub(crate) fn convert(
    object_key: &ObjectKey,
    key: &ServiceKey,
    object: &Resource<net::ServiceEntry>,
    mesh: &Mesh,
) -> (Service, Vec<Diagnostic>) {
    let spec = &object.spec;
    let mut notes = Vec::new();
    let mut note = |field: String, message: String| {
        let note = Diagnostic::new(
            Code::SCHEMA,
            Severity::Warning,
            Kind::ServiceEntry,
            &object.meta,
            message,
        );
        notes.push(note.at(field));
    };
    let (addresses, ranges, bad) = addresses(spec);
    for index in bad {
        note(format!("spec.addresses[{index}]"), "it is no address".to_owned());
    }
    let defaults = &mesh.config.default_service_export_to;
    let (export_to, bad) = Visibility::parse(&spec.export_to, defaults, &key.namespace);
    for item in bad {
        note("spec.exportTo".into(), format!("{item:?} names no namespace"));
    }
    let ports = spec.ports.iter().enumerate().filter_map(|(index, port)| {
        let converted = convert_port(port);
        if converted.is_none() {
            note(format!("spec.ports[{index}].number"), format!("{} is no port", port.number));
        }
        converted
    });
    let ports = ports.collect();
    let selector =
        spec.workload_selector.as_ref().map(|selector| Arc::new(selector.labels.clone()));
    let service = Service {
        key: key.clone(),
        name: key.hostname.as_str().into(),
        registry: Registry::ServiceEntry,
        sources: vec![object_key.clone()],
        created: object.meta.created,
        addresses,
        ranges,
        auto_addresses: given(key, object),
        cluster_addresses: BTreeMap::new(),
        external_addresses: Vec::new(),
        ports,
        resolution: resolution(spec.resolution),
        external: spec.location == net::Location::MeshExternal,
        alias: None,
        export_to,
        labels: Arc::new(object.meta.labels.clone()),
        annotations: super::own_annotations(&object.meta.annotations),
        selector,
        subject_alt_names: spec.subject_alt_names.iter().cloned().collect(),
        service_accounts: BTreeSet::new(),
        publish_not_ready: false,
        distribution: TrafficDistribution::Any,
        node_local: false,
        sticky: false,
        kind: ServiceKind::Entry,
        digest: 0,
    };
    (service, notes)
}

/// The addresses that the entry's host was given before, as its status says; IPv4 first.
fn given(key: &ServiceKey, object: &Resource<net::ServiceEntry>) -> Vec<IpAddr> {
    let addresses = object.observed.addresses.iter();
    let own = addresses.filter(|(host, _)| host.is_empty() || host == key.hostname.as_str());
    let mut own: Vec<IpAddr> = own.map(|(_, address)| *address).collect();
    own.sort();
    own.dedup();
    own
}

/// Single addresses, blocks, and the places of what is neither.
fn addresses(spec: &net::ServiceEntry) -> (Vec<IpAddr>, Vec<IpNet>, Vec<usize>) {
    let (mut addresses, mut ranges, mut bad) = (Vec::new(), Vec::new(), Vec::new());
    for (index, text) in spec.addresses.iter().enumerate() {
        match (text.parse::<IpAddr>(), text.parse::<IpNet>()) {
            (Ok(ip), _) => addresses.push(ip),
            (_, Ok(block)) if block.prefix_len() == block.max_prefix_len() => {
                addresses.push(block.addr());
            }
            (_, Ok(block)) => ranges.push(block.trunc()),
            _ => bad.push(index),
        }
    }
    (addresses, ranges, bad)
}

fn resolution(said: net::Resolution) -> Resolution {
    match said {
        net::Resolution::None => Resolution::Passthrough,
        net::Resolution::Static => Resolution::ClientSide,
        net::Resolution::Dns => Resolution::Dns,
        net::Resolution::DnsRoundRobin => Resolution::DnsRoundRobin,
        net::Resolution::DynamicDns => Resolution::DynamicDns,
    }
}

/// Whether we should give it an address. A wildcard has no address, and where the client chooses the
/// address nobody would ask for ours.
pub(crate) fn wants_address(service: &Service) -> bool {
    service.registry == Registry::ServiceEntry
        && service.addresses.is_empty()
        && service.ranges.is_empty()
        && service.resolution != Resolution::Passthrough
        && !service.key.hostname.is_wildcard()
        && service.labels.get(ALLOCATE).map(String::as_str) != Some("false")
}

fn convert_port(port: &net::ServicePort) -> Option<ServicePort> {
    let number = |number: u32| u16::try_from(number).ok().filter(|port| *port != 0);
    let own = number(port.number)?;
    Some(ServicePort {
        number: own,
        name: port.name.as_str().into(),
        protocol: Protocol::parse(&port.protocol).unwrap_or_default(),
        target: TargetPort::Number(number(port.target_port).unwrap_or(own)),
        node_port: None,
    })
}
