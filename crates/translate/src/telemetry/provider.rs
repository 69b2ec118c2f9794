//! Extension providers of the mesh: by name, and the cluster that leads to their service.

use ironsail_api::mesh::{ExtensionProvider, HeaderValue, Provider, ProviderHeader};
use ironsail_names::ClusterName;

use super::Context;

/// The mesh's provider of this name; some are there without being configured.
pub(super) fn find<'a>(context: &Context<'a>, name: &str) -> Option<&'a Provider> {
    let all: &[ExtensionProvider] = &context.snapshot.mesh.config.extension_providers;
    all.iter().find(|provider| provider.name == name).map(|provider| &provider.provider)
}

/// Where a service listens, as clusters and requests name it.
pub(super) struct Place {
    pub(super) cluster: String,
    pub(super) host: String,
}

/// The cluster of a provider's service. None if the proxy does not have it: Envoy would refuse to work
/// with it.
pub(super) fn place(context: &Context<'_>, service: &str, port: u32) -> Option<Place> {
    let host = service.rsplit_once('/').map_or(service, |(_, host)| host);
    let number = u16::try_from(port).ok()?;
    let known = context.scope.visible.services.iter().find(|one| {
        let name = one.hostname().as_str();
        name == host || (!host.contains(".svc.") && name.starts_with(&format!("{host}.")))
    })?;
    known.port(number)?;
    let cluster = ClusterName::outbound(number, "", known.hostname().clone()).to_string();
    Some(Place { cluster, host: known.hostname().to_string() })
}

/// Headers with a value of their own; those from an environment cannot be known here.
pub(super) fn headers(headers: &[ProviderHeader]) -> Vec<(String, String)> {
    let value = |header: &ProviderHeader| match &header.value {
        HeaderValue::Value(text) => Some(text.clone()),
        HeaderValue::EnvName(_) | HeaderValue::Unset => None,
    };
    headers.iter().filter_map(|one| Some((one.name.clone(), value(one)?))).collect()
}
