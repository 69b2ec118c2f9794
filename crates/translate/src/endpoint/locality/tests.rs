//! Priorities and weights, from places and labels alone.

use std::collections::BTreeMap;

use ironsail_names::Locality;
use ironsail_proto::envoy::config::endpoint::v3::LbEndpoint;
use ironsail_proto::google::protobuf::UInt32Value;

use super::*;

fn labels(text: &str) -> BTreeMap<String, String> {
    let pair = |p: &str| p.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
    text.split(',').filter_map(pair).collect()
}

/// Groups of `(place, labels, weight)`; one member each line, groups by place.
fn check(
    own: (&str, &str),
    endpoints: &[(&str, &str, u32)],
    preference: &Preference,
) -> Vec<(String, u32, u32, usize)> {
    let parsed: Vec<(Locality, BTreeMap<String, String>, u32)> =
        endpoints.iter().map(|(l, t, w)| (l.parse().unwrap(), labels(t), *w)).collect();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (locality, labels, weight) in &parsed {
        let topology = Topology { labels, locality, network: "", cluster: "", node: "" };
        let endpoint = LbEndpoint {
            load_balancing_weight: Some(UInt32Value { value: *weight }),
            ..Default::default()
        };
        let member = Member { topology, endpoint };
        match groups.iter_mut().find(|g| g.locality == locality) {
            Some(group) => group.members.push(member),
            None => groups.push(Group { locality, members: vec![member], weight: 0, priority: 0 }),
        }
    }
    for group in &mut groups {
        group.weight = weight_of(&group.members);
    }
    let (locality, labels) = (own.0.parse().unwrap(), labels(own.1));
    let own = Topology { labels: &labels, locality: &locality, network: "", cluster: "", node: "" };
    apply(&mut groups, &own, preference);
    groups
        .into_iter()
        .map(|g| (g.locality.to_string(), g.priority, g.weight, g.members.len()))
        .collect()
}

fn failover(regions: &[(&str, &str)], labels: &[&str]) -> Preference {
    Preference::Failover {
        regions: regions.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
        labels: labels.iter().map(|&l| l.to_owned()).collect(),
    }
}

#[test]
fn nearer_places_come_first_without_gaps() {
    let groups = check(
        ("r1/z1/s1", ""),
        &[("r1/z1/s1", "", 1), ("r1/z2/s1", "", 1), ("r2/z1/s1", "", 1), ("r3", "", 1)],
        &failover(&[("r1", "r3")], &[]),
    );
    let priorities: Vec<_> = groups.iter().map(|g| (g.0.as_str(), g.1)).collect();
    assert_eq!(priorities, [("r1/z1/s1", 0), ("r1/z2/s1", 1), ("r2/z1/s1", 3), ("r3", 2)]);
}

#[test]
fn labels_split_a_place() {
    let groups = check(
        ("r1", "version=v1,tier=a"),
        &[("r1", "version=v1,tier=a", 2), ("r1", "version=v1,tier=b", 3), ("r1", "version=v2", 1)],
        &failover(&[], &["version", "tier"]),
    );
    assert_eq!(groups, [("r1".into(), 0, 2, 1), ("r1".into(), 1, 3, 1), ("r1".into(), 2, 1, 1)]);
}

#[test]
fn a_label_may_be_compared_with_a_value_and_with_a_place() {
    let groups = check(
        ("r1/z1", ""),
        &[("r1/z1", "version=v2", 1), ("r1/z2", "version=v2", 1), ("r1/z1", "version=v1", 1)],
        &failover(&[], &["version=v2", "topology.kubernetes.io/zone"]),
    );
    assert_eq!(
        groups,
        [("r1/z1".into(), 0, 1, 1), ("r1/z1".into(), 2, 1, 1), ("r1/z2".into(), 1, 1, 1)]
    );
}

#[test]
fn shares_are_split_by_weight_and_the_rest_is_left_out() {
    let to = BTreeMap::from([("r1/z1/*".to_owned(), 80), ("r2/*".to_owned(), 20)]);
    let groups = check(
        ("r1/z1/s1", ""),
        &[("r1/z1/s1", "", 1), ("r1/z1/s2", "", 3), ("r2/z1", "", 5), ("r3", "", 1)],
        &Preference::Distribute(vec![("r1/*".to_owned(), to)]),
    );
    assert_eq!(
        groups,
        [("r1/z1/s1".into(), 0, 20, 1), ("r1/z1/s2".into(), 0, 60, 1), ("r2/z1".into(), 0, 20, 1)]
    );
}

#[test]
fn a_rule_for_another_place_changes_nothing() {
    let to = BTreeMap::from([("r1".to_owned(), 100)]);
    let groups = check(
        ("r9", ""),
        &[("r1", "", 1), ("r2", "", 2)],
        &Preference::Distribute(vec![("r1/*".to_owned(), to)]),
    );
    assert_eq!(groups, [("r1".into(), 0, 1, 1), ("r2".into(), 0, 2, 1)]);
}
