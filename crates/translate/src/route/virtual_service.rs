//! The VirtualService stage: its HTTP routes as Envoy's, for one port and one gateway.
//!
//! In: a VirtualService with its delegates, and what its destinations come to. Out: routes in order,
//! up to the first that takes everything. A condition that cannot be understood makes its route match
//! nothing; an action that cannot be done answers 500. Both are told, and the other routes stand.

mod action;
mod delegate;
mod fault;
mod header;
pub(crate) mod matching;
pub(crate) mod retry;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ironsail_api::istio::networking::{HttpMatchRequest, HttpRoute, VirtualService};
use ironsail_api::{Diagnostic, Kind, Meta, Resource};
use ironsail_model::{GatewayRef, full_host, select};
use ironsail_names::{ClusterDomain, ClusterName, Hostname, Namespace};
use ironsail_proto::envoy::config::route::v3::{
    Route, route::Action, route_action::ClusterSpecifier, route_match::PathSpecifier,
};
use ironsail_proto::pack;

use super::destination::Targets;
use super::memo::{Made, Memo};
use super::{Retries, part};
use crate::filter::http;
use crate::metadata;
use crate::problem::Problems;

/// A VirtualService and those that it delegates to. Hashes by content.
#[derive(Clone, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) object: &'a Arc<Resource<VirtualService>>,
    /// By namespace and name.
    pub(crate) delegates: BTreeMap<(String, String), &'a Arc<Resource<VirtualService>>>,
    facts: Arc<Facts>,
}

/// What is asked of a source more than once. All of it comes from the objects and the mesh's domain.
#[derive(Debug)]
struct Facts {
    hosts: Vec<Hostname>,
    destinations: Vec<Hostname>,
    asks_for_source: bool,
}

/// For whom and where routes are made.
pub(crate) struct Context<'a> {
    pub(crate) listen_port: u16,
    pub(crate) gateway: &'a GatewayRef,
    /// Of the client, if conditions ask for them.
    pub(crate) labels: &'a BTreeMap<String, String>,
    pub(crate) namespace: &'a str,
    /// The listener terminates TLS.
    pub(crate) tls: bool,
    pub(crate) targets: &'a Targets,
    /// For routes that say nothing about retries.
    pub(crate) retries: &'a Retries,
    pub(crate) domain: &'a ClusterDomain,
    /// Requests that go on say which host was asked for.
    pub(crate) forwarded_host: bool,
}

/// One HTTP route and where it is written.
pub(super) struct From<'a> {
    pub(super) route: Cow<'a, HttpRoute>,
    meta: &'a Meta,
    namespace: Option<Namespace>,
    path: String,
}

impl From<'_> {
    pub(super) fn at(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    pub(super) fn full_host(
        &self,
        host: &str,
        domain: &ClusterDomain,
    ) -> Result<Hostname, ironsail_names::Error> {
        match &self.namespace {
            Some(namespace) => full_host(host, namespace, domain),
            None => host.parse(),
        }
    }
}

impl std::hash::Hash for Source<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.object.digest.hash(state);
        for ((namespace, name), delegate) in &self.delegates {
            (namespace, name, delegate.digest).hash(state);
        }
    }
}

impl<'a> Source<'a> {
    /// `find` looks a delegate up that this one may use.
    pub(crate) fn new(
        object: &'a Arc<Resource<VirtualService>>,
        domain: &ClusterDomain,
        find: impl Fn(&str, &str) -> Option<&'a Arc<Resource<VirtualService>>>,
    ) -> Self {
        let mut delegates = BTreeMap::new();
        for route in &object.spec.http {
            let Some(delegate) = &route.delegate else { continue };
            let key = delegate_key(&delegate.namespace, &delegate.name, &object.meta);
            if let Some(found) = find(&key.0, &key.1) {
                delegates.insert(key, found);
            }
        }
        let objects: Vec<_> = std::iter::once(object).chain(delegates.values().copied()).collect();
        let facts = Arc::new(Facts {
            hosts: hosts(object, domain),
            destinations: destinations(&objects, domain).into_iter().collect(),
            asks_for_source: objects.iter().any(|object| asks_for_source(&object.spec)),
        });
        Self { object, delegates, facts }
    }

    /// The hosts it is for, complete, in its order; what is no host is left out.
    pub(crate) fn hosts(&self) -> &[Hostname] {
        &self.facts.hosts
    }

    /// Every host that its HTTP routes send or copy requests to, in order.
    pub(crate) fn destinations(&self) -> &[Hostname] {
        &self.facts.destinations
    }

    /// Whether conditions ask who the client is.
    pub(crate) fn asks_for_source(&self) -> bool {
        self.facts.asks_for_source
    }

