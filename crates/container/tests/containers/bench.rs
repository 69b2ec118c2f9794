//! What the tests share: a zygote, scratch directories, and running a program to its end.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ironsail_container::{
    Container, ContainerSpec, ExitStatus, ForkedZygote, Reader, RootSpec, StartError, Started,
    StdioEnds, Zygote, ZygoteOptions,
};
use ironsail_sys::process::{self, Namespaces};
use ironsail_sys::userns::Privilege;
use tokio::io::AsyncReadExt;

pub(crate) struct Bench {
    pub(crate) zygote: Zygote,
    pub(crate) privilege: Privilege,
    dir: PathBuf,
    next: AtomicU32,
}

/// What a program that ran to its end left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Bench {
    pub(crate) fn new(zygote: ForkedZygote, privilege: Privilege) -> Self {
        let name = format!("containers-{}", std::process::id());
        let dir = std::env::temp_dir().join(&name);
        let options = ZygoteOptions { stage: dir.join("stage"), instance: name };
        let zygote = zygote.connect(&options).expect("connect");
        Self { zygote, privilege, dir, next: AtomicU32::new(1) }
    }

    pub(crate) async fn tidy_up(&self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }

    /// Whether all containers end soon.
    pub(crate) async fn is_quiet(&self) -> bool {
        let quiet = until("no container is left", || descendants(self.zygote.pid()).is_empty());
        tokio::time::timeout(Duration::from_secs(10), quiet).await.is_ok()
    }

    /// An empty directory.
    pub(crate) fn scratch(&self) -> PathBuf {
        let dir = self.dir.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        std::fs::create_dir_all(&dir).expect("scratch");
        dir
    }

    pub(crate) fn spec(&self, argv: &[&str]) -> ContainerSpec {
        let id = format!("c{}", self.next.fetch_add(1, Ordering::Relaxed));
        let mut spec = ContainerSpec::new(id, RootSpec::Host, argv.iter().copied());
        // The calling shell's may point anywhere.
        spec.env.push(("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into()));
        spec
    }

    /// A spec for a shell script.
    pub(crate) fn sh(&self, script: &str) -> ContainerSpec {
        self.spec(&["sh", "-c", script])
    }

    pub(crate) async fn start(&self, spec: ContainerSpec) -> Started {
        self.zygote.start(spec).await.expect("start")
    }

    pub(crate) async fn refused(&self, spec: ContainerSpec) -> StartError {
        self.zygote.start(spec).await.expect_err("start")
    }

    pub(crate) async fn run(&self, spec: ContainerSpec) -> Output {
        let Started { container, stdio } = self.start(spec).await;
        let (stdout, stderr) = read_both(stdio).await;
        Output { status: container.wait().await, stdout, stderr }
    }

    /// Runs a script that is to succeed, and returns what it wrote without the last newline.
    pub(crate) async fn says(&self, spec: ContainerSpec) -> String {
        let output = self.run(spec).await;
        assert_eq!(output.status, ExitStatus::exited(0), "{output:?}");
        output.stdout.trim_end().to_owned()
    }

    /// A container that stays until it is killed. Its program runs when this returns.
    pub(crate) async fn sleeper(&self) -> Container {
        self.start(self.spec(&["sleep", "1000"])).await.container
    }
}

pub(crate) async fn read_both(stdio: StdioEnds) -> (String, String) {
    let StdioEnds { stdin, stdout, stderr } = stdio;
    let both = tokio::join!(read_all(stdout), read_all(stderr));
    drop(stdin);
    both
}

pub(crate) async fn read_all(reader: Option<Reader>) -> String {
    let mut text = Vec::new();
    if let Some(mut reader) = reader {
        reader.read_to_end(&mut text).await.expect("read");
    }
    String::from_utf8(text).expect("text")
}

/// Reads until `text` has been seen.
pub(crate) async fn read_until(reader: &mut Reader, text: &str) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    while !String::from_utf8_lossy(&seen).contains(text) {
        let n = reader.read(&mut buffer).await.expect("read");
        assert!(n > 0, "the stream ended before {text:?}: {:?}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..n]);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// Waits for something that no event tells of.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..4000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came true that {what}");
}

/// A new network namespace, held by its descriptor only.
pub(crate) fn new_netns() -> Arc<OwnedFd> {
    let made = std::thread::spawn(|| {
        process::enter_new(Namespaces { net: true, ..Namespaces::default() }).expect("unshare");
        OwnedFd::from(File::open("/proc/thread-self/ns/net").expect("netns"))
    });
    Arc::new(made.join().expect("thread"))
}

/// Process ids of all descendants of `pid`.
pub(crate) fn descendants(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    for child in children.unwrap_or_default().split_whitespace() {
        let child = child.parse().expect("process id");
        found.push(child);
        found.extend(descendants(child));
    }
    found
}

pub(crate) fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
    std::fs::write(path, text).expect("write");
}
