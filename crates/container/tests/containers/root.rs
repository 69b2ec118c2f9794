//! What a container sees of files.

use std::path::Path;
use std::sync::Arc;

use ironsail_container::{Mount, MountSource, Placed, RootSpec};
use ironsail_sys::exec;
use ironsail_sys::mount::{self, Tree};

use crate::bench::{Bench, write};

fn bind(host: &Path, inside: &str, read_only: bool) -> Mount {
    let source = MountSource::Bind { host: host.into(), recursive: true };
    Mount { inside: inside.into(), source, read_only }
}

pub(crate) async fn the_host_root_is_seen_but_not_changed(bench: Arc<Bench>) {
    let mark = format!("mark-{}", std::process::id());
    let script = format!(
        "set -e; test -x /usr/bin/env; ls -A /tmp /run; \
         for d in /etc /var /usr /opt /tmp /run /; do echo x > $d/{mark}; cat $d/{mark}; done"
    );
    let seen = bench.says(bench.sh(&script)).await;
    assert_eq!(seen, "/run:\nlock\n\n/tmp:\nx\nx\nx\nx\nx\nx\nx");
    for dir in ["/etc", "/var", "/usr", "/opt", "/tmp", "/run", "/"] {
        assert!(!Path::new(dir).join(&mark).exists(), "{dir}");
    }
    // Memory for it is bounded.
    let mut spec = bench.sh("head -c 3000000 /dev/zero > /var/big");
    spec.scratch_bytes = 1 << 20;
    assert_ne!(bench.run(spec).await.status.code, 0);
}

pub(crate) async fn a_directory_can_be_the_root(bench: Arc<Bench>) {
    let root = bench.scratch();
    for needed in ["/bin/sh".to_owned(), "/bin/cat".to_owned()].into_iter().chain(libraries()) {
        let to = root.join(needed.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().expect("parent")).expect("directory");
        std::fs::copy(needed, to).expect("copy");
    }
    write(&root.join("etc/passwd"), "web:x:33:44::/srv:/bin/sh\n");
    write(&root.join("tmp/kept"), "kept");
    let mut spec =
        bench.sh("cat /etc/passwd /tmp/kept; echo; echo $HOME; echo > /etc/new; test -c /dev/null");
    spec.root = RootSpec::Dir(root.clone());
    spec.user.uid = 0;
    assert_eq!(bench.says(spec).await, "web:x:33:44::/srv:/bin/sh\nkept\n/");
    assert!(!root.join("etc/new").exists());
    let mut spec = bench.sh("echo $HOME; cat /proc/self/status");
    spec.root = RootSpec::Dir(root);
    spec.user.uid = 33;
    let seen = bench.says(spec).await;
    assert!(seen.starts_with("/srv\n") && seen.contains("Gid:\t44\t44"), "{seen}");
}

/// What the programs of the directory root are linked with.
fn libraries() -> Vec<String> {
    let output = exec::command("ldd").args(["/bin/sh", "/bin/cat"]).output().expect("ldd");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_whitespace()
        .filter(|word| word.starts_with("/lib") && !word.ends_with(':'))
        .map(str::to_owned)
        .collect()
}

pub(crate) async fn file_systems_mounted_below_are_seen(bench: Arc<Bench>) {
    let dir = bench.scratch();
    write(&dir.join("f"), "from below");
    // In the mount namespace of this test only; the host sees nothing of it.
    let place = Path::new("/usr/local/share");
    Tree::clone_of(&dir, false).and_then(|tree| tree.attach(place)).expect("mount");
    let mut spec = bench.sh(
        "set -e; cat /usr/local/share/f; echo; cat /usr/share/new/f; echo; test -x /usr/bin/env; \
         echo x > /usr/local/share/x; echo x > /usr/y; cat /usr/local/share/x",
    );
    spec.mounts = vec![bind(&dir, "/usr/share/new", true)];
    let seen = bench.says(spec).await;
    mount::detach(place).expect("detach");
    assert_eq!(seen, "from below\nfrom below\nx");
    assert!(!dir.join("x").exists());
}

