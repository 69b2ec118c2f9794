//! The store's promises: durable when acknowledged, whatever a crash leaves; events complete and in
//! order; damage is reported.

use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn key(name: &str) -> Key {
    Key::new("", "configmaps", "default", name)
}

fn object(name: &str, data: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "data": {"v": data}})
}

fn open(directory: &Path) -> Store {
    Store::open(directory, Limits::default()).unwrap()
}

async fn put(store: &Store, name: &str, expect: Expect, data: &str) -> Arc<Object> {
    store.commit(key(name), expect, Change::Put(object(name, data))).await.unwrap()
}

fn names(listing: &Listing) -> Vec<String> {
    listing.objects.iter().map(|object| object.key.name.to_string()).collect()
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let a = put(&store, "a", Expect::Absent, "1").await;
    let a = put(&store, "a", Expect::Revision(a.revision), "2").await;
    let b = put(&store, "b", Expect::Absent, "1").await;
    let gone = Change::Remove(object("b", "1"));
    store.commit(key("b"), Expect::Revision(b.revision), gone).await.unwrap();
    drop(store);
    let store = open(dir.path());
    let listing = store.reader().list("", "configmaps", None);
    assert_eq!(names(&listing), ["a"]);
    assert_eq!(listing.revision, 4);
    assert_eq!(listing.objects[0].bytes, a.bytes);
    assert_eq!(listing.objects[0].value()["metadata"]["resourceVersion"], "2");
}

#[tokio::test]
async fn a_write_that_expects_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    put(&store, "a", Expect::Absent, "1").await;
    for expect in [Expect::Absent, Expect::Revision(7)] {
        let refused = store.commit(key("a"), expect, Change::Put(object("a", "x"))).await;
        assert!(matches!(refused, Err(CommitError::Conflict)), "{expect:?}");
    }
    let refused = store.commit(key("b"), Expect::Revision(1), Change::Put(object("b", "x"))).await;
    assert!(matches!(refused, Err(CommitError::Conflict)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_writers_of_one_state_exactly_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(open(dir.path()));
    let first = put(&store, "a", Expect::Absent, "0").await.revision;
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let change = Change::Put(object("a", &n.to_string()));
                store.commit(key("a"), Expect::Revision(first), change).await.is_ok()
            })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        won += usize::from(task.await.unwrap());
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn a_directory_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let _store = open(dir.path());
    assert!(matches!(Store::open(dir.path(), Limits::default()), Err(Error::InUse(_))));
}

/// Copies the files of a store as a crash would leave them, except for its lock.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[tokio::test]
async fn a_log_cut_off_at_any_byte_keeps_every_whole_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut ends = vec![0];
    let log = dir.path().join(disk::log_name(0));
    for name in ["a", "b", "c", "d"] {
        put(&store, name, Expect::Absent, "some data").await;
        ends.push(std::fs::metadata(&log).unwrap().len());
    }
    drop(store);
    for cut in 0..=*ends.last().unwrap() {
        let crashed = tempfile::tempdir().unwrap();
        copy(dir.path(), crashed.path());
        let file =
            std::fs::OpenOptions::new().write(true).open(crashed.path().join(disk::log_name(0)));
        file.unwrap().set_len(cut).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let store = open(crashed.path());
        assert_eq!(
            store.reader().list("", "configmaps", None).objects.len(),
            whole,
            "cut at {cut}"
        );
        assert_eq!(store.reader().revision(), whole as u64);
        // And it goes on from there, readable once more.
        put(&store, "later", Expect::Absent, "x").await;
        drop(store);
        assert!(open(crashed.path()).reader().get("", "configmaps", "default", "later").is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a crash writes over the last, never acknowledged frame, the frames before it stay.
    #[test]
    fn a_damaged_tail_loses_only_the_tail(damage in proptest::collection::vec(any::<u8>(), 1..200), keep in 0usize..200) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        runtime.block_on(put(&store, "a", Expect::Absent, "1"));
        drop(store);
        let path = dir.path().join(disk::log_name(0));
        let sound = std::fs::read(&path).unwrap();
        let mut bytes = sound.clone();
        bytes.extend_from_slice(&sound[..keep.min(sound.len() - 1)]);
        bytes.extend_from_slice(&damage);
        // A repetition that happens to restore the whole frame would be a sound one.
        prop_assume!(!frame::any(&bytes[sound.len()..]));
        std::fs::write(&path, bytes).unwrap();
        let store = open(dir.path());
        prop_assert_eq!(store.reader().revision(), 1);
    }

    /// A flipped bit anywhere before the last frame is reported with the file's name.
    #[test]
    fn damage_in_the_middle_is_reported(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let path = dir.path().join(disk::log_name(0));
        runtime.block_on(put(&store, "a", Expect::Absent, "1"));
        let first = std::fs::metadata(&path).unwrap().len() as usize;
        runtime.block_on(put(&store, "b", Expect::Absent, "1"));
        drop(store);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at.index(first)] ^= 1 << bit;
        std::fs::write(&path, bytes).unwrap();
        let error = Store::open(dir.path(), Limits::default()).err().expect("must not open");
        prop_assert!(matches!(error, Error::Corrupt { .. }), "{}", error);
        prop_assert!(error.to_string().contains("log-"), "{}", error);
    }
}

