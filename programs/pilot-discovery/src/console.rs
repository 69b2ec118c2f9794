//! What the page shows of the mesh: the engine is looked at, nothing is changed.

mod object;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use ironsail_api::ObjectKey;
use ironsail_console::{
    Finding, Object, Overview, Proxy, Push, Refusal, Report, Scrapeable, Service, Workload,
    WorkloadDetail, World,
};
use ironsail_discovery::{Connection, Distribution, Engine, Kind, SyncStatus};
use ironsail_model::config::Target;
use ironsail_model::{Snapshot, TlsMode};
use serde_json::Value;

/// Envoy's and the agent's ports for metrics.
const ENVOY_PORT: u16 = 15090;
const AGENT_PORT: u16 = 15020;

/// The mesh as this control plane sees it.
pub(crate) struct Mesh {
    pub(crate) engine: Weak<Engine>,
    pub(crate) version: String,
    pub(crate) revision: String,
}

impl Mesh {
    fn now(&self) -> Option<(Arc<Engine>, Arc<Snapshot>)> {
        let engine = self.engine.upgrade()?;
        let snapshot = engine.snapshot()?;
        Some((engine, snapshot))
    }
}

/// Proxies by the workload they run beside.
type Connected = BTreeMap<ObjectKey, Arc<Connection>>;

fn connected(engine: &Engine, snapshot: &Snapshot) -> Connected {
    let of = |connection: Arc<Connection>| {
        let workload = snapshot.workloads.of_proxy(&connection.proxy)?;
        Some((workload.source.clone(), connection))
    };
    engine.connections().into_iter().filter_map(of).collect()
}

fn addresses(snapshot: &Snapshot) -> BTreeMap<&ObjectKey, Vec<IpAddr>> {
    let mut all: BTreeMap<&ObjectKey, Vec<IpAddr>> = BTreeMap::new();
    for (ip, key) in snapshot.workloads.addresses() {
        all.entry(key).or_default().push(ip);
    }
    all
}

/// The names of the services that each workload stands behind.
fn served(snapshot: &Snapshot) -> BTreeMap<ObjectKey, BTreeSet<String>> {
    let mut all: BTreeMap<ObjectKey, BTreeSet<String>> = BTreeMap::new();
    for service in snapshot.services.iter() {
        for (_, endpoint) in snapshot.endpoints_of(&service.key).iter() {
            let of = all.entry(endpoint.workload.source.clone()).or_default();
            of.insert(service.key.hostname.to_string());
        }
    }
    all
}

fn row(
    snapshot: &Snapshot,
    workload: &ironsail_model::Workload,
    addresses: &[IpAddr],
    connection: Option<&Connection>,
) -> Workload {
    let target = Target::workload(&workload.namespace, &workload.labels);
    let mode = snapshot.peer_mode(target).mode;
    let version = workload.labels.get("version").cloned().unwrap_or_default();
    Workload {
        namespace: workload.namespace.to_string(),
        name: workload.source.name.to_string(),
        workload: workload.name.to_string(),
        kind: workload.owner_kind.to_string(),
        app: workload.canonical_name.to_string(),
        version,
        addresses: addresses.iter().map(ToString::to_string).collect(),
        node: workload.node.to_string(),
        identity: workload.identity.as_ref().map(ToString::to_string),
        mutual_tls: format!("{mode:?}").to_uppercase(),
        services: Vec::new(),
        proxy: connection.map(proxy),
        injected: workload.tls == TlsMode::Istio,
        certificate: None,
    }
}

fn word(status: SyncStatus) -> &'static str {
    match status {
        SyncStatus::NotSent => "NOT SENT",
        SyncStatus::Synced => "SYNCED",
        SyncStatus::Stale => "STALE",
        SyncStatus::Error => "ERROR",
    }
}

fn proxy(connection: &Connection) -> Proxy {
    let types = connection.types();
    let known = Kind::ALL.into_iter().filter_map(|kind| Some((kind, types.get(kind.type_url())?)));
    let mut refused = None;
    let mut state = BTreeMap::new();
    for (kind, of) in known {
        state.insert(kind.short().to_owned(), word(of.status()).to_owned());
        if let Some(nack) = &of.nack {
            refused = Some(format!("{} refused: {}", kind.short(), nack.rejection.message));
        }
    }
    Proxy {
        id: connection.proxy.id.to_string(),
        kind: format!("{:?}", connection.proxy.kind).to_lowercase(),
        version: connection.proxy.version.to_string(),
        since: connection.since.to_string(),
        state,
        refused,
    }
}

