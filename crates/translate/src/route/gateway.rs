//! Routes of gateways: one configuration for each plain port, and one for each server behind TLS.
//!
//! In: the servers that share the configuration, and VirtualServices bound to their Gateways. Out: a
//! virtual host for each host that a server and a VirtualService have in common. VirtualServices for
//! the same host add up, oldest first.

use std::collections::{BTreeMap, BTreeSet};

use ironsail_api::{Diagnostic, Kind};
use ironsail_model::{GatewayRef, ProxyClass, Scope, Snapshot, scope::HostPattern};
use ironsail_names::{ClusterDomain, Hostname};
use ironsail_proto::envoy::config::route::v3::{
    Route, RouteConfiguration, VirtualHost, virtual_host::TlsRequirementType,
};

use super::destination::Targets;
use super::virtual_service::{Context, Source, matching};
use super::{Client, Retries, client_of, domain, part, plan};
use crate::Translated;
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
        let domain = &snapshot.settings.domain;
        let sources = bound
            .filter(|object| !object.spec.http.is_empty())
            .map(|object| plan::source(snapshot, object))
            .filter(|source| {
                let namespace = &source.object.meta.namespace;
                let hosts = source.hosts(domain);
                hosts.iter().any(|host| server.hosts.iter().any(|p| p.includes(host, namespace)))
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
    routes: Vec<Route>,
    redirects: bool,
    /// Whose routes are in: several servers of a Gateway may have the host.
    from: BTreeSet<(GatewayRef, String)>,
}

impl Routes<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn translate(&self) -> Translated<RouteConfiguration> {
        let mut found = Vec::new();
        // Hostnames order by how specific they are.
        let mut hosts: BTreeMap<Hostname, Building> = BTreeMap::new();
        for server in &self.servers {
            self.serve(server, &mut hosts, &mut found);
        }
        let mut virtual_hosts = self.collapse(hosts);
        if virtual_hosts.is_empty() {
            let port = self.servers.first().map_or(0, |server| server.number);
            virtual_hosts.push(VirtualHost {
                name: domain::with_port("blackhole", port),
                domains: vec!["*".into()],
                ..Default::default()
            });
        }
        virtual_hosts.sort_by(|a, b| a.name.cmp(&b.name));
        let mut value = RouteConfiguration {
            name: self.name.clone(),
            virtual_hosts,
            validate_clusters: wire::flag(false),
            max_direct_response_body_size_bytes: part::MAX_DIRECT_BODY,
            ignore_port_in_host_matching: true,
            ..Default::default()
        };
        if self.forwarded_host {
            super::forward_host(&mut value);
        }
        Translated { value, diagnostics: found }
    }

    fn serve(
        &self,
        server: &Server<'_>,
        hosts: &mut BTreeMap<Hostname, Building>,
        found: &mut Vec<Diagnostic>,
    ) {
        let context = Context {
            listen_port: server.number,
            gateway: &server.gateway,
            labels: &self.client.labels,
            namespace: &self.client.namespace,
            tls: server.tls,
            targets: &self.targets,
            retries: self.retries.get(),
            domain: &self.domain,
        };
        for source in &server.sources {
            let common = common(server, source, &self.domain);
            if common.is_empty() {
                continue;
            }
            let routes = source.translate(&context, found);
            if routes.is_empty() {
                continue;
            }
            for host in common {
                let building = hosts.entry(host.clone()).or_default();
                building.redirects |= server.https_redirect;
                if !building.from.insert((server.gateway.clone(), source.path())) {
                    continue;
                }
                if building.routes.last().is_some_and(takes_all) {
                    let text = format!(
                        "older routes for {host} take everything; these have no effect there"
                    );
                    Problems::new(Kind::VirtualService, &source.object.meta, found)
                        .conflict("spec.hosts", text);
                }
                building.port = server.number;
                building.routes.extend(routes.iter().cloned());
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
    fn collapse(&self, hosts: BTreeMap<Hostname, Building>) -> Vec<VirtualHost> {
        let mut out: Vec<VirtualHost> = Vec::new();
        for (host, building) in hosts {
            let (last, first): (Vec<_>, Vec<_>) = building.routes.into_iter().partition(takes_all);
            let routes: Vec<Route> = first.into_iter().chain(last).collect();
            let require_tls = match building.redirects {
                true => TlsRequirementType::All.into(),
                false => TlsRequirementType::None.into(),
            };
            let same = |other: &&mut VirtualHost| {
                other.require_tls == require_tls && other.routes == routes
            };
            match out.iter_mut().find(same) {
                Some(other) => other.domains.push(host.to_string()),
                None => out.push(VirtualHost {
                    name: domain::with_port(&host, building.port),
                    domains: vec![host.to_string()],
                    routes,
                    require_tls,
                    include_request_attempt_count: self.attempt_count,
                    ..Default::default()
                }),
            }
        }
        out
    }
}

fn takes_all(route: &Route) -> bool {
    route.r#match.as_ref().is_some_and(matching::is_catch_all)
}

/// The hosts that both mean: of two patterns the narrower one.
fn common(server: &Server<'_>, source: &Source<'_>, domain: &ClusterDomain) -> Vec<Hostname> {
    let namespace = &source.object.meta.namespace;
    let mut out: Vec<Hostname> = Vec::new();
    for host in source.hosts(domain) {
        for pattern in server.hosts.iter().filter(|p| p.includes(&host, namespace)) {
            let narrower = match host.is_subset_of(&pattern.host) {
                true => &host,
                false => &pattern.host,
            };
            if !out.contains(narrower) {
                out.push(narrower.clone());
            }
        }
    }
    out
}
