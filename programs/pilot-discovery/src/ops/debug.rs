//! The debug pages, under the names and in the shapes that Istio's tools read.
//!
//! A caller of one namespace sees what concerns proxies of that namespace.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use ironsail_api::wire::Wire;
use ironsail_discovery::{Access, Connection, Engine, Kind, SyncStatus, config_dump};
use ironsail_model::{ConfigTable, Endpoint, Service, Snapshot};
use ironsail_proto::{to_json, to_json_any};
use serde_json::{Value, json};

use super::Watched;
use super::page::{Asked, Page};

mod more;

/// The page of pods outside of the mesh.
const OUTSIDE: &str = "outsidez";

type Writer = fn(&Asked, &Engine, &Access) -> Option<Value>;

/// Every page: name, what it shows, who may see it, how.
const PAGES: [(&str, &str, Writer); 24] = [
    ("adsz", "Status and debug interface for ADS", adsz),
    ("syncz", "Synchronization status of all Envoys connected to this Pilot instance", syncz),
    ("config_distribution", "Version status of all Envoys connected to this Pilot instance", syncz),
    ("connections", "Proxies connected to this instance, and how long", connections),
    ("registryz", "Debug support for registry", registryz),
    ("endpointz", "Debug support for endpoints", endpointz),
    ("endpointShardz", "Info about the endpoint shards", endpointz),
    ("configz", "Debug support for config", configz),
    ("clusterz", "List remote clusters where istiod reads endpoints", clusterz),
    ("networkz", "List cross-network gateways", networkz),
    ("edsz", "Status and debug interface for EDS", edsz),
    ("ndsz", "Name table of a proxy", ndsz),
    (
        "config_dump",
        "ConfigDump in the form of the Envoy admin config dump API for passed in proxyID",
        dump,
    ),
    ("pushcontext", "Dump of the current state of the world", push_context),
    ("push_status", "Diagnostics of the objects of the mesh", push_status),
    ("cachez", "Info about the internal caches of resources", cachez),
    ("mesh", "Active mesh config", mesh),
    ("trustz", "Who signs, whom the mesh trusts, and what every proxy made of it", trustz),
    ("ecdsz", "Extensions of a proxy", more::extensions),
    ("sidecarz", "What a proxy may see", more::scope),
    ("instancesz", "Service instances that each proxy stands for", more::instances),
    ("authorizationz", "Internal authorization policies", more::authorization),
    ("telemetryz", "Debug Telemetry configuration", more::telemetry),
    ("resourcesz", "Types of resources that proxies get, and how many of each", more::resources),
];

pub(super) fn page(asked: &Asked, engine: &Engine, access: &Access) -> Option<Page> {
    let (_, _, write) = PAGES.iter().find(|(name, ..)| *name == asked.name)?;
    write(asked, engine, access).map(|value| Page::json(&value))
}

pub(super) async fn list() -> Html<String> {
    let row = |(name, what, _): &(&str, &str, Writer)| {
        format!("<tr><td><a href=\"/debug/{name}\">{name}</a></td><td>{what}</td></tr>")
    };
    let rows: String = PAGES.iter().map(row).collect();
    Html(format!(
        "<!doctype html><html><head><title>istiod debug</title></head><body><h1>istiod</h1>\
         <table>{rows}<tr><td><a href=\"/debug/inject\">inject</a></td><td>Active inject \
         template</td></tr><tr><td><a href=\"/debug/{OUTSIDE}\">{OUTSIDE}</a></td><td>Pods that \
         ask for a proxy and run without one</td></tr><tr><td><a href=\"/debug/pprof/\">pprof</a></td><td>Profiles of this \
         process</td></tr></table></body></html>\n"
    ))
}

