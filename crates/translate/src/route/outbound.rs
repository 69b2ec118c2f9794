//! Routes of sidecars: one configuration for each port, and one for each service whose protocol is
//! sniffed.
//!
//! In: hosts on the port, VirtualServices for the mesh. Out: virtual hosts sorted by name, and one for
//! all other hosts. The oldest VirtualService for a host wins; the others are told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_api::{Diagnostic, Kind};
use ironsail_model::GatewayRef;
use ironsail_names::{ClusterDomain, ClusterName, Hostname};
use ironsail_proto::envoy::config::route::v3::{
    Route, RouteConfiguration, VirtualHost, route::Action,
};

use super::assembly::{self, Assembly};
use super::destination::{HashBy, Targets};
use super::memo::{Made, Memo};
use super::virtual_service::{Context, Source, retry};
use super::{Retries, domain, part};
use crate::filter::settings::Egress;
use crate::filter::wire;
use crate::problem::Problems;

/// All that one route configuration of a sidecar is made of.
#[derive(Clone, Debug, Hash)]
pub struct Outbound<'a> {
    pub(super) name: String,
    /// 0 for all ports: clients that know they use a proxy say the port themselves.
    pub(super) port: u16,
    /// Only this host, whatever the client calls it.
    pub(super) sniffed: Option<Hostname>,
    /// By name.
    pub(super) hosts: Vec<Host>,
    /// Oldest first.
    pub(super) sources: Vec<Source<'a>>,
    /// Of their hosts, those that are services without this port: nobody can mean them here.
    pub(super) elsewhere: BTreeSet<Hostname>,
    pub(super) targets: Targets,
    pub(super) client: super::Client,
    /// The DNS domain of the proxy.
    pub(super) proxy_domain: Arc<str>,
    pub(super) cluster_domain: ClusterDomain,
    pub(super) egress: Egress,
    pub(super) attempt_count: bool,
    pub(super) forwarded_host: bool,
    pub(super) retries: Retries,
}

/// A service on a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Host {
    pub(super) name: Hostname,
    pub(super) port: u16,
    /// HTTP, or not known: else no request will come here.
    pub(super) http: bool,
    pub(super) addresses: Vec<IpAddr>,
    /// Pods have names of their own under it.
    pub(super) headless: bool,
    /// Other names of it.
    pub(super) aliases: Vec<Hostname>,
    pub(super) hash: Option<HashBy>,
}

/// Routes and who gets them.
struct Group<'a> {
    port: u16,
    source: Option<&'a Source<'a>>,
    /// Hosts that no service has.
    free: Vec<Hostname>,
    hosts: Vec<&'a Host>,
    routes: Arc<Made>,
}

