//! A podlet as a child process: started on first use, ended with the test binary.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};

/// The workspace's folder; `IRONSAIL_REPOSITORY` names it where tests run away from it, such as for
/// a user who may not read the place where they were built.
pub fn repository() -> PathBuf {
    if let Some(path) = ironsail_sys::env::Env::of_process().var("IRONSAIL_REPOSITORY") {
        return path.into();
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("testkit lies two folders below the workspace").to_path_buf()
}

/// A program of this workspace, built beside the test that asks.
pub fn binary(name: &str) -> PathBuf {
    let path = programs().join(name);
    assert!(path.exists(), "{} is not built: cargo build --workspace --bins", path.display());
    path
}

/// A program that scripts/setup installs, from where it puts it or from PATH.
pub fn tool(name: &str) -> Option<PathBuf> {
    let env = ironsail_sys::env::Env::of_process();
    let cache = match (env.var("IRONSAIL_CACHE"), env.var("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or("/root")).join(".cache/ironsail"),
    };
    let path = std::env::split_paths(env.var("PATH").unwrap_or_default());
    let mut places = [cache.join("tools/bin")].into_iter().chain(path);
    places.find_map(|folder| std::fs::canonicalize(folder.join(name)).ok())
}

/// Whether this test, and so every podlet it starts, runs as root of the machine.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").expect("a process can see itself").uid() == 0
}

/// Where cargo puts programs; a test itself lies in `deps` below it.
fn programs() -> PathBuf {
    let own = std::env::current_exe().expect("a program knows its own path");
    let folder = own.parent().expect("a program lies in a folder");
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    folder.to_path_buf()
}

/// A podlet that tests of one binary share, with the flags they need.
pub struct Shared {
    prepare: fn(&Path) -> Vec<String>,
    podlet: OnceLock<Podlet>,
}

impl Shared {
    /// `prepare` writes what the flags name into podlet's folder, and returns the flags.
    pub const fn new(prepare: fn(&Path) -> Vec<String>) -> Self {
        Self { prepare, podlet: OnceLock::new() }
    }

    /// Started on first use.
    pub fn podlet(&'static self) -> &'static Podlet {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        self.podlet.get_or_init(|| {
            remove_leftovers();
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let dir = scratch(&format!("shared-{number}-{}", std::process::id()));
            // The kernel stops podlet when the starting thread ends, so that thread never does
            // before the test binary itself.
            let (started, wait) = mpsc::channel();
            std::thread::spawn(move || {
                let _ = started.send(Podlet::start_in(dir, self.prepare));
                loop {
                    std::thread::park();
                }
            });
            wait.recv().expect("podlet starts; its log was printed above")
        })
    }
}

/// A podlet's folder: all that is needed to talk to it.
#[derive(Clone)]
pub struct Place {
    dir: PathBuf,
}

/// A running podlet with a folder of its own.
pub struct Podlet {
    place: Place,
    child: Option<Child>,
}

impl Deref for Podlet {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Podlet {
    /// The podlet that all tests of this binary share.
    pub fn shared() -> &'static Self {
        static SHARED: Shared = Shared::new(|_| vec!["--nodes".to_owned(), "2".to_owned()]);
        SHARED.podlet()
    }

    /// A podlet of a test's own, stopped when dropped. `name` makes its folder.
    pub fn start(name: &str, args: &[&str]) -> Self {
        let dir = scratch(&format!("{name}-{}", std::process::id()));
        Self::start_in(dir, |_| args.iter().map(|&arg| arg.to_owned()).collect())
    }

    /// Starts once more in the same folder, after [`Podlet::stop`] or [`Podlet::kill`].
    pub fn restart(&mut self, args: &[&str]) {
        self.spawn(args);
    }

    fn start_in(dir: PathBuf, prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("the scratch folder can be made");
        let images = repository().join("samples/images.yaml");
        std::fs::copy(images, dir.join("images.yaml")).expect("samples/images.yaml is there");
        std::os::unix::fs::symlink(programs(), dir.join("bin")).expect("a link to the programs");
        if let Some(envoy) = tool("envoy") {
            std::os::unix::fs::symlink(envoy, dir.join("envoy")).expect("a link to Envoy");
        }
        let args = prepare(&dir);
        let mut podlet = Self { place: Place { dir }, child: None };
        podlet.spawn(&args.iter().map(String::as_str).collect::<Vec<_>>());
        podlet
    }

    fn spawn(&mut self, args: &[&str]) {
        let kubeconfig = self.kubeconfig();
        let _ = std::fs::remove_file(&kubeconfig);
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir().join("podlet.log"))
            .expect("podlet's log can be opened");
        let mut command = ironsail_sys::exec::command(binary("podlet"));
        command
            .arg("run")
            .arg("--data")
            .arg(self.dir().join("data"))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .arg("--image-map")
            .arg(self.dir().join("images.yaml"))
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle on the log"))
            .stderr(log);
        ironsail_sys::exec::die_with_thread(&mut command, ironsail_sys::exec::Signal::SIGTERM);
        let child = command.spawn().expect("podlet can be started");
        self.child = Some(child);
        self.wait_until_ready();
    }

    /// podlet writes the kubeconfig once it is ready.
    fn wait_until_ready(&mut self) {
        for _ in 0..3_600 {
            if self.kubeconfig().exists() {
                return;
            }
            let child = self.child.as_mut().expect("just started");
            if let Some(status) = child.try_wait().expect("podlet can be waited for") {
                panic!("podlet ended with {status}:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("podlet was not ready within three minutes:\n{}", self.log());
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("podlet runs").id()
    }

    /// Ends podlet as `kill -9` does.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("podlet runs");
        child.kill().expect("podlet can be killed");
        child.wait().expect("podlet can be waited for");
    }

    /// Asks podlet to stop and waits until it has; whether it ended well.
    pub fn stop(&mut self) -> bool {
        let Some(mut child) = self.child.take() else { return true };
        ironsail_sys::exec::send_signal(child.id(), ironsail_sys::exec::Signal::SIGTERM);
        for _ in 0..3_600 {
            if let Some(status) = child.try_wait().expect("podlet can be waited for") {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = child.kill();
        let _ = child.wait();
        panic!("podlet did not stop within three minutes:\n{}", self.log());
    }
}

impl Place {
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir().join("kubeconfig")
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The end of podlet's own log.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.dir().join("podlet.log")).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// A client of its own: its connections belong to the runtime that asks.
    pub async fn client(&self) -> kube::Client {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let file = Kubeconfig::read_from(self.kubeconfig()).expect("podlet wrote a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .expect("podlet's kubeconfig is one");
        kube::Client::try_from(config).expect("a client for podlet")
    }

    /// The real kubectl, set up for this podlet.
    pub fn kubectl(&self) -> std::process::Command {
        let mut command = ironsail_sys::exec::command("kubectl");
        command.env("KUBECONFIG", self.kubeconfig()).env("HOME", &self.dir);
        command
    }
}

impl Drop for Podlet {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
            let _ = std::fs::remove_dir_all(self.dir());
        } else if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn scratch(name: &str) -> PathBuf {
    programs().join("podlets").join(name)
}

/// Folders of test binaries that are gone: the shared podlet is stopped by the kernel, after which
/// nobody is left to remove its folder.
fn remove_leftovers() {
    for entry in std::fs::read_dir(programs().join("podlets")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.rsplit('-').next().unwrap_or_default();
        if !pid.is_empty() && !Path::new("/proc").join(pid).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
