//! Preference among localities: shares of the traffic, or an order in which they stand in for each
//! other.
//!
//! In: endpoints grouped by locality, where the proxy is, what its labels are, the settings. Out: the
//! same groups with weights and priorities; priorities have no gaps, as Envoy demands.

use std::collections::{BTreeMap, BTreeSet};

use ironsail_names::Locality;
use ironsail_proto::envoy::config::core::v3::Locality as EnvoyLocality;
use ironsail_proto::envoy::config::endpoint::v3::{LbEndpoint, LocalityLbEndpoints};
use ironsail_proto::google::protobuf::UInt32Value;

use crate::Key;

/// Endpoints of one place and one priority.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    pub(crate) locality: &'a Locality,
    pub(crate) members: Vec<Member<'a>>,
    pub(crate) weight: u32,
    pub(crate) priority: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) topology: Topology<'a>,
    pub(crate) endpoint: LbEndpoint,
}

/// Labels, and what is known beside them under the names of labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topology<'a> {
    pub(crate) labels: &'a BTreeMap<String, String>,
    pub(crate) locality: &'a Locality,
    pub(crate) network: &'a str,
    pub(crate) cluster: &'a str,
    pub(crate) node: &'a str,
}

impl Topology<'_> {
    pub(crate) fn label(&self, name: &str) -> &str {
        let known = match name {
            "topology.kubernetes.io/region" => self.locality.region(),
            "topology.kubernetes.io/zone" => self.locality.zone(),
            "topology.istio.io/subzone" => self.locality.subzone(),
            "topology.istio.io/network" => self.network,
            "topology.istio.io/cluster" => self.cluster,
            "kubernetes.io/hostname" => self.node,
            _ => "",
        };
        match known {
            "" => self.labels.get(name).map_or("", String::as_str),
            known => known,
        }
    }
}

/// What users may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    /// From a place (`*` allowed) to places, in parts.
    Distribute(Vec<(String, BTreeMap<String, u32>)>),
    Failover {
        /// Regions that stand in for a region.
        regions: Vec<(String, String)>,
        /// Labels, the most important first; `name=value` compares with a value of its own.
        labels: Vec<String>,
    },
    /// The own region first, in which Envoy itself prefers the own zone; the others in the order of
    /// labels and of regions that stand in.
    Zones {
        regions: Vec<(String, String)>,
        labels: Vec<String>,
        /// With fewer endpoints than this no zone is preferred.
        least: Option<u32>,
    },
}

impl Preference {
    /// Only as much of the proxy as the preference looks at.
    pub(crate) fn write(&self, key: Key, own: &Topology<'_>) -> Key {
        match self {
            Self::Distribute(rules) => {
                key.flag(true).display(own.locality).each(rules, |k, (from, to)| {
                    k.text(from).each(to, |k, (place, part)| k.text(place).number((*part).into()))
                })
            }
            Self::Failover { regions, labels } | Self::Zones { regions, labels, .. } => {
                let names = labels.iter().map(|l| l.split('=').next().unwrap_or(l));
                let own_labels: Vec<&str> = names.map(|name| own.label(name)).collect();
                key.flag(false)
                    .flag(matches!(self, Self::Zones { .. }))
                    .display(own.locality)
                    .each(regions, |k, (from, to)| k.text(from).text(to))
                    .each(labels, |k, l| k.text(l))
                    .each(own_labels, Key::text)
            }
        }
    }
}

/// Applies `preference` for a proxy at `own`.
pub(crate) fn apply(groups: &mut Vec<Group<'_>>, own: &Topology<'_>, preference: &Preference) {
    match preference {
        Preference::Distribute(rules) => distribute(groups, own.locality, rules),
        Preference::Failover { regions, labels } => {
            if !labels.is_empty() {
                by_labels(groups, own, labels);
            }
            if labels.is_empty() || !regions.is_empty() {
                by_place(groups, own.locality, regions);
            }
            close_gaps(groups);
        }
        Preference::Zones { regions, labels, .. } => {
            by_region(groups, own, regions, labels);
            close_gaps(groups);
        }
    }
}

/// Only where the own region has nobody left others count.
fn by_region(
    groups: &mut Vec<Group<'_>>,
    own: &Topology<'_>,
    regions: &[(String, String)],
    labels: &[String],
) {
    let is_near = |group: &Group<'_>| group.locality.region() == own.locality.region();
    let (near, mut far): (Vec<_>, Vec<_>) = groups.drain(..).partition(is_near);
    if !labels.is_empty() {
        by_labels(&mut far, own, labels);
    }
    let stands_in = regions.iter().find(|(from, _)| from == own.locality.region());
    for group in &mut far {
        let other = stands_in.is_some_and(|(_, to)| to != group.locality.region());
        group.priority = 1 + group.priority * 2 + u32::from(other);
    }
    groups.extend(near);
    groups.extend(far);
}

