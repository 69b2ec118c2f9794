//! Families of objects: what a change makes us look at, and what then happens to each.

use super::super::verdict::{Verdict, decide};
use super::*;
use kube::api::PropagationPolicy;
use kube::core::ApiResource;
use serde_json::{Value, json};

fn served(kind: &str, namespaced: bool) -> Arc<Served> {
    let gvk = kube::core::GroupVersionKind::gvk("", "v1", kind);
    Arc::new(Served { resource: ApiResource::from_gvk(&gvk), namespaced, verbs: vec![] })
}

/// Metadata written as `uid`, its owners (`!` = blocks the owner) and its finalizers.
fn meta(uid: &str, owners: &[&str], deleted: bool, finalizers: &[&str]) -> ObjectMeta {
    let owners: Vec<Value> = owners
        .iter()
        .map(|o| {
            let id = o.trim_end_matches('!');
            json!({"apiVersion": "v1", "kind": "Thing", "name": id, "uid": id,
                "blockOwnerDeletion": o.ends_with('!')})
        })
        .collect();
    let mut meta: ObjectMeta = serde_json::from_value(json!({"uid": uid, "name": uid,
        "namespace": "ns", "ownerReferences": owners, "finalizers": finalizers}))
    .unwrap();
    if deleted {
        meta.deletion_timestamp = crate::store::time(jiff::Timestamp::UNIX_EPOCH);
    }
    meta
}

fn see(graph: &mut Graph, meta: &ObjectMeta) -> Vec<String> {
    texts(graph.apply(&served("Thing", true), meta))
}

fn texts(work: Vec<Work>) -> Vec<String> {
    work.into_iter()
        .map(|w| match w {
            Work::Delete(uid) => format!("look {uid}"),
            Work::Doubt(uid) => format!("doubt {uid}"),
            Work::Orphan(uid) => format!("orphan {uid}"),
        })
        .collect()
}

/// The verdict on an object whose owners are as the graph knows them; unknown ones are gone.
fn judge(graph: &Graph, meta: &ObjectMeta) -> Verdict {
    let uid = meta.uid.as_deref().unwrap();
    let node = graph.node(uid).unwrap();
    let owners: Vec<_> = meta
        .owner_references
        .iter()
        .flatten()
        .map(|o| (o.clone(), graph.owner(&node, o).unwrap_or(Owner::Gone)))
        .collect();
    decide(meta, &owners, &graph.family(uid))
}

#[test]
fn a_deleted_owner_takes_its_dependents_along() {
    let mut graph = Graph::default();
    assert_eq!(see(&mut graph, &meta("owner", &[], false, &[])), Vec::<String>::new());
    let child = meta("child", &["owner!"], false, &[]);
    assert_eq!(see(&mut graph, &child), Vec::<String>::new(), "its owner is there");
    assert_eq!(texts(graph.remove("owner")), ["look child"]);
    assert_eq!(judge(&graph, &child), Verdict::Delete(PropagationPolicy::Background));
}

#[test]
fn an_owner_never_seen_is_doubted_not_condemned() {
    let mut graph = Graph::default();
    let child = meta("child", &["late"], false, &[]);
    assert_eq!(see(&mut graph, &child), ["doubt child"]);
    let node = graph.node("child").unwrap();
    assert_eq!(graph.owner(&node, &child.owner_references.clone().unwrap()[0]), None);
    see(&mut graph, &meta("late", &[], false, &[]));
    assert!(graph.is_settled("child"));
}

#[test]
fn one_owner_left_is_enough() {
    let mut graph = Graph::default();
    see(&mut graph, &meta("a", &[], false, &[]));
    see(&mut graph, &meta("b", &[], false, &[]));
    let child = meta("child", &["a", "b"], false, &[]);
    see(&mut graph, &child);
    assert_eq!(texts(graph.remove("a")), ["look child"]);
    let Verdict::Disown(kept) = judge(&graph, &child) else { panic!() };
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].uid, "b");
    let disowned = meta("child", &["b"], false, &[]);
    assert_eq!(see(&mut graph, &disowned), Vec::<String>::new());
    assert!(graph.is_settled("child"));
}

