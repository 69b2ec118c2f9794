//! Services that podlet itself serves: the API and DNS.
//!
//! In: what is served where; out: a Service without selector and its EndpointSlices in the API, so
//! that the same rules and names carry it as any other Service. Applied, so it can be done again at
//! every start.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ironsail_podnet::Protocol;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::Error;

const MANAGER: &str = "podlet";

pub struct PublishedPort {
    pub name: String,
    pub protocol: Protocol,
    pub port: u16,
    /// Where podlet listens.
    pub target_port: u16,
}

pub struct PublishedService {
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// IPv4 first.
    pub cluster_ips: Vec<IpAddr>,
    /// podlet's own addresses in the network.
    pub addresses: Vec<IpAddr>,
    pub ports: Vec<PublishedPort>,
}

/// Puts a Service of podlet's own into the API.
pub async fn publish(client: &Client, service: &PublishedService) -> Result<(), Error> {
    let params = PatchParams::apply(MANAGER).force();
    let services: Api<Service> = Api::namespaced(client.clone(), &service.namespace);
    let failed = |kind| {
        move |source| Error::Publish {
            kind,
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            source: Box::new(source),
        }
    };
    let patched =
        services.patch(&service.name, &params, &Patch::Apply(service_object(service))).await;
    patched.map_err(failed("Service"))?;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &service.namespace);
    for family in ["IPv4", "IPv6"] {
        let (name, slice) = slice_object(service, family);
        if let Some(slice) = slice {
            let patched = slices.patch(&name, &params, &Patch::Apply(slice)).await;
            patched.map_err(failed("EndpointSlice"))?;
        }
    }
    Ok(())
}

fn service_object(service: &PublishedService) -> serde_json::Value {
    let ports: Vec<_> = service
        .ports
        .iter()
        .map(|p| {
            json!({
                "name": p.name, "protocol": p.protocol.name().to_uppercase(),
                "port": p.port, "targetPort": p.target_port,
            })
        })
        .collect();
    let families: Vec<_> = service.cluster_ips.iter().map(family).collect();
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": service.name, "namespace": service.namespace, "labels": service.labels },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": service.cluster_ips.first(), "clusterIPs": service.cluster_ips,
            "ipFamilies": families,
            "ipFamilyPolicy": if families.len() > 1 { "RequireDualStack" } else { "SingleStack" },
            "ports": ports,
        },
    })
}

fn slice_object(service: &PublishedService, of: &str) -> (String, Option<serde_json::Value>) {
    // The name that the API server itself uses for its own IPv4 slice is the Service's.
    let name = if of == "IPv4" { service.name.clone() } else { format!("{}-ipv6", service.name) };
    let addresses: Vec<_> = service.addresses.iter().filter(|a| family(a) == of).collect();
    if addresses.is_empty() {
        return (name, None);
    }
    let ports: Vec<_> = service
        .ports
        .iter()
        .map(|p| {
            json!({ "name": p.name, "protocol": p.protocol.name().to_uppercase(), "port": p.target_port })
        })
        .collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": service.namespace,
            "labels": { "kubernetes.io/service-name": service.name },
        },
        "addressType": of,
        "endpoints": addresses.iter().map(|a| json!({ "addresses": [a], "conditions": { "ready": true } })).collect::<Vec<_>>(),
        "ports": ports,
    });
    (name, Some(slice))
}

fn family(ip: &IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}
