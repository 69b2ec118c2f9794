//! DestinationRules by host, merged and looked up as Istio does.
//!
//! Rules of one namespace for the same host become one: the first policy counts, subsets add up.
//! Rules with different workload selectors or different visibility stay apart.

use std::collections::BTreeSet;
use std::sync::Arc;

use ironsail_api::istio::networking::DestinationRule;
use ironsail_api::{ObjectKey, Resource};
use ironsail_names::{ClusterDomain, Hostname, Namespace};

use super::{Order, full_host};
use crate::hashed::digest;
use crate::select::matches;
use crate::table::Map;
use crate::{Service, Visibility};

/// One or several DestinationRules put together.
#[derive(Clone, Debug)]
pub struct MergedRule {
    pub host: Hostname,
    pub namespace: Namespace,
    pub spec: Arc<DestinationRule>,
    pub export_to: Visibility,
    /// The objects it was made of, oldest first.
    pub from: Vec<ObjectKey>,
    pub digest: u64,
}

type Candidates = Map<Order, (ObjectKey, Arc<Resource<DestinationRule>>)>;

/// Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RuleIndex {
    candidates: Map<(Namespace, Hostname), Candidates>,
    merged: Map<Namespace, Hosts>,
}

/// The rules of one namespace.
#[derive(Clone, Debug, Default)]
struct Hosts {
    exact: Map<Hostname, Arc<[Arc<MergedRule>]>>,
    /// Hostnames order by specificity: longer patterns first.
    wildcards: Map<Hostname, Arc<[Arc<MergedRule>]>>,
}

/// Who asks for a rule.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    pub namespace: &'a Namespace,
    pub labels: &'a std::collections::BTreeMap<String, String>,
    pub root: &'a Namespace,
}

impl RuleIndex {
    /// The rule for traffic of `client` to `service`: of the client's namespace, else of the service's,
    /// else of the root namespace; within one namespace the most specific host.
    pub fn lookup(&self, client: Client<'_>, service: &Service) -> Option<&Arc<MergedRule>> {
        self.lookup_host(client, service.hostname(), Some(service.namespace()))
    }

    pub fn lookup_host(
        &self,
        client: Client<'_>,
        host: &Hostname,
        service: Option<&Namespace>,
    ) -> Option<&Arc<MergedRule>> {
        let Client { namespace, root, .. } = client;
        // Rules in the root namespace are meant for the mesh: for a proxy there, only a rule for
        // this very host comes before those of the service's namespace.
        let own = match namespace == root {
            false => self.most_specific(namespace, host, namespace),
            true => self.exact(namespace, host, namespace),
        };
        own.or_else(|| self.most_specific(service?, host, namespace))
            .or_else(|| self.most_specific(root, host, namespace))
            .and_then(|rules| pick(&rules, client))
    }

    /// Everything that applies in one namespace, for listing.
    pub fn in_namespace(&self, namespace: &Namespace) -> impl Iterator<Item = &Arc<MergedRule>> {
        let hosts = self.merged.get(namespace).into_iter();
        hosts
            .flat_map(|hosts| hosts.exact.values().chain(hosts.wildcards.values()))
            .flat_map(|rules| rules.iter())
    }

    fn exact(
        &self,
        owner: &Namespace,
        host: &Hostname,
        client: &Namespace,
    ) -> Option<Vec<&Arc<MergedRule>>> {
        visible(self.merged.get(owner)?.of(host).get(host)?, client)
    }

    fn most_specific(
        &self,
        owner: &Namespace,
        host: &Hostname,
        client: &Namespace,
    ) -> Option<Vec<&Arc<MergedRule>>> {
        if let Some(rules) = self.exact(owner, host, client) {
            return Some(rules);
        }
        let wildcards = self.merged.get(owner)?.wildcards.iter();
        wildcards
            .filter(|(pattern, _)| host.is_subset_of(pattern))
            .find_map(|(_, rules)| visible(rules, client))
    }

    pub(crate) fn insert(
        &mut self,
        key: &ObjectKey,
        object: &Arc<Resource<DestinationRule>>,
        domain: &ClusterDomain,
        defaults: &[String],
    ) {
        let Some(place) = place(key, object, domain) else { return };
        let add = |all: &mut Candidates| {
            all.insert(Order::of(key, object), (key.clone(), object.clone()));
        };
        self.candidates.update(&place, add, Map::is_empty);
        self.merge(&place, defaults);
    }

