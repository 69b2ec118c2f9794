//! Routes of gateways: one configuration for each plain port, and one for each server behind TLS.
//!
//! In: the servers that share the configuration, and VirtualServices bound to their Gateways. Out: a
//! virtual host for each host that a server and a VirtualService have in common. VirtualServices for
//! the same host add up, oldest first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ironsail_api::{Diagnostic, Kind};
use ironsail_model::{GatewayRef, ProxyClass, Scope, Snapshot, scope::HostPattern};
use ironsail_names::{ClusterDomain, Hostname};
use ironsail_proto::envoy::config::route::v3::{
    RouteConfiguration, VirtualHost, virtual_host::TlsRequirementType,
};

use super::assembly::{self, Assembly};
use super::destination::Targets;
use super::memo::{Made, Memo};
use super::virtual_service::{Context, Source};
use super::{Client, Retries, client_of, domain, part, plan};
use crate::filter::settings::Settings;
use crate::filter::wire;
use crate::listener::{Merged, ServerKind};
use crate::problem::Problems;

/// All that one route configuration of a gateway is made of.
#[derive(Clone, Debug, Hash)]
pub struct Routes<'a> {
    name: String,
    servers: Vec<Server<'a>>,
    targets: Targets,
    client: Client,
    domain: ClusterDomain,
    attempt_count: bool,
    forwarded_host: bool,
    retries: Retries,
}

#[derive(Clone, Debug, Hash)]
struct Server<'a> {
    gateway: GatewayRef,
    number: u16,
    tls: bool,
    https_redirect: bool,
    hosts: Vec<HostPattern>,
    /// Oldest first.
    sources: Vec<Source<'a>>,
}

pub(super) fn all<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    settings: &Settings,
) -> Vec<Routes<'a>> {
    let merged = Merged::of(snapshot, scope, class);
    let mut by_name: BTreeMap<String, Vec<Server<'a>>> = BTreeMap::new();
    for server in merged.places.values().flatten() {
        let (ServerKind::Http(name) | ServerKind::Https(name, _)) = &server.kind else { continue };
        let gateway = server.gateway_ref();
        let bound = snapshot.config.routes.bound_to(&gateway, &class.namespace);
        let sources = bound
            .filter(|object| !object.spec.http.is_empty())
            .map(|object| plan::source(snapshot, object))
            .filter(|source| {
                let namespace = &source.object.meta.namespace;
                source
                    .hosts()
                    .iter()
                    .any(|host| server.hosts.iter().any(|p| p.includes(host, namespace)))
            })
            .collect();
        by_name.entry(name.clone()).or_default().push(Server {
            gateway,
            number: server.number,
            tls: server.is_tls(),
            https_redirect: server.https_redirect,
            hosts: server.hosts.clone(),
            sources,
        });
    }
    let build = |(name, servers): (String, Vec<Server<'a>>)| {
        let sources: Vec<Source<'a>> =
            servers.iter().flat_map(|s| s.sources.iter().cloned()).collect();
        Routes {
            name,
            targets: plan::targets(snapshot, scope, class, &sources),
            client: match sources.iter().any(Source::asks_for_source) {
                true => client_of(class),
                false => Client::default(),
            },
            servers,
            domain: snapshot.settings.domain.clone(),
            attempt_count: settings.headers.attempt_count,
            forwarded_host: settings.headers.forwarded_host,
            retries: Retries::of(snapshot),
        }
    };
    by_name.into_iter().map(build).collect()
}

/// A virtual host while it is put together.
#[derive(Default)]
struct Building {
    port: u16,
    routes: Vec<Arc<Made>>,
    redirects: bool,
    /// Whose routes are in: several servers of a Gateway may have the host.
    from: BTreeSet<(GatewayRef, String)>,
}