    /// Prefixes of an Ingress mean whole elements of a path.
    fn stands_for_ingress(&self) -> bool {
        let (name, value) = ironsail_model::ingress::SEMANTICS;
        self.object.meta.annotation(name) == Some(value)
    }

    /// Envoy's routes, from the memo if it has them. None if none of them is for this port, gateway and
    /// client.
    pub(super) fn made(&self, context: &Context<'_>, memo: &Memo) -> Arc<Made> {
        let client = self.asks_for_source().then_some((context.labels, context.namespace));
        let targets: Vec<_> =
            self.destinations().iter().map(|to| context.targets.get(to)).collect();
        let Context { listen_port, gateway, tls, retries, domain, forwarded_host, .. } = *context;
        let how = (listen_port, gateway, tls, retries, domain, forwarded_host);
        memo.get(&("virtual service", self, how, client, targets), || {
            let mut found = Vec::new();
            let routes = self.translate(context, &mut found);
            Made::new(routes, forwarded_host, found)
        })
    }

    /// The routes in order, with those of delegates in their places.
    fn routes(&self, found: &mut Vec<Diagnostic>) -> Vec<From<'a>> {
        let mut out = Vec::new();
        let meta = &self.object.meta;
        let namespace = |meta: &Meta| meta.namespace.parse().ok();
        for (i, route) in self.object.spec.http.iter().enumerate() {
            let path = format!("spec.http[{i}]");
            let Some(to) = &route.delegate else {
                let route = Cow::Borrowed(route);
                out.push(From { route, meta, namespace: namespace(meta), path });
                continue;
            };
            let mut problems = Problems::new(Kind::VirtualService, meta, found);
            let field = format!("{path}.delegate");
            let key = delegate_key(&to.namespace, &to.name, meta);
            let Some(delegate) = self.delegates.get(&key) else {
                let text = format!("no VirtualService {}/{} to delegate to", key.0, key.1);
                problems.missing(&field, format!("{text}; the route matches nothing"));
                continue;
            };
            if delegate.spec.http.iter().any(|route| route.delegate.is_some()) {
                problems.invalid(&field, "a delegate cannot delegate; those routes match nothing");
            }
            let (merged, lost) = delegate::merge(route, &delegate.spec.http);
            if lost > 0 {
                let text = format!("{lost} routes of {}/{} are wider than the route", key.0, key.1);
                problems.conflict(&field, format!("{text}; they match nothing"));
            }
            for (j, route) in merged.into_iter().enumerate() {
                if route.delegate.is_none() {
                    let path = format!("spec.http[{j}]");
                    let (route, meta) = (Cow::Owned(route), &delegate.meta);
                    out.push(From { route, meta, namespace: namespace(meta), path });
                }
            }
        }
        out
    }

    /// Envoy's routes. Empty if none of them is for this port, gateway and client.
    fn translate(&self, context: &Context<'_>, found: &mut Vec<Diagnostic>) -> Vec<Route> {
        let mut out = Vec::new();
        for from in self.routes(found) {
            let mut problems = Problems::new(Kind::VirtualService, from.meta, found);
            let rules: Vec<_> = match from.route.r#match.is_empty() {
                true => vec![None],
                false => from.route.r#match.iter().map(Some).collect(),
            };
            for (i, rule) in rules.into_iter().enumerate() {
                let Some(route) = self.route(&from, rule, i, context, &mut problems) else {
                    continue;
                };
                // Routes are tried in order, so nothing behind this one would ever be.
                let last = route.r#match.as_ref().is_some_and(matching::is_catch_all);
                out.push(route);
                if last {
                    return out;
                }
            }
        }
        out
    }

    fn route(
        &self,
        from: &From<'_>,
        rule: Option<&HttpMatchRequest>,
        index: usize,
        context: &Context<'_>,
        problems: &mut Problems<'_>,
    ) -> Option<Route> {
        if rule.is_some_and(|rule| !self.applies(rule, context)) {
            return None;
        }
        let route_match = match matching::route_match(rule) {
            Ok(route_match) if self.stands_for_ingress() => matching::by_elements(route_match),
            Ok(route_match) => route_match,
            Err((field, why)) => {
                let field = from.at(&format!("match[{index}].{field}"));
                problems.invalid(&field, format!("{why}; the route matches nothing"));
                return None;
            }
        };
        let route = &*from.route;
        let name = match rule.map(|rule| rule.name.as_str()) {
            Some(rule) if !rule.is_empty() => format!("{}.{rule}", route.name),
            _ => route.name.clone(),
        };
        let changes = header::changes(route.headers.as_ref(), |why| {
            problems.invalid(&from.at("headers"), format!("{why}; the header is left alone"));
        });
        let mut out = Route {
            name,
            r#match: Some(route_match),
            metadata: Some(metadata::config(&self.path())),
            stat_prefix: rule.map(|rule| rule.stat_prefix.clone()).unwrap_or_default(),
            request_headers_to_add: changes.request_add,
            request_headers_to_remove: changes.request_remove,
            response_headers_to_add: changes.response_add,
            response_headers_to_remove: changes.response_remove,
            ..Default::default()
        };
        action::action(&mut out, from, changes.authority, context, problems);
        out.decorator = Some(part::decorator(self.operation(&out, context.listen_port)));
        if let Some(fault) = &route.fault {
            let fault = fault::fault(fault, |field, why| {
                let field = from.at(&format!("fault.{field}"));
                problems.invalid(&field, format!("{why}; it is not put in"));
            });
            if let Some(fault) = fault {
                out.typed_per_filter_config.insert(http::FAULT.into(), pack(&fault));
            }
        }
        if let Some(cors) = &route.cors_policy {
            let cors = fault::cors(cors, |field, why| {
                let field = from.at(&format!("corsPolicy.{field}"));
                problems.invalid(&field, format!("{why}; that origin is not allowed"));
            });
            out.typed_per_filter_config.insert(http::CORS.into(), pack(&cors));
        }
        debug_assert!(action::forwards(route) || route.route.is_empty() || out.action.is_some());
        Some(out)
    }

    /// Port, gateway and client are known here, so conditions on them are decided here.
    fn applies(&self, rule: &HttpMatchRequest, context: &Context<'_>) -> bool {
        if rule.port != 0 && rule.port != u32::from(context.listen_port) {
            return false;
        }
        if !rule.gateways.is_empty() {
            let Ok(own) = self.object.meta.namespace.parse() else { return false };
            return rule.gateways.iter().any(|g| GatewayRef::parse(g, &own) == *context.gateway);
        }
        select::matches(&rule.source_labels, context.labels)
            && (rule.source_namespace.is_empty() || rule.source_namespace == context.namespace)
    }

    /// How traces call the route: by its only destination, or else by the VirtualService.
    fn operation(&self, route: &Route, port: u16) -> String {
        let path = match route.r#match.as_ref().and_then(|m| m.path_specifier.as_ref()) {
            Some(PathSpecifier::Prefix(prefix)) => format!("{prefix}*"),
            Some(PathSpecifier::Path(path)) => path.clone(),
            Some(PathSpecifier::SafeRegex(regex)) => regex.regex.clone(),
            _ => "/*".to_owned(),
        };
        if let Some(Action::Route(action)) = &route.action
            && let Some(ClusterSpecifier::Cluster(cluster)) = &action.cluster_specifier
            && let Ok(ClusterName { port, host: Some(host), .. }) = cluster.parse()
        {
            return format!("{host}:{port}{path}");
        }
        format!("{}:{port}{path}", self.object.meta.name)
    }

    pub(crate) fn path(&self) -> String {
        config_path(&self.object.meta)
    }
}