impl World for Mesh {
    fn overview(&self) -> Overview {
        let mut overview = Overview {
            version: self.version.clone(),
            revision: self.revision.clone(),
            ..Overview::default()
        };
        let Some((engine, snapshot)) = self.now() else { return overview };
        let findings = engine.diagnostics();
        let of =
            |severity: &str| findings.iter().filter(|f| f.severity.to_string() == severity).count();
        let mut objects = 0;
        object::visit(&snapshot.config, &mut |_, _, _| objects += 1);
        let connections = engine.connections();
        let refusals: usize = connections
            .iter()
            .map(|c| c.types().values().filter(|t| t.nack.is_some()).count())
            .sum();
        overview.cluster = snapshot.settings.cluster.to_string();
        overview.root_namespace = snapshot.root_namespace().to_string();
        overview.trust_domain = snapshot.mesh.config.trust_domain.clone();
        overview.ready = engine.is_ready();
        overview.services = snapshot.services.len();
        overview.workloads = snapshot.workloads.len();
        overview.proxies = connections.len();
        (overview.objects, overview.refusals) = (objects, refusals);
        (overview.errors, overview.warnings) = (of("Error"), of("Warning"));
        overview.convergence = quantiles(&engine.counters().convergence.read());
        let workloads = snapshot.workloads.iter().map(|(_, w)| w.namespace.to_string());
        let services = snapshot.services.keys().map(|key| key.namespace.to_string());
        overview.namespaces =
            workloads.chain(services).collect::<BTreeSet<_>>().into_iter().collect();
        overview
    }

    fn is_ready(&self) -> bool {
        self.engine.upgrade().is_some_and(|engine| engine.is_ready())
    }

    fn workloads(&self) -> Vec<Workload> {
        let Some((engine, snapshot)) = self.now() else { return Vec::new() };
        let (connected, addresses) = (connected(&engine, &snapshot), addresses(&snapshot));
        let mut served = served(&snapshot);
        let rows = snapshot.workloads.iter().map(|(key, workload)| {
            let at = addresses.get(key).map_or(&[][..], Vec::as_slice);
            let mut row = row(&snapshot, workload, at, connected.get(key).map(|c| &**c));
            row.services = served.remove(key).unwrap_or_default().into_iter().collect();
            row
        });
        rows.collect()
    }

    fn workload(&self, namespace: &str, name: &str) -> Option<WorkloadDetail> {
        let (engine, snapshot) = self.now()?;
        let is_it = |key: &ObjectKey| &*key.namespace == namespace && &*key.name == name;
        let (key, workload) = snapshot.workloads.iter().find(|(key, _)| is_it(key))?;
        let addresses = addresses(&snapshot);
        let at = addresses.get(key).map_or(&[][..], Vec::as_slice);
        let connection = connected(&engine, &snapshot).remove(key);
        let mut row = row(&snapshot, workload, at, connection.as_deref());
        row.services = served(&snapshot).remove(key).unwrap_or_default().into_iter().collect();
        let mut detail =
            WorkloadDetail { row, labels: (*workload.labels).clone(), ..Default::default() };
        if let Some(connection) = &connection {
            detail.words = words::of(&snapshot, &snapshot.class_of(&connection.proxy));
            let counts = Kind::ALL.into_iter().filter_map(|kind| {
                Some((kind.short().to_owned(), connection.resources(kind)?.len()))
            });
            detail.resources = counts.collect();
        }
        Some(detail)
    }

    fn services(&self) -> Vec<Service> {
        let Some((_, snapshot)) = self.now() else { return Vec::new() };
        let by_host = object::by_host(&snapshot);
        let one = |service: &Arc<ironsail_model::Service>| {
            let endpoints = snapshot.endpoints_of(&service.key);
            let places: BTreeMap<String, bool> =
                endpoints.iter().map(|(_, e)| (e.address.to_string(), e.is_healthy())).collect();
            let workloads: BTreeSet<String> =
                endpoints.iter().map(|(_, e)| e.workload.name.to_string()).collect();
            let host = service.key.hostname.to_string();
            Service {
                namespace: service.key.namespace.to_string(),
                name: service.name.to_string(),
                kind: format!("{:?}", service.kind),
                addresses: service.addresses.iter().map(ToString::to_string).collect(),
                ports: service
                    .ports
                    .iter()
                    .map(|port| format!("{}/{}", port.number, words::protocol(port)))
                    .collect(),
                endpoints: places.len(),
                healthy: places.values().filter(|healthy| **healthy).count(),
                workloads: workloads.into_iter().collect(),
                objects: by_host.get(&host).cloned().unwrap_or_default(),
                host,
            }
        };
        snapshot.services.iter().map(one).collect()
    }