impl Routes<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn assemble(&self, memo: &Memo) -> Assembly {
        let mut found = Vec::new();
        // Hostnames order by how specific they are.
        let mut hosts: BTreeMap<Hostname, Building> = BTreeMap::new();
        for server in &self.servers {
            self.serve(server, &mut hosts, memo, &mut found);
        }
        let mut hosts = self.collapse(hosts);
        if hosts.is_empty() {
            let port = self.servers.first().map_or(0, |server| server.number);
            let frame = VirtualHost {
                name: domain::with_port("blackhole", port),
                domains: vec!["*".into()],
                ..Default::default()
            };
            hosts.push(assembly::Host { frame, routes: Vec::new() });
        }
        hosts.sort_by(|a, b| a.frame.name.cmp(&b.frame.name));
        let frame = RouteConfiguration {
            name: self.name.clone(),
            validate_clusters: wire::flag(false),
            max_direct_response_body_size_bytes: part::MAX_DIRECT_BODY,
            ignore_port_in_host_matching: true,
            ..Default::default()
        };
        Assembly::new(frame, hosts, found)
    }

    fn serve(
        &self,
        server: &Server<'_>,
        hosts: &mut BTreeMap<Hostname, Building>,
        memo: &Memo,
        found: &mut Vec<Diagnostic>,
    ) {
        let context = Context {
            listen_port: server.number,
            gateway: &server.gateway,
            labels: &self.client.labels,
            namespace: &self.client.namespace,
            tls: server.tls,
            targets: &self.targets,
            retries: &self.retries,
            domain: &self.domain,
            forwarded_host: self.forwarded_host,
        };
        for source in &server.sources {
            let common = common(server, source);
            if common.is_empty() {
                continue;
            }
            let routes = source.made(&context, memo);
            found.extend(routes.diagnostics.iter().cloned());
            if routes.is_empty() {
                continue;
            }
            for host in common {
                let building = hosts.entry(host.clone()).or_default();
                building.redirects |= server.https_redirect;
                if !building.from.insert((server.gateway.clone(), source.path())) {
                    continue;
                }
                if building.routes.last().is_some_and(|last| last.takes_all()) {
                    let text = format!(
                        "older routes for {host} take everything; these have no effect there"
                    );
                    Problems::new(Kind::VirtualService, &source.object.meta, found)
                        .conflict("spec.hosts", text);
                }
                building.port = server.number;
                building.routes.push(routes.clone());
            }
        }
        // Without routes of its own a host is redirected all the same.
        if server.https_redirect {
            for pattern in &server.hosts {
                let building = hosts.entry(pattern.host.clone()).or_default();
                building.port = server.number;
                building.redirects = true;
            }
        }
    }

    /// Hosts with the same routes share a virtual host.
    fn collapse(&self, hosts: BTreeMap<Hostname, Building>) -> Vec<assembly::Host> {
        let mut out: Vec<assembly::Host> = Vec::new();
        let mut known: HashMap<(bool, Vec<u8>), usize> = HashMap::new();
        for (host, building) in hosts {
            let firsts = building.routes.iter().map(|made| &made.first);
            let lasts = building.routes.iter().map(|made| &made.last);
            let bytes: Vec<u8> = firsts.chain(lasts).flatten().copied().collect();
            let same = *known.entry((building.redirects, bytes)).or_insert(out.len());
            if let Some(other) = out.get_mut(same) {
                other.frame.domains.push(host.to_string());
                continue;
            }
            let require_tls = match building.redirects {
                true => TlsRequirementType::All.into(),
                false => TlsRequirementType::None.into(),
            };
            let frame = VirtualHost {
                name: domain::with_port(&host, building.port),
                domains: vec![host.to_string()],
                require_tls,
                include_request_attempt_count: self.attempt_count,
                ..Default::default()
            };
            out.push(assembly::Host { frame, routes: building.routes });
        }
        out
    }
}

/// The hosts that both mean: of two patterns the narrower one.
fn common(server: &Server<'_>, source: &Source<'_>) -> Vec<Hostname> {
    let namespace = &source.object.meta.namespace;
    let mut out: Vec<Hostname> = Vec::new();
    for host in source.hosts() {
        for pattern in server.hosts.iter().filter(|p| p.includes(host, namespace)) {
            let narrower = match host.is_subset_of(&pattern.host) {
                true => host,
                false => &pattern.host,
            };
            if !out.contains(narrower) {
                out.push(narrower.clone());
            }
        }
    }
    out
}