/// Where a VirtualService is in the API.
pub(crate) fn config_path(meta: &Meta) -> String {
    let kind = Kind::VirtualService;
    metadata::config_path(kind.group(), kind.version(), kind.name(), &meta.namespace, &meta.name)
}

fn hosts(object: &Resource<VirtualService>, domain: &ClusterDomain) -> Vec<Hostname> {
    let Ok(namespace) = object.meta.namespace.parse() else { return Vec::new() };
    let full = |host: &String| full_host(host, &namespace, domain).ok();
    object.spec.hosts.iter().filter_map(full).collect()
}

fn destinations(
    objects: &[&Arc<Resource<VirtualService>>],
    domain: &ClusterDomain,
) -> BTreeSet<Hostname> {
    let mut out = BTreeSet::new();
    for object in objects {
        let Ok(namespace) = object.meta.namespace.parse::<Namespace>() else { continue };
        // Routes mostly name the same few hosts.
        let mut names: Vec<&str> = Vec::new();
        for route in &object.spec.http {
            let sent = route.route.iter().map(|to| &to.destination);
            let copied = route.mirror.iter().chain(route.mirrors.iter().map(|m| &m.destination));
            names.extend(sent.chain(copied).map(|to| to.host.as_str()));
        }
        names.sort_unstable();
        names.dedup();
        out.extend(names.into_iter().filter_map(|name| full_host(name, &namespace, domain).ok()));
    }
    out
}

fn asks_for_source(spec: &VirtualService) -> bool {
    let asks = |m: &HttpMatchRequest| !m.source_labels.is_empty() || !m.source_namespace.is_empty();
    spec.http.iter().flat_map(|route| &route.r#match).any(asks)
}

fn delegate_key(namespace: &str, name: &str, own: &Meta) -> (String, String) {
    let namespace = if namespace.is_empty() { &own.namespace } else { namespace };
    (namespace.to_owned(), name.to_owned())
}
