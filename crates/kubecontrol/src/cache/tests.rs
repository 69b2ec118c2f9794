//! What a controller sees of its own writes, before and after the watch shows them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;

use super::Cache;
use crate::key::Key;

fn map(name: &str, uid: &str, version: u64) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("ns".into());
    map.metadata.name = Some(name.into());
    map.metadata.uid = Some(uid.into());
    map.metadata.resource_version = Some(version.to_string());
    map
}

fn seen(cache: &Cache<ConfigMap>, name: &str) -> Option<String> {
    cache.get(&Key::new("ns", name)).and_then(|m| m.metadata.resource_version.clone())
}

#[test]
fn our_own_write_is_seen_at_once_and_an_older_event_does_not_undo_it() {
    let cache = Cache::new(|_| {});
    cache.replace(vec![map("a", "1", 5)]);
    cache.observe(map("a", "1", 9));
    assert_eq!(seen(&cache, "a").as_deref(), Some("9"));
    cache.apply(map("a", "1", 7));
    assert_eq!(seen(&cache, "a").as_deref(), Some("9"));
    cache.apply(map("a", "1", 11));
    assert_eq!(seen(&cache, "a").as_deref(), Some("11"));
}

#[test]
fn a_late_answer_does_not_bring_back_what_the_watch_saw_deleted() {
    let cache = Cache::new(|_| {});
    cache.replace(vec![]);
    cache.apply(map("a", "1", 5));
    cache.remove(&map("a", "1", 6));
    cache.observe(map("a", "1", 5));
    assert_eq!(seen(&cache, "a"), None);
}

#[test]
fn the_deletion_of_a_predecessor_leaves_the_successor() {
    let cache = Cache::new(|_| {});
    cache.replace(vec![map("a", "1", 5)]);
    cache.observe(map("a", "2", 9));
    cache.remove(&map("a", "1", 8));
    assert_eq!(seen(&cache, "a").as_deref(), Some("9"));
}

#[test]
fn a_list_tells_of_everything_and_of_what_is_gone() {
    let cache = Cache::new(|_| {});
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    cache.on_change(move |old, new| {
        let name = |m: Option<&Arc<ConfigMap>>| m.and_then(|m| m.metadata.name.clone());
        log.lock().push((name(old), name(new)));
    });
    cache.replace(vec![map("a", "1", 1), map("b", "2", 2)]);
    told.lock().clear();
    cache.replace(vec![map("b", "2", 2), map("c", "3", 3)]);
    let some = |s: &str| Some(s.to_string());
    assert_eq!(*told.lock(), [(some("b"), some("b")), (None, some("c")), (some("a"), None)]);
    assert_eq!(cache.namespace("ns").len(), 2);
    assert!(cache.namespace("n").is_empty());
}