pub(crate) async fn a_read_only_root_leaves_volumes_as_asked(bench: Arc<Bench>) {
    let (open, closed) = (bench.scratch(), bench.scratch());
    let script = "for f in /etc/x /usr/x /tmp/x /x /open/x /closed/x /mem/x /dev/shm/x; do \
                  (echo x > $f) 2>/dev/null && echo $f; done; true";
    let mut spec = bench.sh(script);
    spec.read_only_root = true;
    let source = MountSource::Tmpfs { size_bytes: 1 << 20, mode: 0o777 };
    spec.mounts = vec![
        bind(&open, "/open", false),
        bind(&closed, "/closed", true),
        Mount { inside: "/mem".into(), source, read_only: false },
    ];
    assert_eq!(bench.says(spec).await, "/open/x\n/mem/x\n/dev/shm/x");
    assert_eq!(std::fs::read_to_string(open.join("x")).expect("x"), "x\n");
}

pub(crate) async fn volumes_files_and_programs_are_put_in_place(bench: Arc<Bench>) {
    let dir = bench.scratch();
    write(&dir.join("hosts"), "10.0.0.1 me\n");
    write(&dir.join("token"), "secret");
    write(&dir.join("tool"), "#!/bin/sh\necho tool runs\n");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir.join("tool"), PermissionsExt::from_mode(0o755)).expect("mode");
    let mut spec = bench
        .sh("set -e; cat /etc/hosts; cat /var/run/secrets/kubernetes.io/token; echo; our-tool; \
         cat /data/inner/hosts; (echo x > /etc/hosts) 2>/dev/null || echo ro");
    spec.mounts = vec![
        // The inner one is listed first on purpose.
        bind(&dir, "/data/inner", true),
        bind(&bench.scratch(), "/data", false),
        bind(&dir.join("hosts"), "/etc/hosts", true),
        bind(&dir, "/var/run/secrets/kubernetes.io", true),
        bind(&dir.join("hosts"), "/dev/termination-log", false),
    ];
    spec.placed =
        vec![Placed { host: dir.join("tool"), inside: "/usr/local/lib/x/our-tool".into() }];
    spec.env = vec![("PATH".into(), "/usr/bin:/bin:/usr/local/lib/x".into())];
    assert_eq!(bench.says(spec).await, "10.0.0.1 me\nsecret\ntool runs\n10.0.0.1 me\nro");
}

pub(crate) async fn mount_points_are_made_anywhere(bench: Arc<Bench>) {
    let dir = bench.scratch();
    write(&dir.join("f"), "found");
    let places = [
        "/a/b/c",
        "/usr/share/perl5/deep/er",
        "/etc/istio/proxy",
        "/var/lib/new/x",
        "/etc/ssl/new",
    ];
    let script: String = places.iter().map(|p| format!("cat {p}/f; echo; ")).collect();
    let mut spec = bench.sh(&script);
    spec.mounts = places.iter().map(|p| bind(&dir, p, true)).collect();
    spec.read_only_root = true;
    assert_eq!(bench.says(spec).await, ["found"; 5].join("\n"));
    for place in places {
        assert!(!Path::new(place).exists(), "{place}");
    }
}

pub(crate) async fn masked_paths_are_empty(bench: Arc<Bench>) {
    let dir = bench.scratch();
    write(&dir.join("key"), "private");
    // Below /tmp nothing of the host is seen anyway, so a place elsewhere.
    let mut spec = bench.sh("ls -A /etc/ssl | wc -l; cat /etc/hostname; ls -A /masked");
    spec.mounts = vec![bind(&dir, "/masked", false)];
    spec.masked = vec!["/etc/ssl".into(), "/etc/hostname".into(), "/not/there".into()];
    assert_eq!(bench.says(spec).await, "0\nkey");
}

pub(crate) async fn the_mount_table_of_the_program_stays_as_it_was(bench: Arc<Bench>) {
    let table =
        |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).expect("table");
    let parent = std::os::unix::process::parent_id().to_string();
    let before = (table("self"), table(&parent));
    let container = bench.sleeper().await;
    assert_eq!((table("self"), table(&parent)), before);
    container.kill();
    container.wait().await;
    assert_eq!((table("self"), table(&parent)), before);
}
