//! Diagnostics about objects as a whole: the same host declared or routed by several.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::istio::networking::VirtualService;
use ironsail_api::{Code, Diagnostic, ObjectKey, Resource, Severity};
use ironsail_names::{Hostname, Namespace};

use super::Store;
use crate::Visibility;
use crate::config::{GatewayRef, Order, full_host, gateways_of};
use crate::service::Service;
use crate::snapshot::NoteKey;

/// Who routes a host on a gateway, oldest first.
pub(super) type RouteHosts =
    BTreeMap<(GatewayRef, Hostname), BTreeMap<Order, (ObjectKey, Visibility)>>;

/// As Istio numbers it: several VirtualServices for one host on the mesh gateway.
const MESH_HOST: Code = Code("IST0109");
const GATEWAY_HOST: Code = Code("IRN0102");
const HOSTNAME: Code = Code("IRN0103");

impl Store {
    pub(super) fn set_note(&mut self, key: NoteKey, notes: Vec<Diagnostic>) {
        let known = self.current.notes.get(&key).map_or(&[][..], |notes| notes);
        if known == notes {
            return;
        }
        self.changes.diagnostics = true;
        match notes.is_empty() {
            true => drop(self.current.notes.remove(&key)),
            false => self.current.notes.insert(key, notes.into()),
        }
    }

    /// After a change of a VirtualService.
    pub(super) fn note_routes(
        &mut self,
        key: &ObjectKey,
        old: Option<&Arc<Resource<VirtualService>>>,
        new: Option<&Arc<Resource<VirtualService>>>,
    ) {
        let Ok(namespace) = key.namespace.parse::<Namespace>() else { return };
        let mut touched = Vec::new();
        for (object, add) in [(old, false), (new, true)] {
            let Some(object) = object else { continue };
            let order = Order::of(key, object);
            let defaults = &self.current.mesh.config.default_virtual_service_export_to;
            let (export_to, _) = Visibility::parse(&object.spec.export_to, defaults, &namespace);
            for place in places(object, &namespace, self) {
                let all = self.route_hosts.entry(place.clone()).or_default();
                match add {
                    true => drop(all.insert(order.clone(), (key.clone(), export_to.clone()))),
                    false => drop(all.remove(&order)),
                }
                if all.is_empty() {
                    self.route_hosts.remove(&place);
                }
                touched.push(place);
            }
        }
        for place in touched {
            let notes =
                self.route_hosts.get(&place).map(|all| clashes(&place, all)).unwrap_or_default();
            self.set_note(NoteKey::Route(place.0, place.1), notes);
        }
    }

    /// After services with this hostname changed.
    pub(super) fn note_hostname(&mut self, hostname: &Hostname) {
        let mut services: Vec<Arc<Service>> =
            self.current.services.with_hostname(hostname).cloned().collect();
        services
            .sort_by(|a, b| (a.registry, a.created, &a.key).cmp(&(b.registry, b.created, &b.key)));
        let mut notes = Vec::new();
        for (index, service) in services.iter().enumerate() {
            let winner =
                services[..index].iter().find(|other| other.export_to.overlaps(&service.export_to));
            if let (Some(winner), Some(source)) = (winner, service.sources.first()) {
                let message = format!(
                    "host {hostname} is also declared in namespace {}; proxies there, and in other namespaces, use that one",
                    winner.namespace(),
                );
                notes.push(diagnostic(HOSTNAME, Severity::Warning, source, message));
            }
        }
        self.set_note(NoteKey::Hostname(hostname.clone()), notes);
    }
}

fn clashes(
    (gateway, host): &(GatewayRef, Hostname),
    all: &BTreeMap<Order, (ObjectKey, Visibility)>,
) -> Vec<Diagnostic> {
    let all: Vec<_> = all.values().collect();
    let mut notes = Vec::new();
    for (index, (key, export_to)) in all.iter().enumerate() {
        let Some((older, _)) = all[..index].iter().find(|(_, other)| other.overlaps(export_to))
        else {
            continue;
        };
        notes.push(match gateway {
            GatewayRef::Mesh => {
                let message = format!("host {host} is routed by {older} already; on the mesh gateway the oldest decides");
                diagnostic(MESH_HOST, Severity::Error, key, message)
            }
            GatewayRef::Named { namespace, name } => {
                let message = format!(
                    "host {host} on gateway {namespace}/{name} is routed by {older} too; their routes are joined, oldest first"
                );
                diagnostic(GATEWAY_HOST, Severity::Info, key, message)
            }
        });
    }
    notes
}

fn places(
    object: &Resource<VirtualService>,
    namespace: &Namespace,
    store: &Store,
) -> Vec<(GatewayRef, Hostname)> {
    let domain = &store.current.settings.domain;
    let hosts = object.spec.hosts.iter().filter_map(|host| full_host(host, namespace, domain).ok());
    let hosts: Vec<Hostname> = hosts.collect();
    gateways_of(&object.spec, namespace)
        .into_iter()
        .flat_map(|gateway| hosts.iter().map(move |host| (gateway.clone(), host.clone())))
        .collect()
}

pub(super) fn diagnostic(
    code: Code,
    severity: Severity,
    object: &ObjectKey,
    message: String,
) -> Diagnostic {
    Diagnostic {
        code,
        severity,
        kind: object.kind,
        namespace: object.namespace.to_string(),
        name: object.name.to_string(),
        field: Some("spec.hosts".to_owned()),
        message,
    }
}
