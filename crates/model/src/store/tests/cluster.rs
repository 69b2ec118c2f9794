//! The same service in several clusters.

use ironsail_api::{ClusterId, Event};

use crate::testing::{key, objects, web};
use crate::{Settings, Store};

fn apply(store: &mut Store, cluster: &str, yaml: &str) {
    for object in objects(yaml) {
        store.apply(Event::Apply { cluster: ClusterId::from(cluster), object });
    }
}

#[test]
fn clusters_share_a_service_and_keep_their_addresses() {
    let mut store = Store::new(Settings::default());
    apply(
        &mut store,
        "zz",
        &web("web", "a", "10.0.0.2").replace("clusterIP: 10.96", "clusterIP: 10.97"),
    );
    apply(&mut store, "Kubernetes", &web("web", "a", "10.0.0.1"));
    let snapshot = store.take().unwrap().snapshot;
    let key = key("web.a.svc.cluster.local", "a");
    let service = snapshot.service(&key).unwrap();
    assert_eq!(service.addresses[0].to_string(), "10.96.0.1", "the own cluster decides");
    let there = service.addresses_in(&ClusterId::from("zz"));
    assert_eq!(there[0].to_string(), "10.97.0.2");
    assert_eq!(service.addresses_in(&ClusterId::from("third")), service.addresses);
    let endpoints = snapshot.endpoints_of(&key);
    let clusters: Vec<_> = endpoints.iter().map(|(_, e)| e.workload.cluster.as_str()).collect();
    assert_eq!(clusters, ["Kubernetes", "zz"]);

    for object in objects(&web("web", "a", "10.0.0.1")) {
        store.apply(Event::Delete(object.key(&ClusterId::from("Kubernetes"))));
    }
    let snapshot = store.take().unwrap().snapshot;
    assert_eq!(snapshot.service(&key).unwrap().addresses[0].to_string(), "10.97.0.2");
    assert_eq!(snapshot.endpoints_of(&key).len(), 1);
}

#[test]
fn equal_addresses_of_two_clusters_are_two_workloads() {
    let mut store = Store::new(Settings::default());
    apply(&mut store, "one", &web("web", "a", "10.0.0.1"));
    apply(&mut store, "two", &web("other", "b", "10.0.0.1"));
    let snapshot = store.take().unwrap().snapshot;
    let name = |cluster: &str| {
        let ip = "10.0.0.1".parse().unwrap();
        snapshot.workloads.at(&ClusterId::from(cluster), ip).unwrap().name.to_string()
    };
    assert_eq!((name("one").as_str(), name("two").as_str()), ("web", "other"));
}