    fn objects(&self) -> Vec<Object> {
        let Some((engine, snapshot)) = self.now() else { return Vec::new() };
        let mut findings = object::findings(&engine);
        let mut rows = Vec::new();
        object::visit(&snapshot.config, &mut |key, meta, _| {
            let place = (key.kind.name().to_owned(), meta.namespace.clone(), meta.name.clone());
            rows.push(Object {
                findings: findings.remove(&place).unwrap_or_default(),
                kind: place.0,
                namespace: place.1,
                name: place.2,
                created: meta.created.map(|at| at.to_string()),
            });
        });
        // What could not even be read, and objects of other kinds.
        rows.extend(findings.into_iter().map(|((kind, namespace, name), findings)| Object {
            kind,
            namespace,
            name,
            created: None,
            findings,
        }));
        rows
    }

    fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let (engine, snapshot) = self.now()?;
        let mut found = None;
        object::visit(&snapshot.config, &mut |key, meta, spec| {
            if key.kind.name() == kind && meta.namespace == namespace && meta.name == name {
                found = Some(object::whole(key, meta, &spec()));
            }
        });
        let mut object = found?;
        let place = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let findings = object::findings(&engine).remove(&place).unwrap_or_default();
        object["findings"] = serde_json::to_value::<Vec<Finding>>(findings).unwrap_or_default();
        Some(object)
    }

    fn pushes(&self) -> Report {
        let Some(engine) = self.engine.upgrade() else { return Report::default() };
        let counts = engine.counts();
        let types = Kind::ALL.into_iter().map(|kind| {
            let of = counts.of(kind);
            Push {
                kind: kind.short().to_owned(),
                pushes: of.pushes,
                refused: of.rejected,
                resources: of.resources,
                bytes: of.bytes,
            }
        });
        let mut report = Report { types: types.collect(), ..Report::default() };
        for connection in engine.connections() {
            for (type_url, state) in connection.types() {
                let Some(kind) = Kind::of(&type_url) else { continue };
                let one = |at: String| Refusal {
                    proxy: connection.proxy.id.to_string(),
                    namespace: connection.proxy.namespace.to_string(),
                    kind: kind.short().to_owned(),
                    at,
                    ..Refusal::default()
                };
                match (state.status(), &state.nack, &state.sent) {
                    (SyncStatus::Error, Some(nack), _) => {
                        let message = nack.rejection.message.to_string();
                        let objects = nack.objects.clone();
                        report.refusals.push(Refusal {
                            message,
                            objects,
                            ..one(nack.at.to_string())
                        });
                    }
                    (SyncStatus::Stale, _, Some(sent)) => {
                        report.waiting.push(one(sent.at.to_string()));
                    }
                    _ => {}
                }
            }
        }
        report
    }

    fn scrapeable(&self) -> Vec<Scrapeable> {
        let Some((engine, snapshot)) = self.now() else { return Vec::new() };
        let connected = connected(&engine, &snapshot);
        let mut seen = BTreeSet::new();
        let one = |(ip, key): (IpAddr, &ObjectKey)| {
            let workload = snapshot.workloads.get(key)?;
            let has_proxy = workload.tls == TlsMode::Istio || connected.contains_key(key);
            // One address of each.
            (has_proxy && seen.insert(key.clone())).then(|| Scrapeable {
                name: format!("{}/{}", key.namespace, key.name),
                metrics: SocketAddr::new(ip, ENVOY_PORT),
                agent: SocketAddr::new(ip, AGENT_PORT),
            })
        };
        snapshot.workloads.addresses().filter_map(one).collect()
    }
}

/// Median and 99th percentile; none while nothing was counted.
fn quantiles(of: &Distribution) -> Option<(f64, f64)> {
    if of.count == 0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a share of a count")]
    let at = |part: f64| {
        let rank = of.count as f64 * part;
        let end =
            ironsail_discovery::BUCKETS.iter().zip(of.buckets).find(|(_, n)| *n as f64 >= rank);
        end.map_or(f64::MAX, |(end, _)| *end)
    };
    Some((at(0.5), at(0.99))).filter(|(_, late)| *late < f64::MAX)
}
