//! Which address a host of a ServiceEntry gets. No IO, no clock.
//!
//! A host has one number in the whole mesh, and from it one address of each family, in the ranges
//! that Istio uses: 240.240.0.0/16 and 2001:2::/48. The number comes from a hash of the entry and
//! the host, the next free one if that is taken; so it seldom depends on the order of things. What
//! was given stays; where two have the same, the older entry keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kube::api::DynamicObject;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

/// Namespace and name.
pub type Name = (String, String);

/// Says no when it is `false`.
const LABEL: &str = "networking.istio.io/enable-autoallocate-ip";
/// First and last number of a host: without the range's own address and its broadcast.
const FIRST: u32 = 1;
const LAST: u32 = 0xfffe;
const V4: u32 = 0xf0f0_0000;
const V6: u128 = 0x2001_0002_0000_0000_0000_0000_f0f0_0000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Given {
    pub host: String,
    pub address: IpAddr,
}

/// What of a ServiceEntry matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Without wildcards, sorted.
    pub hosts: BTreeSet<String>,
    /// Whether the entry leaves its addresses to us.
    pub automatic: bool,
    /// What its status says.
    pub given: Vec<Given>,
    pub created: Option<jiff::Timestamp>,
    pub version: String,
}

impl Entry {
    pub fn read(object: &DynamicObject) -> Self {
        let spec = &object.data["spec"];
        let texts = |value: &Value| -> Vec<String> {
            let items = value.as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let refused = object
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(LABEL))
            .is_some_and(|value| value.eq_ignore_ascii_case("false"));
        // A proxy cannot use an address where it connects to whatever the client asked for.
        let resolved = !matches!(spec["resolution"].as_str(), None | Some("NONE"));
        let hosts = texts(&spec["hosts"]).into_iter().filter(|host| !host.contains('*')).collect();
        let given = object.data["status"]["addresses"].as_array().into_iter().flatten();
        let given = given.filter_map(|one| {
            let address = one["value"].as_str()?.parse().ok()?;
            Some(Given { host: one["host"].as_str()?.to_owned(), address })
        });
        Self {
            hosts,
            automatic: !refused && resolved && texts(&spec["addresses"]).is_empty(),
            given: given.collect(),
            created: object.metadata.creation_timestamp.as_ref().map(|time| time.0),
            version: object.metadata.resource_version.clone().unwrap_or_default(),
        }
    }

    /// Whether addresses must be given to it at all.
    pub fn wants_addresses(&self) -> bool {
        self.automatic && !self.hosts.is_empty()
    }
}

/// The addresses of every entry that leaves them to us. A host for which no number is left gets none.
pub fn allocate(entries: &BTreeMap<Name, Entry>) -> BTreeMap<Name, Vec<Given>> {
    let mut wanting: Vec<_> = entries.iter().filter(|(_, e)| e.wants_addresses()).collect();
    // Who came first keeps its address.
    wanting.sort_by_key(|(name, entry)| (entry.created, *name));
    let mut taken = BTreeSet::new();
    let mut numbers = BTreeMap::new();
    for (name, entry) in &wanting {
        for host in &entry.hosts {
            let kept = entry.given.iter().filter(|given| given.host == *host);
            if let Some(number) = kept.filter_map(|given| number(given.address)).next()
                && taken.insert(number)
            {
                numbers.insert((*name, host), number);
            }
        }
    }
    for (name, entry) in &wanting {
        for host in &entry.hosts {
            if !numbers.contains_key(&(*name, host))
                && let Some(number) = free(name, host, &taken)
            {
                taken.insert(number);
                numbers.insert((*name, host), number);
            }
        }
    }
    let addresses = |name: &Name, entry: &Entry| {
        let hosts = entry.hosts.iter();
        let numbered = hosts.filter_map(|host| Some((host, *numbers.get(&(name, host))?)));
        numbered
            .flat_map(|(host, number)| {
                addresses(number).map(|address| Given { host: host.clone(), address })
            })
            .collect()
    };
    wanting.iter().map(|(name, entry)| ((*name).clone(), addresses(name, entry))).collect()
}

