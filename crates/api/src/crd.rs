//! The CRDs of Istio's kinds, generated from the types.
//!
//! The schema comes from the types' own declarations, so that what a cluster accepts and what is read
//! cannot drift apart; names, columns and versions stand in the table here and in [`Kind`].

use serde_json::{Value, json};

use crate::Kind;
use crate::istio::status::IstioStatus;
use crate::istio::{extensions, networking, security, telemetry};
use crate::ratelimit;
use crate::wire::{Node, Wire};

/// A column of `kubectl get`.
struct Column {
    name: &'static str,
    about: &'static str,
    kind: &'static str,
    path: &'static str,
}

const AGE: Column = Column {
    name: "Age",
    about: "Time since the object was made.",
    kind: "date",
    path: ".metadata.creationTimestamp",
};

const fn text(name: &'static str, path: &'static str, about: &'static str) -> Column {
    Column { name, about, kind: "string", path }
}

const HOST: &[Column] = &[text("Host", ".spec.host", "Host of the service."), AGE];
const SERVICE_ENTRY: &[Column] = &[
    text("Hosts", ".spec.hosts", "Hosts of the service."),
    text("Location", ".spec.location", "Part of the mesh or not."),
    text("Resolution", ".spec.resolution", "How addresses of endpoints are found."),
    AGE,
];
const VIRTUAL_SERVICE: &[Column] = &[
    text("Gateways", ".spec.gateways", "Gateways that apply the routes."),
    text("Hosts", ".spec.hosts", "Hosts that the traffic is for."),
    AGE,
];
const WORKLOAD_ENTRY: &[Column] =
    &[AGE, text("Address", ".spec.address", "Address of the workload.")];
const ACTION: &[Column] = &[text("Action", ".spec.action", "What happens on a match."), AGE];
const MODE: &[Column] = &[text("Mode", ".spec.mtls.mode", "Mode of mutual TLS."), AGE];

impl Kind {
    fn columns(self) -> &'static [Column] {
        match self {
            Self::DestinationRule => HOST,
            Self::ServiceEntry => SERVICE_ENTRY,
            Self::VirtualService => VIRTUAL_SERVICE,
            Self::WorkloadEntry => WORKLOAD_ENTRY,
            Self::AuthorizationPolicy => ACTION,
            Self::PeerAuthentication => MODE,
            Self::TrafficExtension
            | Self::WasmPlugin
            | Self::WorkloadGroup
            | Self::Telemetry
            | Self::RateLimitPolicy => &[AGE],
            _ => &[],
        }
    }

    fn short_name(self) -> Option<&'static str> {
        Some(match self {
            Self::DestinationRule => "dr",
            Self::Gateway => "gw",
            Self::ServiceEntry => "se",
            Self::VirtualService => "vs",
            Self::WorkloadEntry => "we",
            Self::WorkloadGroup => "wg",
            Self::AuthorizationPolicy => "ap",
            Self::PeerAuthentication => "pa",
            Self::RequestAuthentication => "ra",
            Self::Telemetry => "telemetry",
            Self::RateLimitPolicy => "rlp",
            _ => return None,
        })
    }

    /// Whether an object without a spec is refused.
    fn needs_spec(self) -> bool {
        matches!(
            self,
            Self::TrafficExtension
                | Self::WasmPlugin
                | Self::RateLimitPolicy
                | Self::ServiceEntry
                | Self::WorkloadEntry
                | Self::WorkloadGroup
        )
    }

    /// Schema of the spec; `None` for kinds that have no CRD.
    fn spec_schema(self) -> Option<Node> {
        Some(match self {
            Self::TrafficExtension => extensions::TrafficExtension::schema(),
            Self::WasmPlugin => extensions::WasmPlugin::schema(),
            Self::DestinationRule => networking::DestinationRule::schema(),
            Self::EnvoyFilter => networking::EnvoyFilter::schema(),
            Self::Gateway => networking::Gateway::schema(),
            Self::ProxyConfig => networking::ProxyConfig::schema(),
            Self::ServiceEntry => networking::ServiceEntry::schema(),
            Self::Sidecar => networking::Sidecar::schema(),
            Self::VirtualService => networking::VirtualService::schema(),
            Self::WorkloadEntry => networking::WorkloadEntry::schema(),
            Self::WorkloadGroup => networking::WorkloadGroup::schema(),
            Self::RateLimitPolicy => ratelimit::RateLimitPolicy::schema(),
            Self::AuthorizationPolicy => security::AuthorizationPolicy::schema(),
            Self::PeerAuthentication => security::PeerAuthentication::schema(),
            Self::RequestAuthentication => security::RequestAuthentication::schema(),
            Self::Telemetry => telemetry::Telemetry::schema(),
            _ => return None,
        })
    }
}

/// The CRDs of all of Istio's kinds, in the order of groups and names.
#[must_use]
pub fn all() -> Vec<Value> {
    Kind::istio().filter_map(definition).collect()
}

/// The CRD of one kind, if it has one.
#[must_use]
pub fn definition(kind: Kind) -> Option<Value> {
    let spec = kind.spec_schema()?;
    let mut root = Node::of("object");
    root.property("spec", if kind.needs_spec() { spec.required() } else { spec });
    root.property("status", IstioStatus::schema());
    let schema = root.into_json();
    let versions: Vec<_> = {
        let mut names = kind.versions().to_vec();
        names.sort_unstable();
        names.iter().map(|name| version(kind, name, &schema)).collect()
    };
    let singular = kind.name().to_lowercase();
    let group = kind.group();
    let family = if group.ends_with(".istio.io") { "istio-io" } else { "ironsail-io" };
    let mut names = json!({
        "categories": [family, group.replace('.', "-")],
        "kind": kind.name(),
        "listKind": format!("{}List", kind.name()),
        "plural": kind.plural(),
        "singular": singular,
    });
    if let Some(short) = kind.short_name() {
        names["shortNames"] = json!([short]);
    }
    let area = group.split('.').next().unwrap_or_default();
    Some(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": kind.crd_name(),
            // So that objects survive when the chart that brought the CRDs goes.
            "annotations": {"helm.sh/resource-policy": "keep"},
            "labels": {"app": "istio-pilot", "istio": area},
        },
        "spec": {
            "group": group,
            "names": names,
            "scope": if kind.namespaced() { "Namespaced" } else { "Cluster" },
            "versions": versions,
        },
    }))
}

fn version(kind: Kind, name: &str, schema: &Value) -> Value {
    let mut version = json!({
        "name": name,
        "served": true,
        "storage": name == kind.stored_version(),
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    });
    let column = |column: &Column| {
        json!({
            "name": column.name,
            "description": column.about,
            "type": column.kind,
            "jsonPath": column.path,
        })
    };
    let columns: Vec<_> = kind.columns().iter().map(column).collect();
    if !columns.is_empty() {
        version["additionalPrinterColumns"] = Value::Array(columns);
    }
    version
}

#[cfg(test)]
mod tests;
