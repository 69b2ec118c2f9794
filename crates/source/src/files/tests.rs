//! A folder as people and machines change it.

use std::path::Path;

use tokio::sync::mpsc::Receiver;

use super::*;

struct Bench {
    folder: tempfile::TempDir,
    events: Receiver<Event>,
    board: Board,
    stop: CancellationToken,
}

fn host(name: &str, hosts: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\n\
         metadata: {{name: {name}}}\nspec:\n  hosts: {hosts}\n"
    )
}

async fn bench(files: &[(&str, &str)]) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let (sender, events) = crate::channel();
    let (board, stop) = (Board::default(), CancellationToken::new());
    let config = Config {
        path: folder.path().to_owned(),
        cluster: "files".into(),
        namespace: "shop".to_owned(),
    };
    tokio::spawn(run(config, sender, board.clone(), stop.clone()));
    Bench { folder, events, board, stop }
}

impl Bench {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// The next event but `Synced`, in words.
    async fn next(&mut self) -> String {
        loop {
            let wait = tokio::time::timeout(Duration::from_secs(20), self.events.recv());
            match wait.await.expect("an event").expect("the source runs") {
                Event::Synced { .. } => {}
                Event::Delete(key) => return format!("- {}/{}", key.namespace, key.name),
                Event::Apply { object, .. } => {
                    let (meta, spec) = (object.meta(), object.spec());
                    return format!("+ {}/{} {}", meta.namespace, meta.name, spec["hosts"]);
                }
            }
        }
    }

    async fn place(&self, part: &str) -> String {
        let mut changes = self.board.changes();
        loop {
            let places = self.board.findings().places;
            if let Some((place, why)) =
                places.iter().find(|(place, why)| place.contains(part) || why.contains(part))
            {
                return format!("{place}: {why}");
            }
            let wait = tokio::time::timeout(Duration::from_secs(20), changes.changed());
            wait.await.unwrap_or_else(|_| panic!("{part} is not in {places:?}")).unwrap();
        }
    }

    async fn places_clear(&self) {
        let mut changes = self.board.changes();
        while !self.board.findings().places.is_empty() {
            changes.changed().await.unwrap();
        }
    }
}

#[tokio::test]
async fn files_come_change_and_go() {
    let mut bench = bench(&[("a.yaml", &host("a", "[one]")), ("note.txt", "no")]).await;
    assert_eq!(bench.next().await, r#"+ shop/a ["one"]"#);
    bench.write("a.yaml", &host("a", "[two]"));
    assert_eq!(bench.next().await, r#"+ shop/a ["two"]"#);
    // As editors write: a new file takes the place of the old one.
    bench.write(".a.yaml.swp", &host("a", "[three]"));
    std::fs::rename(bench.path().join(".a.yaml.swp"), bench.path().join("a.yaml")).unwrap();
    assert_eq!(bench.next().await, r#"+ shop/a ["three"]"#);
    std::fs::create_dir(bench.path().join("sub")).unwrap();
    bench.write(
        "sub/b.json",
        r#"{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
        "metadata": {"name": "b", "namespace": "other"}, "spec": {"hosts": ["b"]}}"#,
    );
    assert_eq!(bench.next().await, r#"+ other/b ["b"]"#);
    std::fs::remove_file(bench.path().join("a.yaml")).unwrap();
    assert_eq!(bench.next().await, "- shop/a");
    bench.stop.cancel();
}

#[tokio::test]
async fn a_broken_document_is_named_and_costs_only_itself() {
    let two = |second: &str| format!("{}---\n{second}", host("a", "[one]"));
    let mut bench = bench(&[("f.yaml", &two(&host("b", "[one]")))]).await;
    assert_eq!(bench.next().await, r#"+ shop/a ["one"]"#);
    assert_eq!(bench.next().await, r#"+ shop/b ["one"]"#);
    bench.write("f.yaml", &format!("{}---\nb: [\n", host("a", "[two]")));
    // The object of the broken document stays as it was.
    assert_eq!(bench.next().await, r#"+ shop/a ["two"]"#);
    let place = bench.place("f.yaml:7").await;
    assert!(place.contains("line"), "{place}");
    bench.write("f.yaml", &host("a", "[three]"));
    assert_eq!(bench.next().await, r#"+ shop/a ["three"]"#);
    assert_eq!(bench.next().await, "- shop/b");
    bench.places_clear().await;
    bench.stop.cancel();
}

#[tokio::test]
async fn a_bad_object_keeps_its_last_good_state() {
    let mut bench = bench(&[("a.yaml", &host("a", "[one]"))]).await;
    assert_eq!(bench.next().await, r#"+ shop/a ["one"]"#);
    let mut changes = bench.board.changes();
    bench.write("a.yaml", &host("a", "5"));
    changes.wait_for(|count| *count > 0).await.unwrap();
    let findings = bench.board.findings();
    let diagnostic = &findings.objects.values().next().unwrap().diagnostics[0];
    assert!(diagnostic.message.contains("a.yaml:1"), "{diagnostic}");
    bench.write("a.yaml", &host("a", "[two]"));
    assert_eq!(bench.next().await, r#"+ shop/a ["two"]"#);
    bench.stop.cancel();
}

#[tokio::test]
async fn of_two_objects_of_one_name_the_first_is_used_and_the_other_reported() {
    let files = [("a.yaml", &*host("x", "[one]")), ("b.yaml", &*host("x", "[two]"))];
    let mut bench = bench(&files).await;
    assert_eq!(bench.next().await, r#"+ shop/x ["one"]"#);
    let place = bench.place("b.yaml:1").await;
    assert!(place.contains("a.yaml:1"), "{place}");
    std::fs::remove_file(bench.path().join("a.yaml")).unwrap();
    assert_eq!(bench.next().await, r#"+ shop/x ["two"]"#);
    bench.places_clear().await;
    bench.stop.cancel();
}

#[tokio::test]
async fn the_swap_of_a_mounted_volume_is_one_change() {
    let mut bench = bench(&[]).await;
    let root = bench.path().to_owned();
    let swap = |version: &str, hosts: &str| {
        let dir = root.join(format!("..{version}"));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("v.yaml"), host("v", hosts)).unwrap();
        std::os::unix::fs::symlink(format!("..{version}"), root.join("..data_tmp")).unwrap();
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    };
    swap("1", "[one]");
    std::os::unix::fs::symlink("..data/v.yaml", root.join("v.yaml")).unwrap();
    assert_eq!(bench.next().await, r#"+ shop/v ["one"]"#);
    swap("2", "[two]");
    std::fs::remove_dir_all(root.join("..1")).unwrap();
    assert_eq!(bench.next().await, r#"+ shop/v ["two"]"#);
    bench.stop.cancel();
}

#[tokio::test]
async fn what_is_no_object_of_a_mesh_is_reported() {
    let bench =
        bench(&[("d.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n")]).await;
    let place = bench.place("Deployment").await;
    assert!(place.contains("d.yaml:1"), "{place}");
    bench.stop.cancel();
}
