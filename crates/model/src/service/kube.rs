//! Services of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::{Code, Diagnostic, IntOrString, Kind, ObjectKey, Resource, Severity, kube};
use ironsail_names::{ClusterDomain, Hostname, Namespace, annotation};

use super::{
    Registry, Resolution, Service, ServiceKind, ServicePort, TargetPort, TrafficDistribution,
};
use crate::mesh::Mesh;
use crate::network::NODE_SELECTOR;
use crate::{Protocol, ServiceKey, Visibility};

/// What a Service is called in the mesh; None if its names are none.
pub(crate) fn key(key: &ObjectKey, domain: &ClusterDomain) -> Option<ServiceKey> {
    let namespace: Namespace = key.namespace.parse().ok()?;
    let hostname = domain.service(&key.name, &namespace).ok()?;
    Some(ServiceKey { hostname, namespace })
}

/// The Service, and what is odd about it.
pub(crate) fn convert(
    object_key: &ObjectKey,
    key: &ServiceKey,
    object: &Resource<kube::Service>,
    mesh: &Mesh,
) -> (Service, Vec<Diagnostic>) {
    let spec = &object.spec;
    let mut notes = Vec::new();
    let mut note = |field: &str, message: String| {
        let note =
            Diagnostic::new(Code::SCHEMA, Severity::Warning, Kind::Service, &object.meta, message);
        notes.push(note.at(field));
    };
    let kind = kind(spec);
    let alias = (kind == ServiceKind::ExternalName).then(|| spec.external_name.parse::<Hostname>());
    if let Some(Err(error)) = &alias {
        note("spec.externalName", error.to_string());
    }
    let (export_to, bad) = export_to(object, mesh, &key.namespace);
    for item in bad {
        note("metadata.annotations", format!("exportTo {item:?} names no namespace"));
    }
    if let Some(text) = object.meta.annotation(NODE_SELECTOR)
        && serde_json::from_str::<BTreeMap<String, String>>(text).is_err()
    {
        let message = format!("{NODE_SELECTOR} is no JSON of labels: no node is selected");
        note("metadata.annotations", message);
    }
    let ports = spec.ports.iter().enumerate().filter_map(|(index, port)| {
        let converted = convert_port(port);
        if converted.is_none() {
            note(&format!("spec.ports[{index}].port"), format!("{} is no port", port.port));
        }
        converted
    });
    let ports = ports.collect();
    let addresses = addresses(spec, kind);
    let service = Service {
        key: key.clone(),
        name: object_key.name.clone(),
        registry: Registry::Kubernetes,
        sources: vec![object_key.clone()],
        created: object.meta.created,
        cluster_addresses: BTreeMap::from([(object_key.cluster.clone(), addresses.clone())]),
        addresses,
        ranges: Vec::new(),
        auto_addresses: Vec::new(),
        external_addresses: external_addresses(spec),
        ports,
        resolution: resolution(kind),
        external: false,
        alias: alias.and_then(Result::ok),
        export_to,
        labels: Arc::new(object.meta.labels.clone()),
        annotations: super::own_annotations(&object.meta.annotations),
        selector: (!spec.selector.is_empty()).then(|| Arc::new(spec.selector.clone())),
        subject_alt_names: BTreeSet::new(),
        service_accounts: accounts(object, key, mesh),
        publish_not_ready: spec.publish_not_ready_addresses,
        distribution: distribution(object),
        node_local: spec.internal_traffic_policy == "Local",
        sticky: spec.session_affinity == "ClientIP",
        kind,
        digest: 0,
    };
    (service, notes)
}

fn kind(spec: &kube::Service) -> ServiceKind {
    match spec.r#type.as_str() {
        "ExternalName" => ServiceKind::ExternalName,
        _ if spec.cluster_ip == "None" => ServiceKind::Headless,
        "NodePort" => ServiceKind::NodePort,
        "LoadBalancer" => ServiceKind::LoadBalancer,
        _ => ServiceKind::ClusterIp,
    }
}

