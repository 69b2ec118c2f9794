//! What a VirtualService clashes with on the mesh gateway, before it is one of the mesh's objects.

use std::collections::BTreeSet;

use ironsail_api::istio::networking::VirtualService;
use ironsail_api::{Code, Diagnostic, Kind, Resource, Severity};
use ironsail_names::{Hostname, Namespace};

use super::route::gateways_of;
use super::{GatewayRef, full_host};
use crate::{Snapshot, Visibility};

/// As Istio numbers it, and as the store does for objects that are there.
const MESH_HOST: Code = Code("IST0109");

/// Hosts on the mesh gateway and where they count; nothing for one that is not on it.
fn hosts(
    snapshot: &Snapshot,
    object: &Resource<VirtualService>,
) -> Option<(BTreeSet<Hostname>, Visibility)> {
    let namespace: Namespace = object.meta.namespace.parse().ok()?;
    if !gateways_of(&object.spec, &namespace).contains(&GatewayRef::Mesh) {
        return None;
    }
    let domain = &snapshot.settings.domain;
    let full = |host: &String| full_host(host, &namespace, domain).ok();
    let defaults = &snapshot.mesh.config.default_virtual_service_export_to;
    let (visibility, _) = Visibility::parse(&object.spec.export_to, defaults, &namespace);
    Some((object.spec.hosts.iter().filter_map(full).collect(), visibility))
}

impl Snapshot {
    /// The objects that route a host of `object` too, one finding each.
    pub fn clashes_of(&self, object: &Resource<VirtualService>) -> Vec<Diagnostic> {
        let Some((own, visibility)) = hosts(self, object) else { return Vec::new() };
        let same = |other: &Resource<VirtualService>| {
            other.meta.name == object.meta.name && other.meta.namespace == object.meta.namespace
        };
        let others = self.config.virtual_services.iter().filter(|other| !same(other));
        let one = |other: &Resource<VirtualService>| {
            let (hosts, seen) = hosts(self, other)?;
            let host = hosts.intersection(&own).next().filter(|_| seen.overlaps(&visibility))?;
            let message = format!(
                "host {host} is routed by VirtualService {}/{} too; on the mesh gateway the oldest of them decides",
                other.meta.namespace, other.meta.name
            );
            let (kind, meta) = (Kind::VirtualService, &object.meta);
            Some(
                Diagnostic::new(MESH_HOST, Severity::Warning, kind, meta, message).at("spec.hosts"),
            )
        };
        others.filter_map(|other| one(other)).collect()
    }
}
