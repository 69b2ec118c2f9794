//! The table of names that an agent answers DNS from.
//!
//! In: the services in scope, with the endpoints of headless ones. Out: one table; the agent adds the
//! short forms itself. A change of other services' endpoints leaves the view's key alone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_model::{ProxyClass, Registry, Scope, Service, ServiceEndpoints, Snapshot};
use ironsail_proto::istio::networking::nds::v1::{NameTable, name_table::NameInfo};

use crate::place::addresses;
use crate::{Key, Translated};

/// What the name table of a class of proxies is made of.
#[derive(Clone, Debug)]
pub struct NameTableView<'a> {
    services: Vec<(&'a Arc<Service>, Option<&'a Arc<ServiceEndpoints>>)>,
    class: &'a ProxyClass,
}

pub fn view<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
) -> NameTableView<'a> {
    let services = scope.services.iter().map(|service| {
        // Only what has no address of its own needs those of its endpoints.
        let endpoints = match addresses(service, class).is_empty() && service.is_headless() {
            true => snapshot.endpoints.get(&service.key),
            false => None,
        };
        (service, endpoints)
    });
    NameTableView { services: services.collect(), class }
}

impl NameTableView<'_> {
    pub fn key(&self) -> u64 {
        Key::new("nametable")
            .text(self.class.cluster.as_str())
            .text(&self.class.network)
            .flag(self.class.ipv4)
            .flag(self.class.ipv6)
            .flag(self.class.dns_capture)
            .each(&self.services, |k, (service, endpoints)| {
                k.digest(service.digest).maybe(*endpoints, |k, e| k.digest(e.digest))
            })
            .finish()
    }
}

pub fn translate(view: &NameTableView<'_>) -> Translated<NameTable> {
    let mut table: BTreeMap<String, NameInfo> = BTreeMap::new();
    for (service, endpoints) in &view.services {
        let mut ips = addresses(service, view.class);
        if let Some(endpoints) = endpoints {
            ips.extend(pods(service, endpoints, view.class, &mut table));
        }
        if !ips.is_empty() {
            add(&mut table, service, &ips);
        }
    }
    Translated::new(NameTable { table })
}

fn add(table: &mut BTreeMap<String, NameInfo>, service: &Service, ips: &[IpAddr]) {
    let kubernetes = service.registry == Registry::Kubernetes;
    let text = ips.iter().map(ToString::to_string);
    let name = service.hostname().to_string();
    match table.get_mut(&name) {
        Some(there) if !kubernetes => {
            // Several entries for one host add up; a Service is not changed by an entry.
            if there.registry != registry(Registry::Kubernetes) {
                let new: Vec<String> = text.filter(|ip| !there.ips.contains(ip)).collect();
                there.ips.extend(new);
            }
        }
        _ => {
            let mut info = NameInfo {
                ips: text.collect(),
                registry: registry(service.registry).into(),
                ..Default::default()
            };
            if kubernetes {
                info.shortname = service.name.to_string();
                info.namespace = service.namespace().to_string();
            }
            table.insert(name, info);
        }
    }
}

/// The addresses of a headless service's pods, and a name for each pod that has one.
fn pods(
    service: &Service,
    endpoints: &ServiceEndpoints,
    class: &ProxyClass,
    table: &mut BTreeMap<String, NameInfo>,
) -> Vec<IpAddr> {
    let mut ips = Vec::new();
    let first = service.ports.first().map(|port| &*port.name);
    let all = first.map_or(&[][..], |name| endpoints.port(name));
    for endpoint in all.iter().filter(|e| e.is_healthy() || service.publish_not_ready) {
        let Some(ip) = endpoint.ip() else { continue };
        let same_cluster = endpoint.workload.cluster == class.cluster;
        let network = &endpoint.workload.network;
        if *network != class.network && !network.is_empty() && !class.network.is_empty() {
            continue;
        }
        if let Some(host) = &endpoint.hostname {
            let short = format!("{host}.{}", service.name);
            let full = format!("{host}.{}", service.hostname());
            // The same pod name in two clusters: the own cluster's counts.
            if same_cluster || !table.contains_key(&full) {
                let info = NameInfo {
                    ips: vec![ip.to_string()],
                    registry: registry(service.registry).into(),
                    shortname: short,
                    namespace: service.namespace().to_string(),
                    ..Default::default()
                };
                table.insert(full, info);
            }
        }
        if same_cluster {
            ips.push(ip);
        }
    }
    ips
}

fn registry(registry: Registry) -> &'static str {
    match registry {
        Registry::Kubernetes => "Kubernetes",
        Registry::ServiceEntry => "External",
    }
}