impl Outbound<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn assemble(&self, memo: &Memo) -> Assembly {
        let mut found = Vec::new();
        let groups = self.groups(memo, &mut found);
        let mut hosts = self.virtual_hosts(&groups, &mut found);
        hosts.sort_by(|a, b| a.frame.name.cmp(&b.frame.name));
        match self.sniffed {
            // The listener is for this host alone, so every name means it.
            Some(_) => {
                hosts.truncate(1);
                for host in &mut hosts {
                    host.frame.domains = vec!["*".into()];
                }
            }
            None => hosts.push(self.catch_all()),
        }
        let frame = RouteConfiguration {
            name: self.name.clone(),
            validate_clusters: wire::flag(false),
            max_direct_response_body_size_bytes: part::MAX_DIRECT_BODY,
            ignore_port_in_host_matching: true,
            ..Default::default()
        };
        Assembly::new(frame, hosts, found)
    }

    fn catch_all(&self) -> assembly::Host {
        let mut frame = part::catch_all(&self.egress, self.attempt_count);
        let routes = std::mem::take(&mut frame.routes);
        let made = Made::new(routes, self.forwarded_host, Vec::new());
        assembly::Host { frame, routes: vec![Arc::new(made)] }
    }

    /// VirtualServices first, oldest first, then the services that have none.
    fn groups<'s>(&'s self, memo: &Memo, found: &mut Vec<Diagnostic>) -> Vec<Group<'s>> {
        let chosen = self.chosen();
        let mut out = Vec::new();
        let mut taken: BTreeSet<(&Hostname, u16)> = BTreeSet::new();
        for (index, source) in self.sources.iter().enumerate() {
            for group in self.of_source((index, source), &chosen, memo, found) {
                taken.extend(group.hosts.iter().map(|host| (&host.name, host.port)));
                out.push(group);
            }
        }
        for host in self.hosts.iter().filter(|host| host.http) {
            if !taken.contains(&(&host.name, host.port)) {
                out.push(Group {
                    port: host.port,
                    source: None,
                    free: Vec::new(),
                    hosts: vec![host],
                    routes: self.default_routes(host, memo),
                });
            }
        }
        out
    }

    /// Which VirtualService is for a service: an exact host before a pattern, a longer pattern before
    /// a shorter one, the oldest among equals.
    fn chosen(&self) -> BTreeMap<&Hostname, usize> {
        let mut best: BTreeMap<&Hostname, (&Hostname, usize)> = BTreeMap::new();
        for (index, source) in self.sources.iter().enumerate() {
            for pattern in source.hosts().iter().filter(|p| !is_all(p)) {
                for host in self.covered(pattern) {
                    // Hostnames order by how specific they are.
                    match best.get(&host.name) {
                        Some((former, _)) if *former <= pattern => {}
                        _ => drop(best.insert(&host.name, (pattern, index))),
                    }
                }
            }
        }
        best.into_iter().map(|(host, (_, index))| (host, index)).collect()
    }

    /// The hosts that a VirtualService's host means: the same name, or those that a pattern is for.
    /// A name is looked up, so that many VirtualServices do not cost their square.
    fn covered<'s, 'p>(
        &'s self,
        pattern: &'p Hostname,
    ) -> impl Iterator<Item = &'s Host> + use<'s, 'p> {
        let hosts = match pattern.is_wildcard() {
            true => &self.hosts[..],
            false => super::plan::named(&self.hosts, pattern),
        };
        hosts.iter().filter(|host| !pattern.is_wildcard() || host.name.matches(pattern))
    }

    fn of_source<'s>(
        &'s self,
        (index, source): (usize, &'s Source<'s>),
        chosen: &BTreeMap<&Hostname, usize>,
        memo: &Memo,
        found: &mut Vec<Diagnostic>,
    ) -> Vec<Group<'s>> {
        let mut free = Vec::new();
        let mut hosts: Vec<&Host> = Vec::new();
        for pattern in source.hosts() {
            if is_all(pattern) {
                Problems::new(Kind::VirtualService, &source.object.meta, found).invalid(
                    "spec.hosts",
                    "sidecars cannot route all hosts; * means nothing to them",
                );
                continue;
            }
            let matching: Vec<&Host> = self.covered(pattern).collect();
            if matching.is_empty() {
                if !self.elsewhere.contains(pattern) {
                    free.push(pattern.clone());
                }
                continue;
            }
            for host in matching {
                if chosen.get(&host.name) == Some(&index) {
                    if !hosts.iter().any(|h| h.name == host.name && h.port == host.port) {
                        hosts.push(host);
                    }
                } else if !pattern.is_wildcard() {
                    self.tell_conflict(source, &host.name, chosen, found);
                }
            }
        }
        let mut ports: BTreeMap<u16, Vec<&Host>> = BTreeMap::new();
        for host in hosts.iter().filter(|host| host.http) {
            ports.entry(host.port).or_default().push(host);
        }
        // Hosts that no service has are served where plain HTTP is expected.
        if ports.is_empty() && !free.is_empty() && self.port == 80 && self.sniffed.is_none() {
            ports.insert(80, Vec::new());
        }
        let mut out = Vec::new();
        for (port, hosts) in ports {
            let routes = source.made(&self.context(port), memo);
            found.extend(routes.diagnostics.iter().cloned());
            if !routes.is_empty() {
                let free = if self.sniffed.is_some() { Vec::new() } else { free.clone() };
                out.push(Group { port, source: Some(source), free, hosts, routes });
            }
        }
        out
    }

    fn tell_conflict(
        &self,
        source: &Source<'_>,
        host: &Hostname,
        chosen: &BTreeMap<&Hostname, usize>,
        found: &mut Vec<Diagnostic>,
    ) {
        let meta = &source.object.meta;
        let Some(winner) = chosen.get(host).and_then(|index| self.sources.get(*index)) else {
            return;
        };
        let winner = &winner.object.meta;
        let text = format!(
            "VirtualService {}/{} already has routes for {host}; these have no effect",
            winner.namespace, winner.name
        );
        Problems::new(Kind::VirtualService, meta, found).conflict("spec.hosts", text);
    }

    fn context(&self, port: u16) -> Context<'_> {
        Context {
            listen_port: port,
            gateway: &GatewayRef::Mesh,
            labels: &self.client.labels,
            namespace: &self.client.namespace,
            tls: false,
            targets: &self.targets,
            retries: &self.retries,
            domain: &self.cluster_domain,
            forwarded_host: self.forwarded_host,
        }
    }

    /// The routes of a service that no VirtualService has any for.
    fn default_routes(&self, host: &Host, memo: &Memo) -> Arc<Made> {
        let Host { name, port, hash, .. } = host;
        memo.get(&("default", name, port, hash, &self.retries, self.forwarded_host), || {
            Made::new(vec![self.default_route(host)], self.forwarded_host, Vec::new())
        })
    }

    fn default_route(&self, host: &Host) -> Route {
        let cluster = ClusterName::outbound(host.port, "", host.name.clone()).to_string();
        let mut action = part::action(&cluster);
        action.retry_policy = retry::policy(self.retries.get(), false);
        action.hash_policy.extend(host.hash.as_ref().map(HashBy::policy));
        Route {
            name: part::DEFAULT.into(),
            r#match: Some(part::everything()),
            decorator: Some(part::decorator(format!("{}:{}/*", host.name, host.port))),
            action: Some(Action::Route(action)),
            ..Default::default()
        }
    }

    fn virtual_hosts(
        &self,
        groups: &[Group<'_>],
        found: &mut Vec<Diagnostic>,
    ) -> Vec<assembly::Host> {
        let mut built = Built {
            full: groups.iter().flat_map(|g| g.hosts.iter().map(|h| h.name.to_string())).collect(),
            ..Default::default()
        };
        for group in groups {
            for host in &group.free {
                let names = vec![(host.to_string(), false)];
                self.add(&mut built, group, host, names, found);
            }
            for host in &group.hosts {
                self.add(&mut built, group, &host.name, self.names(host), found);
            }
        }
        built.hosts
    }

    /// All names of a service; second, whether the name is one that we shortened.
    fn names(&self, host: &Host) -> Vec<(String, bool)> {
        let mut out = Vec::new();
        for name in std::iter::once(&host.name).chain(&host.aliases) {
            out.push((name.to_string(), false));
            let short = domain::short_names(name.as_str(), &self.proxy_domain);
            out.extend(short.into_iter().map(|name| (name, true)));
        }
        if host.headless {
            let pods: Vec<_> =
                out.iter().map(|(name, short)| (format!("*.{name}"), *short)).collect();
            out.extend(pods);
        }
        out.extend(host.addresses.iter().map(|ip| (domain::bracketed(&ip.to_string()), false)));
        out
    }

    fn add(
        &self,
        built: &mut Built,
        group: &Group<'_>,
        host: &Hostname,
        names: Vec<(String, bool)>,
        found: &mut Vec<Diagnostic>,
    ) {
        let name = domain::with_port(host, group.port);
        if !built.names.insert(name.clone()) {
            self.tell_duplicate(group, &name, found);
            return;
        }
        let mut domains = Vec::new();
        let mut lost = false;
        for (name, short) in names {
            // The catch-all has this one; Envoy takes a domain only once.
            if name == "*" || (short && built.full.contains(&name)) {
                lost |= name == "*";
                continue;
            }
            let forms = match self.port {
                // Only here ports are looked at: 80 is what a client need not write.
                0 if group.port == 80 => vec![name.clone(), domain::with_port(&name, 80)],
                0 => vec![format!("{name}:{}", group.port)],
                _ => vec![name],
            };
            for form in forms {
                match built.domains.insert(form.to_ascii_lowercase()) {
                    true => domains.push(form),
                    false => lost |= !short,
                }
            }
        }
        if lost {
            self.tell_duplicate(group, &name, found);
        }
        if !domains.is_empty() {
            let frame = VirtualHost {
                name,
                domains,
                include_request_attempt_count: self.attempt_count,
                ..Default::default()
            };
            built.hosts.push(assembly::Host { frame, routes: vec![group.routes.clone()] });
        }
    }

    /// Services have no owner to tell; a VirtualService has.
    fn tell_duplicate(&self, group: &Group<'_>, name: &str, found: &mut Vec<Diagnostic>) {
        if let Some(source) = group.source {
            let text =
                format!("{name} has routes from elsewhere already; these have no effect there");
            Problems::new(Kind::VirtualService, &source.object.meta, found)
                .conflict("spec.hosts", text);
        }
    }
}

/// The virtual hosts so far, and what nobody else may have.
#[derive(Default)]
struct Built {
    hosts: Vec<assembly::Host>,
    /// Names of virtual hosts.
    names: BTreeSet<String>,
    /// Domains, in lower case.
    domains: BTreeSet<String>,
    /// Full names of services, which no shortened name may take.
    full: BTreeSet<String>,
}

/// `*` would take what has no routes at all, which the mesh decides about.
fn is_all(pattern: &Hostname) -> bool {
    pattern.as_str() == "*"
}