/// Each matching destination shares its part among its groups by their weight; what matches no
/// destination gets nothing.
fn distribute(
    groups: &mut Vec<Group<'_>>,
    own: &Locality,
    rules: &[(String, BTreeMap<String, u32>)],
) {
    let Some((_, to)) = rules.iter().find(|(from, _)| matches(own, from)) else { return };
    let mut taken = vec![false; groups.len()];
    for (place, part) in to {
        let fits =
            |i: usize, g: &Group<'_>, taken: &[bool]| !taken[i] && matches(g.locality, place);
        let found: Vec<usize> = groups
            .iter()
            .enumerate()
            .filter(|(i, g)| fits(*i, g, &taken))
            .map(|(i, _)| i)
            .collect();
        let total: u64 = found.iter().map(|&i| u64::from(groups[i].weight)).sum();
        for i in found {
            taken[i] = true;
            let share = (u64::from(groups[i].weight) * u64::from(*part)).div_ceil(total.max(1));
            groups[i].weight = u32::try_from(share).unwrap_or(u32::MAX);
        }
    }
    let mut taken = taken.into_iter();
    groups.retain(|_| taken.next().unwrap_or(false));
    groups.retain(|g| g.weight > 0);
}

fn by_place(groups: &mut [Group<'_>], own: &Locality, regions: &[(String, String)]) {
    for group in groups {
        let mut step = distance(own, group.locality);
        if step == 3 {
            let rule = regions.iter().find(|(from, _)| from == own.region());
            if rule.is_some_and(|(_, to)| to != group.locality.region()) {
                step = 4;
            }
        }
        group.priority = group.priority * 5 + step;
    }
}

/// A group splits where its members agree with the proxy on different numbers of labels.
fn by_labels(groups: &mut Vec<Group<'_>>, own: &Topology<'_>, labels: &[String]) {
    let mut split = Vec::with_capacity(groups.len());
    for group in groups.drain(..) {
        let mut parts: BTreeMap<u32, Vec<Member<'_>>> = BTreeMap::new();
        for member in group.members {
            parts.entry(disagreement(&member.topology, own, labels)).or_default().push(member);
        }
        for (priority, members) in parts {
            let weight = weight_of(&members);
            split.push(Group { locality: group.locality, members, weight, priority });
        }
    }
    *groups = split;
}

/// 0 if all labels agree; the earlier the first difference, the more.
fn disagreement(member: &Topology<'_>, own: &Topology<'_>, labels: &[String]) -> u32 {
    let differs = |label: &String| match label.split_once('=') {
        Some((name, value)) => member.label(name) != value,
        None => member.label(label) != own.label(label),
    };
    let first = labels.iter().position(differs);
    first.map_or(0, |at| u32::try_from(labels.len() - at).unwrap_or(u32::MAX))
}

fn close_gaps(groups: &mut [Group<'_>]) {
    let used: BTreeSet<u32> = groups.iter().map(|g| g.priority).collect();
    let rank: BTreeMap<u32, u32> = used.into_iter().zip(0..).collect();
    for group in groups {
        group.priority = rank[&group.priority];
    }
}

pub(crate) fn weight_of(members: &[Member<'_>]) -> u32 {
    let weights = members.iter().map(|m| m.endpoint.load_balancing_weight.map_or(1, |w| w.value));
    weights.fold(0, u32::saturating_add)
}

/// 0: same subzone, 1: same zone, 2: same region, 3: elsewhere.
fn distance(a: &Locality, b: &Locality) -> u32 {
    match () {
        () if a.region() != b.region() => 3,
        () if a.zone() != b.zone() => 2,
        () if a.subzone() != b.subzone() => 1,
        () => 0,
    }
}

/// Whether `place` is meant by `rule`: `region/zone/subzone`, with `*` or nothing for any.
fn matches(place: &Locality, rule: &str) -> bool {
    let mut parts = rule.splitn(3, '/');
    let mut next = || parts.next().unwrap_or_default();
    let (region, zone, subzone) = (next(), next(), next());
    let part = |rule: &str, own: &str| rule == "*" || rule.is_empty() || rule == own;
    (region == "*" || region == place.region())
        && part(zone, place.zone())
        && part(subzone, place.subzone())
}

impl From<Group<'_>> for LocalityLbEndpoints {
    fn from(group: Group<'_>) -> Self {
        let locality = match group.locality.is_unknown() {
            true => EnvoyLocality::default(),
            false => EnvoyLocality {
                region: group.locality.region().to_owned(),
                zone: group.locality.zone().to_owned(),
                sub_zone: group.locality.subzone().to_owned(),
            },
        };
        Self {
            locality: Some(locality),
            lb_endpoints: group.members.into_iter().map(|m| m.endpoint).collect(),
            load_balancing_weight: Some(UInt32Value { value: group.weight.max(1) }),
            priority: group.priority,
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests;