    pub(crate) fn remove(
        &mut self,
        key: &ObjectKey,
        object: &Arc<Resource<DestinationRule>>,
        domain: &ClusterDomain,
        defaults: &[String],
    ) {
        let Some(place) = place(key, object, domain) else { return };
        let drop = |all: &mut Candidates| {
            all.remove(&Order::of(key, object));
        };
        self.candidates.update(&place, drop, Map::is_empty);
        self.merge(&place, defaults);
    }

    /// Puts the rules of one place together again.
    fn merge(&mut self, place: &(Namespace, Hostname), defaults: &[String]) {
        let mut merged: Vec<MergedRule> = Vec::new();
        let candidates = self.candidates.get(place);
        for (key, object) in candidates.into_iter().flat_map(Map::values) {
            let (export_to, _) = Visibility::parse(&object.spec.export_to, defaults, &place.0);
            let same = |rule: &&mut MergedRule| {
                rule.export_to == export_to
                    && rule.spec.workload_selector == object.spec.workload_selector
            };
            match merged.iter_mut().find(same) {
                Some(rule) => rule.add(key, object),
                None => merged.push(MergedRule {
                    host: place.1.clone(),
                    namespace: place.0.clone(),
                    spec: Arc::new(object.spec.clone()),
                    export_to,
                    from: vec![key.clone()],
                    digest: object.digest,
                }),
            }
        }
        let rules: Arc<[_]> = merged.into_iter().map(Arc::new).collect();
        let set = |hosts: &mut Hosts| {
            let hosts = match place.1.is_wildcard() {
                true => &mut hosts.wildcards,
                false => &mut hosts.exact,
            };
            match rules.is_empty() {
                true => drop(hosts.remove(&place.1)),
                false => hosts.insert(place.1.clone(), rules),
            }
        };
        self.merged.update(&place.0, set, Hosts::is_empty);
    }
}

impl Hosts {
    fn of(&self, host: &Hostname) -> &Map<Hostname, Arc<[Arc<MergedRule>]>> {
        if host.is_wildcard() { &self.wildcards } else { &self.exact }
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcards.is_empty()
    }
}

impl MergedRule {
    fn add(&mut self, key: &ObjectKey, object: &Arc<Resource<DestinationRule>>) {
        let spec = Arc::make_mut(&mut self.spec);
        let known: BTreeSet<String> =
            spec.subsets.iter().map(|subset| subset.name.clone()).collect();
        let new = object.spec.subsets.iter().filter(|subset| !known.contains(&subset.name));
        spec.subsets.extend(new.cloned());
        if spec.traffic_policy.is_none() {
            spec.traffic_policy.clone_from(&object.spec.traffic_policy);
        }
        self.from.push(key.clone());
        self.digest = digest(&(self.digest, object.digest));
    }
}

/// The namespace and full host of a rule; None if one of them is no name.
fn place(
    key: &ObjectKey,
    object: &Resource<DestinationRule>,
    domain: &ClusterDomain,
) -> Option<(Namespace, Hostname)> {
    let namespace: Namespace = key.namespace.parse().ok()?;
    let host = full_host(&object.spec.host, &namespace, domain).ok()?;
    Some((namespace, host))
}

fn visible<'a>(
    rules: &'a [Arc<MergedRule>],
    client: &Namespace,
) -> Option<Vec<&'a Arc<MergedRule>>> {
    let seen: Vec<_> = rules.iter().filter(|rule| rule.export_to.includes(client)).collect();
    (!seen.is_empty()).then_some(seen)
}

/// A rule with a selector counts only for clients in its own namespace, and comes first.
fn pick<'a>(rules: &[&'a Arc<MergedRule>], client: Client<'_>) -> Option<&'a Arc<MergedRule>> {
    let selector = |rule: &MergedRule| {
        rule.spec
            .workload_selector
            .as_ref()
            .map(|s| s.match_labels.clone())
            .filter(|l| !l.is_empty())
    };
    let selected = rules.iter().find(|rule| {
        rule.namespace == *client.namespace
            && selector(rule).is_some_and(|wanted| matches(&wanted, client.labels))
    });
    selected.or_else(|| rules.iter().rfind(|rule| selector(rule).is_none())).copied()
}