#[tokio::test]
async fn snapshots_replace_logs_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { snapshot_after: 2000, ..Limits::default() };
    let store = Store::open(dir.path(), limits).unwrap();
    let mut revision = put(&store, "a", Expect::Absent, "0").await.revision;
    for n in 0..200 {
        revision = put(&store, "a", Expect::Revision(revision), &n.to_string()).await.revision;
    }
    drop(store);
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert!(files <= 6, "old logs are deleted, {files} files left");
    let store = Store::open(dir.path(), limits).unwrap();
    assert_eq!(store.reader().revision(), 201);
    let a = store.reader().get("", "configmaps", "default", "a").unwrap();
    assert_eq!(a.value()["data"]["v"], "199");
    assert!(
        store.reader().list_at("", "configmaps", None, 1).is_err(),
        "compacted by the snapshot"
    );
}

#[tokio::test]
async fn a_crash_between_new_log_and_snapshot_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    put(&store, "a", Expect::Absent, "1").await;
    drop(store);
    // As if the log had been rotated and the snapshot not finished.
    std::fs::write(dir.path().join(disk::log_name(1)), b"").unwrap();
    std::fs::write(dir.path().join(format!("{}.tmp", disk::snapshot_name(1))), b"half").unwrap();
    let store = open(dir.path());
    put(&store, "b", Expect::Absent, "1").await;
    drop(store);
    assert_eq!(names(&open(dir.path()).reader().list("", "configmaps", None)), ["a", "b"]);
}

/// An empty but sound snapshot as of the last number there is: the next write could not be counted.
#[tokio::test]
async fn a_revision_that_cannot_be_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut frame = vec![0; frame::HEADER];
    frame.extend_from_slice(&snapshot::trailer(0));
    frame::seal(&mut frame, 0);
    std::fs::write(dir.path().join(disk::snapshot_name(u64::MAX)), frame).unwrap();
    let error = Store::open(dir.path(), Limits::default()).err().expect("must not open");
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("snapshot-"), "{error}");
}

#[tokio::test]
async fn a_missing_log_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    put(&store, "a", Expect::Absent, "1").await;
    drop(store);
    std::fs::rename(dir.path().join(disk::log_name(0)), dir.path().join(disk::log_name(5)))
        .unwrap();
    assert!(matches!(Store::open(dir.path(), Limits::default()), Err(Error::Corrupt { .. })));
}

#[tokio::test]
async fn lists_are_by_namespace_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for (namespace, name) in [("b", "x"), ("a-b", "y"), ("a", "z"), ("a", "m")] {
        let key = Key::new("", "configmaps", namespace, name);
        store.commit(key, Expect::Absent, Change::Put(object(name, ""))).await.unwrap();
    }
    let reader = store.reader();
    assert_eq!(names(&reader.list("", "configmaps", Some("a"))), ["m", "z"]);
    assert_eq!(names(&reader.list("", "configmaps", None)), ["y", "m", "z", "x"]);
    assert!(reader.list("", "secrets", None).objects.is_empty());
}

#[tokio::test]
async fn a_list_at_an_old_revision_shows_the_old_state() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let a = put(&store, "a", Expect::Absent, "1").await;
    let b = put(&store, "b", Expect::Absent, "1").await;
    let old = b.revision;
    put(&store, "a", Expect::Revision(a.revision), "2").await;
    store.commit(key("b"), Expect::Revision(old), Change::Remove(object("b", ""))).await.unwrap();
    put(&store, "c", Expect::Absent, "1").await;
    let listing = store.reader().list_at("", "configmaps", Some("default"), old).unwrap();
    assert_eq!(names(&listing), ["a", "b"]);
    assert_eq!(listing.objects[0].revision, a.revision);
}

#[tokio::test]
async fn a_cursor_sees_every_event_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(open(dir.path()));
    let mut cursor = store.reader().follow("", "configmaps", 0);
    let writer = store.clone();
    let task = tokio::spawn(async move {
        for n in 0..500 {
            put(&writer, &format!("n{n}"), Expect::Absent, "").await;
        }
    });
    let mut seen = Vec::new();
    while seen.len() < 500 {
        seen.extend(cursor.next().await.unwrap().iter().map(|event| event.revision()));
    }
    task.await.unwrap();
    assert_eq!(seen, (1..=500).collect::<Vec<_>>());
    assert_eq!(cursor.revision(), 500);
}

#[tokio::test]
async fn a_cursor_behind_the_history_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { history_events: 10, ..Limits::default() };
    let store = Store::open(dir.path(), limits).unwrap();
    for n in 0..20 {
        put(&store, &format!("n{n}"), Expect::Absent, "").await;
    }
    let mut cursor = store.reader().follow("", "configmaps", 3);
    assert_eq!(cursor.next().await.unwrap_err(), Expired { wanted: 3, oldest: 10 });
    let mut cursor = store.reader().follow("", "configmaps", 10);
    assert_eq!(cursor.next().await.unwrap().len(), 10);
}
