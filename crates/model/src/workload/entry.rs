//! Workloads from WorkloadEntries and from the endpoints that a ServiceEntry lists, which look alike.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::istio::networking::WorkloadEntry;
use ironsail_api::{ObjectKey, Resource};
use ironsail_names::{Locality, ServiceAccount, SpiffeId, label};

use super::{Context, TlsMode, Workload, canonical, shared};
use crate::endpoint::Health;
use crate::hashed::Hashed;

/// Set to `true`, somebody looks after the workload and says in its status how it is.
const HEALTH_CHECKED: &str = "proxy.istio.io/health-checks-enabled";

/// Whether a WorkloadEntry may be sent traffic: always, unless somebody looks after it and has not found
/// it well.
pub(crate) fn health(object: &Resource<WorkloadEntry>) -> Health {
    let checked = object.meta.annotation(HEALTH_CHECKED).is_some_and(|v| v == "true");
    match checked && object.observed.healthy != Some(true) {
        true => Health::Unhealthy,
        false => Health::Healthy,
    }
}

/// `object_labels` are those of the WorkloadEntry's metadata; they win over the spec's. None if the
/// namespace is no name.
pub(crate) fn of_entry(
    key: &ObjectKey,
    entry: &WorkloadEntry,
    object_labels: &BTreeMap<String, String>,
    context: &Context<'_>,
) -> Option<Arc<Hashed<Workload>>> {
    let namespace: ironsail_names::Namespace = key.namespace.parse().ok()?;
    let labels = merged(entry, object_labels);
    let own_name = labels.get(label::WORKLOAD_NAME).filter(|name| !name.is_empty());
    let name: Arc<str> = own_name.map_or_else(|| key.name.clone(), |name| name.as_str().into());
    let (canonical_name, canonical_revision) = canonical(&labels, &name);
    let identity =
        entry.service_account.parse::<ServiceAccount>().ok().map(|service_account| SpiffeId {
            trust_domain: context.mesh.trust.own().clone(),
            namespace: namespace.clone(),
            service_account,
        });
    let network = match entry.network.as_str() {
        "" => context.network(
            &key.cluster,
            labels.get(label::NETWORK).map(String::as_str),
            entry.address.parse::<IpAddr>().ok(),
        ),
        network => network.into(),
    };
    // Who has an account has a certificate, so its proxy is expected to take mutual TLS.
    let tls = match labels.contains_key(label::TLS_MODE) {
        true => TlsMode::of(&labels),
        false if entry.service_account.is_empty() => TlsMode::Disabled,
        false => TlsMode::Istio,
    };
    Some(Arc::new(Hashed::new(Workload {
        source: key.clone(),
        name,
        owner_kind: key.kind.name().into(),
        namespace,
        cluster: labels
            .get(label::CLUSTER)
            .map_or_else(|| key.cluster.clone(), |name| name.as_str().into()),
        locality: locality(entry, &labels),
        network,
        identity,
        tls,
        canonical_name,
        canonical_revision,
        node: "".into(),
        ports: Vec::new(),
        hbone: labels.get(label::TUNNEL).is_some_and(|tunnel| tunnel == "http"),
        labels: shared(&labels),
        bare: false,
    })))
}

pub(crate) fn merged(
    entry: &WorkloadEntry,
    object_labels: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut labels = entry.labels.clone();
    labels.extend(object_labels.iter().map(|(name, value)| (name.clone(), value.clone())));
    labels
}

fn locality(entry: &WorkloadEntry, labels: &BTreeMap<String, String>) -> Locality {
    let said: Option<Locality> = entry.locality.parse().ok();
    let label = labels.get(label::LOCALITY).and_then(|text| Locality::from_label(text).ok());
    said.filter(|said| !said.is_unknown()).or(label).unwrap_or_default()
}