pub(super) async fn answer(
    State(watched): State<Watched>,
    Extension(access): Extension<Access>,
    request: Request,
) -> Response {
    let asked = Asked::parse(request.uri().path_and_query().map_or("", |path| path.as_str()));
    if asked.name == "force_disconnect" {
        return force_disconnect(&watched, &access, &asked);
    }
    if asked.name == "inject" {
        return match (access == Access::Everything, watched.reviews.injection.shown()) {
            (true, Some(shown)) => axum::Json(shown).into_response(),
            _ => (StatusCode::NOT_FOUND, "there is no injector, or it is not for you\n")
                .into_response(),
        };
    }
    if asked.name == OUTSIDE {
        return outside(&watched, &access);
    }
    if asked.name == "list" {
        let names: Vec<&str> = PAGES.iter().map(|(name, ..)| *name).chain([OUTSIDE]).collect();
        return axum::Json(names).into_response();
    }
    if asked.name == "config_dump" && asked.get("proxyID").is_none() {
        let text = "You must provide a proxyID in the query string\n";
        return (StatusCode::BAD_REQUEST, text).into_response();
    }
    match asked.answer(&watched.engine, &access) {
        Some(page) => ([(header::CONTENT_TYPE, page.content_type)], page.body).into_response(),
        None => {
            let text = format!("no debug page or proxy of that name: {}; see /debug\n", asked.name);
            (StatusCode::NOT_FOUND, text).into_response()
        }
    }
}

/// Pods that ask for a proxy and have none, by namespace.
fn outside(watched: &Watched, access: &Access) -> Response {
    let (snapshot, injector) = (watched.engine.snapshot(), watched.reviews.injection.current());
    let (Some(snapshot), Some(injector)) = (snapshot, injector) else {
        return (StatusCode::NOT_FOUND, "there is no injector\n").into_response();
    };
    let mut found = super::stray::strays(&snapshot, &injector);
    if let Access::Namespace(own) = access {
        found.retain(|namespace, _| *namespace == own.as_str());
    }
    axum::Json(found).into_response()
}

fn force_disconnect(watched: &Watched, access: &Access, asked: &Asked) -> Response {
    let found = asked.get("proxyID").and_then(|id| watched.engine.connection(id));
    match found.filter(|connection| access.sees(connection)) {
        Some(connection) => {
            connection.close();
            (StatusCode::OK, "OK\n").into_response()
        }
        None => {
            (StatusCode::NOT_FOUND, "Proxy not connected to this Pilot instance\n").into_response()
        }
    }
}

fn seen(engine: &Engine, access: &Access) -> Vec<Arc<Connection>> {
    engine.connections().into_iter().filter(|connection| access.sees(connection)).collect()
}

/// What is not about one proxy is for the control plane's own namespace only.
fn everything(access: &Access) -> Option<()> {
    (*access == Access::Everything).then_some(())
}

fn adsz(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    let clients: Vec<Value> = seen(engine, access)
        .iter()
        .map(|connection| {
            let watches: serde_json::Map<String, Value> = connection
                .types()
                .iter()
                .map(|(type_url, state)| {
                    let names = if state.all { json!("*") } else { json!(state.names) };
                    (type_url.to_string(), names)
                })
                .collect();
            json!({
                "connectionId": connection.id,
                "connectedAt": connection.since.to_string(),
                "address": connection.peer.map(|peer| peer.to_string()),
                "metadata": to_json(&connection.node()).ok(),
                "watches": watches,
            })
        })
        .collect();
    Some(json!({"totalClients": clients.len(), "clients": clients}))
}

fn trustz(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    Some(crate::trust::page(engine, access))
}

fn status_word(status: SyncStatus) -> &'static str {
    match status {
        SyncStatus::NotSent => "NOT SENT",
        SyncStatus::Synced => "SYNCED",
        SyncStatus::Stale => "STALE",
        SyncStatus::Error => "ERROR",
    }
}