fn resolution(kind: ServiceKind) -> Resolution {
    match kind {
        ServiceKind::ExternalName => Resolution::Alias,
        ServiceKind::Headless => Resolution::Passthrough,
        _ => Resolution::ClientSide,
    }
}

/// Both families, the main one first.
fn addresses(spec: &kube::Service, kind: ServiceKind) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    if matches!(kind, ServiceKind::Headless | ServiceKind::ExternalName) {
        return addresses;
    }
    for text in std::iter::once(&spec.cluster_ip).chain(&spec.cluster_ips) {
        if let Ok(ip) = text.parse::<IpAddr>()
            && !addresses.contains(&ip)
        {
            addresses.push(ip);
        }
    }
    addresses
}

fn external_addresses(spec: &kube::Service) -> Vec<IpAddr> {
    let ingress = spec.ingress.iter().map(|ingress| &ingress.ip);
    let texts = spec.external_ips.iter().chain(ingress);
    let all: BTreeSet<IpAddr> = texts.filter_map(|text| text.parse().ok()).collect();
    all.into_iter().collect()
}

fn export_to(
    object: &Resource<kube::Service>,
    mesh: &Mesh,
    own: &Namespace,
) -> (Visibility, Vec<String>) {
    let items: Vec<String> = object
        .meta
        .annotation(annotation::EXPORT_TO)
        .unwrap_or_default()
        .split(',')
        .map(|item| item.trim().to_owned())
        .filter(|item| !item.is_empty())
        .collect();
    Visibility::parse(&items, &mesh.config.default_service_export_to, own)
}

fn convert_port(port: &kube::ServicePort) -> Option<ServicePort> {
    let number = u16::try_from(port.port).ok().filter(|port| *port != 0)?;
    let app = Some(port.app_protocol.as_str()).filter(|app| !app.is_empty());
    let target = match &port.target_port {
        Some(IntOrString::Int(target)) => u16::try_from(*target).ok().filter(|target| *target != 0),
        Some(IntOrString::String(name)) => {
            let name = TargetPort::Name(name.as_str().into());
            return Some(converted(port, number, app, name));
        }
        None => None,
    };
    Some(converted(port, number, app, TargetPort::Number(target.unwrap_or(number))))
}

fn converted(
    port: &kube::ServicePort,
    number: u16,
    app: Option<&str>,
    target: TargetPort,
) -> ServicePort {
    ServicePort {
        number,
        name: port.name.as_str().into(),
        protocol: Protocol::of_port(number, &port.name, &port.protocol, app),
        target,
        node_port: u16::try_from(port.node_port).ok().filter(|port| *port != 0),
    }
}

/// Istio's annotation wins over the field.
fn distribution(object: &Resource<kube::Service>) -> TrafficDistribution {
    let field = object.spec.traffic_distribution.as_str();
    match object.meta.annotation(annotation::TRAFFIC_DISTRIBUTION).unwrap_or(field) {
        "PreferClose" | "PreferSameZone" => TrafficDistribution::PreferSameZone,
        "PreferSameNode" => TrafficDistribution::PreferSameNode,
        _ => TrafficDistribution::Any,
    }
}

/// Accounts that the annotations add to those of the endpoints.
fn accounts(object: &Resource<kube::Service>, key: &ServiceKey, mesh: &Mesh) -> BTreeSet<String> {
    let list = |name: &str| {
        let text = object.meta.annotation(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect::<Vec<_>>()
    };
    let spiffe =
        |account: &&str| format!("spiffe://{}/ns/{}/sa/{account}", mesh.trust.own(), key.namespace);
    let kubernetes = list(annotation::KUBERNETES_ACCOUNTS);
    let canonical = list(annotation::CANONICAL_ACCOUNTS);
    let own = kubernetes.iter().map(spiffe);
    own.chain(canonical.iter().map(|account| format!("spiffe://{account}"))).collect()
}