fn free(name: &Name, host: &str, taken: &BTreeSet<u32>) -> Option<u32> {
    let count = LAST - FIRST + 1;
    let hash = xxh3_64(format!("{}/{}/{host}", name.0, name.1).as_bytes());
    let start = u32::try_from(hash % u64::from(count)).expect("less than the count of numbers");
    let turn = (0..count).map(|step| FIRST + (start + step) % count);
    turn.into_iter().find(|number| !taken.contains(number))
}

fn addresses(number: u32) -> [IpAddr; 2] {
    [Ipv4Addr::from(V4 | number).into(), Ipv6Addr::from(V6 | u128::from(number)).into()]
}

/// The number behind an address of ours.
fn number(address: IpAddr) -> Option<u32> {
    let number = match address {
        IpAddr::V4(v4) => u32::from(v4) ^ V4,
        IpAddr::V6(v6) => u32::try_from(u128::from(v6) ^ V6).ok()?,
    };
    (FIRST..=LAST).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(hosts: &[&str], created: i64) -> Entry {
        Entry {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            automatic: true,
            created: jiff::Timestamp::from_second(created).ok(),
            ..Entry::default()
        }
    }

    fn name(text: &str) -> Name {
        ("ns".to_owned(), text.to_owned())
    }

    #[test]
    fn every_host_gets_one_address_of_each_family_and_keeps_it() {
        let mut entries = BTreeMap::from([(name("a"), entry(&["x.com", "y.com"], 1))]);
        let first = allocate(&entries);
        let given = &first[&name("a")];
        assert_eq!(given.len(), 4);
        assert!(given[0].address.to_string().starts_with("240.240."), "{given:?}");
        assert!(given[1].address.to_string().starts_with("2001:2::f0f0:"), "{given:?}");
        assert_eq!(number(given[0].address), number(given[1].address));
        entries.get_mut(&name("a")).unwrap().given.clone_from(given);
        entries.insert(name("b"), entry(&["x.com"], 2));
        let second = allocate(&entries);
        assert_eq!(second[&name("a")], *given);
        assert_ne!(second[&name("b")][0].address, given[0].address);
    }

    #[test]
    fn of_two_with_the_same_address_the_older_keeps_it() {
        let address = "240.240.7.7".parse().unwrap();
        let given = vec![Given { host: "x.com".to_owned(), address }];
        let old = Entry { given: given.clone(), ..entry(&["x.com"], 1) };
        let new = Entry { given, ..entry(&["x.com"], 2) };
        let all = allocate(&BTreeMap::from([(name("z-old"), old), (name("a-new"), new)]));
        assert_eq!(all[&name("z-old")][0].address, address);
        assert_ne!(all[&name("a-new")][0].address, address);
    }

    #[test]
    fn only_entries_that_leave_it_to_us_get_addresses() {
        let read = |spec: &str, label: &str| {
            let text = format!(
                "{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, \
                 metadata: {{name: s, labels: {{{LABEL}: '{label}'}}}}, spec: {spec}}}"
            );
            let value = ironsail_yaml_of(&text);
            Entry::read(&serde_json::from_value(value).unwrap()).wants_addresses()
        };
        assert!(read(r#"{"hosts": ["a"], "resolution": "DNS"}"#, "true"));
        assert!(!read(r#"{"hosts": ["a"], "resolution": "DNS"}"#, "False"));
        assert!(!read(r#"{"hosts": ["a"], "resolution": "NONE"}"#, "true"));
        assert!(!read(r#"{"hosts": ["a"]}"#, "true"));
        assert!(!read(r#"{"hosts": ["*.a"], "resolution": "DNS"}"#, "true"));
        assert!(!read(
            r#"{"hosts": ["a"], "addresses": ["1.1.1.1"], "resolution": "DNS"}"#,
            "true"
        ));
    }

    fn ironsail_yaml_of(text: &str) -> Value {
        ironsail_yaml::documents(text).unwrap().remove(0)
    }

    proptest! {
        #[test]
        fn no_two_hosts_share_an_address(count in 1usize..300) {
            let entries: BTreeMap<_, _> = (0..count)
                .map(|i| (name(&format!("e{i}")), entry(&["same.com", "other.com"], 1)))
                .collect();
            let all = allocate(&entries);
            let addresses: Vec<_> = all.values().flatten().map(|given| given.address).collect();
            let distinct: BTreeSet<_> = addresses.iter().collect();
            prop_assert_eq!(addresses.len(), count * 4);
            prop_assert_eq!(distinct.len(), addresses.len());
        }
    }
}