fn syncz(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    let proxies = seen(engine, access).into_iter().map(|connection| {
        let types = connection.types();
        let mut row = json!({
            "proxy": connection.proxy.id,
            "cluster_id": connection.proxy.cluster.as_str(),
            "istio_version": connection.proxy.version.to_string(),
            "proxy_type": format!("{:?}", connection.proxy.kind).to_lowercase(),
        });
        for kind in Kind::ALL {
            let Some(state) = types.get(kind.type_url()) else { continue };
            let name = match kind {
                Kind::Extension => "extension_config",
                kind => kind_name(kind),
            };
            row[format!("{name}_sent")] = state.sent.as_ref().map(|sent| sent.nonce.clone()).into();
            row[format!("{name}_acked")] =
                state.accepted.map(|(version, _)| version.to_string()).into();
            row[format!("{name}_status")] = status_word(state.status()).into();
            if let Some(nack) = &state.nack {
                row[format!("{name}_error")] =
                    json!({"message": nack.rejection.message, "objects": nack.objects});
            }
        }
        row
    });
    Some(proxies.collect())
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Cluster => "cluster",
        Kind::Endpoint => "endpoint",
        Kind::Listener => "listener",
        Kind::Route => "route",
        Kind::Secret => "secret",
        Kind::Extension => "extension_config",
        Kind::NameTable => "name_table",
    }
}

fn connections(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    let rows = seen(engine, access).into_iter().map(|connection| {
        json!({
            "connectionId": connection.id,
            "connectedAt": connection.since.to_string(),
            "address": connection.peer.map(|peer| peer.to_string()),
            "identity": connection.identity.as_ref().map(|identity| identity.0.to_string()),
        })
    });
    let rows: Vec<Value> = rows.collect();
    Some(json!({"totalClients": rows.len(), "clients": rows}))
}

fn service(service: &Service) -> Value {
    json!({
        "hostname": service.key.hostname.to_string(),
        "creationTime": service.created.map(|at| at.to_string()),
        "defaultAddress": service.addresses.first().map(ToString::to_string),
        "clusterVIPs": {"Addresses": service.cluster_addresses.iter().map(|(cluster, ips)| {
            (cluster.as_str().to_owned(), json!(ips))
        }).collect::<serde_json::Map<_, _>>()},
        "autoAllocatedAddresses": service.auto_addresses,
        "ports": service.ports.iter().map(|port| json!({
            "name": port.name, "port": port.number, "protocol": format!("{:?}", port.protocol),
        })).collect::<Vec<_>>(),
        "MeshExternal": service.external,
        "Resolution": format!("{:?}", service.resolution),
        "Attributes": {
            "ServiceRegistry": format!("{:?}", service.registry),
            "Name": service.name,
            "Namespace": service.key.namespace.as_str(),
            "Labels": *service.labels,
            "ExportTo": format!("{:?}", service.export_to),
        },
    })
}

fn registryz(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    let snapshot = engine.snapshot()?;
    Some(snapshot.services.iter().map(|one| service(one)).collect())
}

fn endpoint(port: &str, endpoint: &Endpoint) -> Value {
    let workload = &endpoint.workload;
    json!({
        "ServicePortName": port,
        "Addresses": [endpoint.address.to_string()],
        "EndpointPort": endpoint.port,
        "Labels": *workload.labels,
        "Locality": {"Label": workload.locality.to_string(), "ClusterID": workload.cluster.as_str()},
        "Network": workload.network,
        "ServiceAccount": workload.identity.as_ref().map(ToString::to_string),
        "TLSMode": format!("{:?}", workload.tls).to_lowercase(),
        "WorkloadName": workload.name,
        "Namespace": workload.namespace.as_str(),
        "HealthStatus": format!("{:?}", endpoint.health),
        "LbWeight": endpoint.weight,
        "NodeName": workload.node,
    })
}

fn endpointz(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    let snapshot = engine.snapshot()?;
    let rows = snapshot.services.keys().map(|key| {
        let endpoints = snapshot.endpoints_of(key);
        let rows: Vec<Value> = endpoints.iter().map(|(port, one)| endpoint(port, one)).collect();
        json!({"svc": key.hostname.to_string(), "namespace": key.namespace.as_str(), "ep": rows})
    });
    Some(rows.collect())
}