#[test]
fn in_the_foreground_the_owner_waits_for_those_that_block() {
    let mut graph = Graph::default();
    see(&mut graph, &meta("owner", &[], false, &[]));
    let blocking = meta("blocking", &["owner!"], false, &[]);
    let free = meta("free", &["owner"], false, &[]);
    see(&mut graph, &blocking);
    see(&mut graph, &free);
    let leaving = meta("owner", &[], true, &[FOREGROUND]);
    assert_eq!(see(&mut graph, &leaving), ["look blocking", "look free", "look owner"]);
    assert_eq!(judge(&graph, &leaving), Verdict::Wait(vec!["blocking".into()]));
    assert_eq!(judge(&graph, &blocking), Verdict::Delete(PropagationPolicy::Background));
    assert_eq!(judge(&graph, &free), Verdict::Delete(PropagationPolicy::Background));
    assert_eq!(texts(graph.remove("blocking")), ["look owner"]);
    assert_eq!(judge(&graph, &leaving), Verdict::Finalize, "the other does not block");
}

#[test]
fn the_foreground_goes_down_the_generations() {
    let mut graph = Graph::default();
    let child = meta("child", &["owner!"], false, &[]);
    see(&mut graph, &meta("owner", &[], true, &[FOREGROUND]));
    see(&mut graph, &child);
    see(&mut graph, &meta("grandchild", &["child!"], false, &[]));
    assert_eq!(judge(&graph, &child), Verdict::Delete(PropagationPolicy::Foreground));
}

#[test]
fn a_circle_in_the_foreground_is_broken() {
    let mut graph = Graph::default();
    let a = meta("a", &["b!"], true, &[FOREGROUND]);
    let b = meta("b", &["a!"], false, &[]);
    see(&mut graph, &a);
    see(&mut graph, &b);
    let Verdict::Unblock(owners) = judge(&graph, &b) else { panic!() };
    assert_eq!(owners[0].block_owner_deletion, Some(false));
}

#[test]
fn orphans_are_set_free_before_their_owner_goes() {
    let mut graph = Graph::default();
    see(&mut graph, &meta("owner", &[], false, &[]));
    see(&mut graph, &meta("child", &["owner"], false, &[]));
    assert_eq!(see(&mut graph, &meta("owner", &[], true, &[ORPHAN])), ["orphan owner"]);
    assert_eq!(graph.family("owner").dependents.len(), 1);
    see(&mut graph, &meta("child", &[], false, &[]));
    assert_eq!(graph.family("owner").dependents.len(), 0);
    assert_eq!(texts(graph.remove("owner")), Vec::<String>::new());
}

#[test]
fn an_object_being_deleted_is_left_to_its_own_finalizers() {
    let mut graph = Graph::default();
    let child = meta("child", &["gone"], true, &["my/finalizer"]);
    see(&mut graph, &child);
    assert_eq!(judge(&graph, &child), Verdict::Nothing);
}

#[test]
fn the_policy_written_on_an_object_is_kept() {
    let mut graph = Graph::default();
    let rows = [
        (ORPHAN, PropagationPolicy::Orphan),
        (FOREGROUND, PropagationPolicy::Foreground),
        ("other", PropagationPolicy::Background),
    ];
    for (finalizer, policy) in rows {
        let child = meta("child", &["gone"], false, &[finalizer]);
        see(&mut graph, &child);
        assert_eq!(judge(&graph, &child), Verdict::Delete(policy));
    }
}

#[test]
fn an_owner_in_another_namespace_is_no_owner() {
    let mut graph = Graph::default();
    let mut far = meta("far", &[], false, &[]);
    far.namespace = Some("elsewhere".into());
    see(&mut graph, &far);
    let child = meta("child", &["far"], false, &[]);
    assert_eq!(see(&mut graph, &child), ["look child"]);
    assert_eq!(judge(&graph, &child), Verdict::Delete(PropagationPolicy::Background));
    let mut cluster = meta("root", &[], false, &[]);
    cluster.namespace = None;
    graph.apply(&served("Root", false), &cluster);
    see(&mut graph, &meta("leaf", &["root"], false, &[]));
    assert!(graph.is_settled("leaf"));
}

#[test]
fn memory_of_the_dead_is_bounded() {
    let mut graph = Graph::default();
    for n in 0..5000 {
        graph.note_gone(&n.to_string());
    }
    assert_eq!(graph.gone.len(), REMEMBERED);
    assert_eq!(graph.order.len(), REMEMBERED);
}
