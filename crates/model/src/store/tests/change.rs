//! Change sets, and that work follows the size of the change.

use crate::testing::{apply, delete, key, pod, store, web};
use crate::{Settings, Store, Work};

const WEB: &str = "web.a.svc.cluster.local";

#[test]
fn the_first_is_full_and_nothing_new_is_nothing() {
    let mut store = Store::new(Settings::default());
    assert!(store.take().unwrap().changes.full);
    assert!(store.take().is_none());
    apply(&mut store, &web("web", "a", "10.0.0.1"));
    let update = store.take().unwrap();
    assert!(!update.changes.full);
    assert!(update.changes.services.contains(&key(WEB, "a")));
    assert!(update.changes.endpoints.contains(&key(WEB, "a")));
    apply(&mut store, &web("web", "a", "10.0.0.1"));
    assert!(store.take().is_none(), "the same again is no change");
}

#[test]
fn what_came_and_went_is_no_change() {
    let mut store = store(&web("web", "a", "10.0.0.1"));
    store.take();
    apply(&mut store, &web("other", "a", "10.0.0.2"));
    delete(&mut store, &web("other", "a", "10.0.0.2"));
    let update = store.take();
    let changed = update.map(|update| (update.changes.services, update.changes.endpoints));
    assert!(
        changed.is_none_or(|(services, endpoints)| services.is_empty() && endpoints.is_empty())
    );
}

#[test]
fn an_endpoint_change_touches_its_service_only() {
    let mut text = String::new();
    for n in 1..=50 {
        text += &web(&format!("s{n}"), "a", &format!("10.0.1.{n}"));
        text += "\n---\n";
    }
    let mut store = store(&(text + &web("web", "a", "10.0.0.1")));
    let before = store.take().unwrap().snapshot;
    let work = store.work();
    apply(&mut store, &web("web", "a", "10.0.0.1").replace("{ready: true}", "{ready: false}"));
    let update = store.take().unwrap();
    assert!(update.changes.is_endpoints_only(), "{:?}", update.changes);
    assert_eq!(update.changes.endpoints.iter().collect::<Vec<_>>(), [&key(WEB, "a")]);
    assert!(update.changes.services.is_empty() && update.changes.workloads.is_empty());
    assert_eq!(store.work(), Work { endpoints: work.endpoints + 1, ..work });
    // Whatever did not change is the very same object.
    let other = key("s1.a.svc.cluster.local", "a");
    assert!(std::ptr::eq(
        &raw const **before.endpoints.get(&other).unwrap(),
        &raw const **update.snapshot.endpoints.get(&other).unwrap(),
    ));
    assert!(std::ptr::eq(
        &raw const **before.services.get(&key(WEB, "a")).unwrap(),
        &raw const **update.snapshot.services.get(&key(WEB, "a")).unwrap(),
    ));
}

#[test]
fn a_pod_that_only_gets_ready_changes_nothing_by_itself() {
    let mut store = store(&web("web", "a", "10.0.0.1"));
    store.take();
    apply(&mut store, &pod("web", "a", "10.0.0.1").replace("'True'", "'False'"));
    assert!(store.take().is_none(), "the slice will say so");
}

#[test]
fn a_new_identity_is_told() {
    let mut store = store(&web("web", "a", "10.0.0.1"));
    store.take();
    apply(&mut store, &pod("web", "a", "10.0.0.1").replace("web-account", "other"));
    let changes = store.take().unwrap().changes;
    assert!(changes.identities.contains(&key(WEB, "a")) && !changes.is_endpoints_only());
    assert!(changes.services.is_empty());
}

#[test]
fn a_service_change_touches_that_service() {
    let mut store =
        store(&format!("{}\n---\n{}", web("web", "a", "10.0.0.1"), web("other", "a", "10.0.0.2")));
    store.take();
    let work = store.work();
    apply(
        &mut store,
        &web("web", "a", "10.0.0.1").replace("name: http, port: 80,", "name: http, port: 81,"),
    );
    let changes = store.take().unwrap().changes;
    assert_eq!(changes.services.iter().collect::<Vec<_>>(), [&key(WEB, "a")]);
    assert!(changes.endpoints.is_empty());
    assert_eq!(
        (store.work().services, store.work().endpoints),
        (work.services + 1, work.endpoints + 1)
    );
}

#[test]
fn configuration_is_told_by_object() {
    let rule = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: r, namespace: a}
spec: {host: web}
";
    let mut store = store(&web("web", "a", "10.0.0.1"));
    store.take();
    apply(&mut store, rule);
    let changes = store.take().unwrap().changes;
    assert_eq!(
        changes.objects.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["DestinationRule a/r"]
    );
    assert!(changes.services.is_empty() && changes.endpoints.is_empty());
    apply(&mut store, rule);
    assert!(store.take().is_none());
    delete(&mut store, rule);
    assert_eq!(store.take().unwrap().changes.objects.len(), 1);
    delete(&mut store, rule);
    assert!(store.take().is_none());
}

#[test]
fn a_node_that_moves_moves_the_endpoints_on_it() {
    let node = |zone: &str| {
        format!(
            "
apiVersion: v1
kind: Node
metadata: {{name: n1, labels: {{topology.kubernetes.io/region: r, topology.kubernetes.io/zone: {zone}}}}}
"
        )
    };
    let mut store = store(&web("web", "a", "10.0.0.1"));
    apply(&mut store, &node("z1"));
    store.take();
    apply(&mut store, &node("z2"));
    let changes = store.take().unwrap().changes;
    assert!(changes.is_endpoints_only() && changes.endpoints.contains(&key(WEB, "a")));
    apply(&mut store, &node("z2").replace("labels:", "annotations: {k: v}, labels:"));
    assert!(store.take().is_none(), "an annotation does not move it");
}