fn configz(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    let snapshot = engine.snapshot()?;
    let config = &snapshot.config;
    let mut rows = Vec::new();
    objects(&config.virtual_services, &mut rows);
    objects(&config.destination_rules, &mut rows);
    objects(&config.gateways, &mut rows);
    objects(&config.service_entries, &mut rows);
    objects(&config.workload_entries, &mut rows);
    objects(&config.workload_groups, &mut rows);
    objects(&config.sidecars, &mut rows);
    objects(&config.envoy_filters, &mut rows);
    objects(&config.proxy_configs, &mut rows);
    objects(&config.peer_authentications, &mut rows);
    objects(&config.request_authentications, &mut rows);
    objects(&config.authorization_policies, &mut rows);
    objects(&config.telemetries, &mut rows);
    objects(&config.wasm_plugins, &mut rows);
    objects(&config.traffic_extensions, &mut rows);
    Some(rows.into())
}

fn objects<S: Wire>(table: &ConfigTable<S>, rows: &mut Vec<Value>) {
    for (key, object) in table.entries() {
        rows.push(json!({
            "apiVersion": key.kind.api_version(),
            "kind": key.kind.name(),
            "metadata": {
                "name": object.meta.name,
                "namespace": object.meta.namespace,
                "labels": object.meta.labels,
                "annotations": object.meta.annotations,
                "resourceVersion": object.meta.resource_version,
                "generation": object.meta.generation,
                "creationTimestamp": object.meta.created.map(|at| at.to_string()),
            },
            "spec": object.spec.write(),
        }));
    }
}

fn clusterz(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    let snapshot = engine.snapshot()?;
    let id = snapshot.settings.cluster.as_str().to_owned();
    let status = if engine.is_ready() { "synced" } else { "syncing" };
    Some(json!([{"id": id, "secretName": "", "syncStatus": status}]))
}

fn networkz(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    let snapshot = engine.snapshot()?;
    Some(json!(format!("{:?}", snapshot.gateways)))
}

fn of_proxy(asked: &Asked, engine: &Engine, access: &Access, kind: Kind) -> Option<Value> {
    let id = asked.get("proxyID")?;
    let connection = engine.connection(id).filter(|connection| access.sees(connection))?;
    let set = connection.resources(kind).unwrap_or_default();
    let one = |resource: &ironsail_xds::Resource| {
        let type_url = kind.type_url().to_owned();
        let value = resource.body().clone();
        to_json_any(&ironsail_proto::google::protobuf::Any { type_url, value }).ok()
    };
    Some(set.iter().filter_map(one).collect())
}

fn edsz(asked: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    match asked.get("proxyID") {
        Some(_) => of_proxy(asked, engine, access, Kind::Endpoint),
        None => endpointz(asked, engine, access),
    }
}

fn ndsz(asked: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    of_proxy(asked, engine, access, Kind::NameTable)
}

fn dump(asked: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    let id = asked.get("proxyID")?;
    let connection = engine.connection(id).filter(|connection| access.sees(connection))?;
    to_json(&config_dump(&connection)).ok()
}

fn push_context(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    let snapshot = engine.snapshot()?;
    let sizes = engine.sizes();
    Some(json!({
        "revision": sizes.revision,
        "services": snapshot.services.len(),
        "endpoints": endpoint_count(&snapshot),
        "workloads": snapshot.workloads.len(),
        "proxies": sizes.connections,
        "classes": sizes.classes,
    }))
}

fn endpoint_count(snapshot: &Snapshot) -> usize {
    snapshot.services.keys().map(|key| snapshot.endpoints_of(key).len()).sum()
}

fn push_status(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    serde_json::to_value(engine.diagnostics()).ok()
}

fn cachez(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    let (sizes, counts) = (engine.sizes(), engine.counts());
    let types: serde_json::Map<String, Value> = Kind::ALL
        .into_iter()
        .map(|kind| {
            let of = counts.of(kind);
            let row = json!({"generations": of.generations, "hits": of.hits, "pushes": of.pushes,
                "resources": of.resources, "bytes": of.bytes});
            (kind.short().to_owned(), row)
        })
        .collect();
    Some(json!({"resources": sizes.resources, "sets": sizes.sets, "types": types}))
}

fn mesh(_: &Asked, engine: &Engine, access: &Access) -> Option<Value> {
    everything(access)?;
    Some(engine.snapshot()?.mesh.config.write())
}
