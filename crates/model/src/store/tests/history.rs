//! The state depends on which objects there are, not on how it came about; and change sets tell the
//! whole truth.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use ironsail_api::mesh::{MeshConfig, MeshNetworks};
use ironsail_api::{Event, Object, ObjectKey};
use proptest::prelude::*;

use crate::testing::{cluster, objects};
use crate::{ChangeSet, Settings, Snapshot, Store};

/// Objects of which several share a name: versions of one.
static POOL: LazyLock<Vec<Object>> = LazyLock::new(|| objects(include_str!("pool.yaml")));

#[derive(Clone, Debug)]
enum Step {
    Apply(usize),
    Delete(usize),
    Mesh(bool),
    Take,
}

fn step(size: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..size).prop_map(Step::Apply),
        3 => (0..size).prop_map(Step::Delete),
        1 => any::<bool>().prop_map(Step::Mesh),
        2 => Just(Step::Take),
    ]
}

fn set_mesh(store: &mut Store, other: bool) {
    let config = match other {
        false => serde_json::json!({}),
        true => serde_json::json!({
            "trustDomain": "other.domain",
            "defaultServiceExportTo": ["."],
            "defaultVirtualServiceExportTo": ["."],
            "defaultDestinationRuleExportTo": ["."],
        }),
    };
    let networks = match other {
        false => serde_json::json!({}),
        true => serde_json::json!({"networks": {"n": {
            "endpoints": [{"fromCidr": "10.0.0.0/24"}],
            "gateways": [{"registryServiceName": "web.a.svc.cluster.local", "port": 443}],
        }}}),
    };
    let networks: MeshNetworks = serde_json::from_value(networks).unwrap();
    store.set_mesh(MeshConfig::parse(&config).value, networks);
}

/// Everything in a snapshot that may be seen, as text.
fn picture(snapshot: &Snapshot) -> String {
    let Snapshot {
        services, endpoints, hosts, workloads, config, namespaces, gateways, notes, ..
    } = snapshot;
    let rules: Vec<_> = config
        .destination_rules
        .namespaces()
        .flat_map(|namespace| config.rules.in_namespace(namespace))
        .collect();
    format!(
        "{services:#?}\n{endpoints:#?}\n{hosts:#?}\n{workloads:#?}\n{rules:#?}\n{config:#?}\n{namespaces:#?}\n{gateways:#?}\n{notes:#?}\n{:#?}",
        snapshot.counts()
    )
}

/// Whatever differs between two snapshots is in the change set.
fn check_told(
    before: &Snapshot,
    after: &Snapshot,
    changes: &ChangeSet,
) -> Result<(), TestCaseError> {
    let keys = before.services.keys().chain(after.services.keys());
    for key in keys {
        let digest = |s: &Snapshot| s.services.get(key).map(|service| service.digest);
        let changed = digest(before) != digest(after);
        // Everything between two takes is one change, so what changed back may be told too.
        prop_assert!(
            !changed || changes.full || changes.services.contains(key),
            "service {key} changed unsaid"
        );
        let digest = |s: &Snapshot| s.endpoints_of(key).digest;
        let changed = digest(before) != digest(after);
        prop_assert!(
            !changed || changes.endpoints.contains(key),
            "endpoints of {key} changed unsaid"
        );
        let changed = before.endpoints_of(key).identities != after.endpoints_of(key).identities;
        prop_assert!(
            !changed || changes.identities.contains(key),
            "identities of {key} changed unsaid"
        );
    }
    for (key, workload) in after.workloads.iter() {
        let changed = before.workloads.get(key).map(|w| w.digest()) != Some(workload.digest());
        prop_assert!(!changed || changes.workloads.contains(key), "workload {key} changed unsaid");
    }
    Ok(())
}

fn run(pool: &[Object], steps: &[Step]) -> Result<(), TestCaseError> {
    let mut store = Store::new(Settings::default());
    let mut there: BTreeMap<ObjectKey, Object> = BTreeMap::new();
    let mut mesh = false;
    let mut last = store.take().unwrap().snapshot;
    let mut take = |store: &mut Store| -> Result<Arc<Snapshot>, TestCaseError> {
        if let Some(update) = store.take() {
            check_told(&last, &update.snapshot, &update.changes)?;
            last = update.snapshot;
        }
        Ok(last.clone())
    };
    for step in steps {
        match step {
            Step::Apply(index) => {
                let object = pool[*index].clone();
                there.insert(object.key(&cluster()), object.clone());
                store.apply(Event::Apply { cluster: cluster(), object });
            }
            Step::Delete(index) => {
                let key = pool[*index].key(&cluster());
                there.remove(&key);
                store.apply(Event::Delete(key));
            }
            Step::Mesh(other) => {
                mesh = *other;
                set_mesh(&mut store, mesh);
            }
            Step::Take => drop(take(&mut store)?),
        }
    }
    let lived = take(&mut store)?;
    let mut fresh = Store::new(Settings::default());
    set_mesh(&mut fresh, mesh);
    for object in there.into_values() {
        fresh.apply(Event::Apply { cluster: cluster(), object });
    }
    let fresh = fresh.take().unwrap().snapshot;
    let (lived, fresh) = (picture(&lived), picture(&fresh));
    let differs = lived.lines().zip(fresh.lines()).position(|(a, b)| a != b);
    if let Some(line) = differs {
        let near = |text: &str| {
            text.lines().skip(line.saturating_sub(12)).take(20).collect::<Vec<_>>().join("\n")
        };
        prop_assert!(false, "lived:\n{}\nfresh:\n{}", near(&lived), near(&fresh));
    }
    prop_assert_eq!(lived.len(), fresh.len());
    Ok(())
}

proptest! {
    #[test]
    fn history_does_not_matter(steps in prop::collection::vec(step(POOL.len()), 0..60)) {
        run(&POOL, &steps)?;
    }
}
