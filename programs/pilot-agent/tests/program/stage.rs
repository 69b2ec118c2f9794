//! Where the program runs: a folder as a pod has it, a network namespace, and a control plane.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ironsail_sys::exec::{self, Signal};
use ironsail_sys::netns::Netns;
use tokio::time::Instant;

use crate::control::Control;

const AGENT: &str = env!("CARGO_BIN_EXE_pilot-agent");
const DISCOVERY: u16 = 15012;
/// Slow machines are slow; nothing waits that long where things work.
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const STATUS: u16 = 15020;
pub(crate) const ADMIN: u16 = 15000;

pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) netns: Netns,
    pub(crate) control: Control,
}

impl Stage {
    /// With a token and a control plane that is there.
    pub(crate) fn new() -> Self {
        Self::with_lifetime(Duration::from_secs(3600))
    }

    pub(crate) fn with_lifetime(lifetime: Duration) -> Self {
        let stage = Self::without_control(lifetime);
        stage.control.start(stage.listen((LOOPBACK, DISCOVERY).into()));
        stage
    }

    /// Nobody listens where the control plane should be.
    pub(crate) fn without_control(lifetime: Duration) -> Self {
        let netns = Netns::create().unwrap();
        let (folder, control) = (tempfile::tempdir().unwrap(), Control::new(lifetime));
        let stage = Self { folder, netns, control };
        stage.write("var/run/secrets/istio/root-cert.pem", &stage.control.root());
        stage.write("var/run/secrets/tokens/istio-token", "first");
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file as a whole.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let part = path.with_extension("part");
        std::fs::write(&part, text).unwrap();
        std::fs::rename(part, path).unwrap();
    }

    pub(crate) fn listen(&self, address: SocketAddr) -> tokio::net::TcpListener {
        let listener = self.netns.run(|| std::net::TcpListener::bind(address)).unwrap().unwrap();
        listener.set_nonblocking(true).unwrap();
        tokio::net::TcpListener::from_std(listener).unwrap()
    }

    /// The program with more variables; `proxy` is more of `PROXY_CONFIG`.
    pub(crate) fn command(&self, proxy: &str, variables: &[(&str, &str)]) -> Command {
        let config =
            format!("{{discoveryAddress: \"localhost:{DISCOVERY}\", binaryPath: envoy, {proxy}}}");
        let mut command = exec::command(AGENT);
        command.args(["proxy", "sidecar", "--concurrency=1"]).current_dir(self.folder.path());
        command.env_clear().env("PATH", path()).env("PROXY_CONFIG", config);
        command.env("POD_NAME", "a").env("POD_NAMESPACE", "shop").env("INSTANCE_IP", "127.0.0.1");
        command.envs(variables.iter().copied());
        command
    }

    pub(crate) fn start(&self, proxy: &str, variables: &[(&str, &str)]) -> Agent<'_> {
        self.start_command(self.command(proxy, variables))
    }

    /// Without Envoy, for what does not need one.
    pub(crate) fn start_alone(&self, proxy: &str, variables: &[(&str, &str)]) -> Agent<'_> {
        let mut command = self.command(proxy, variables);
        command.env("DISABLE_ENVOY", "true");
        self.start_command(command)
    }

    pub(crate) fn start_command(&self, mut command: Command) -> Agent<'_> {
        let log = self.path("log");
        let out = std::fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        let child = self.netns.spawn(&mut command).unwrap();
        Agent { stage: self, child, log }
    }

    /// Status code and body of a request; none if nobody answers.
    pub(crate) fn ask(&self, to: SocketAddr, request: &str) -> Option<(u16, String)> {
        let stream = self.netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
        let mut stream = stream.ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let text = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let code = head.split(' ').nth(1)?.parse().ok()?;
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        Some((code, if chunked { joined(body) } else { body.to_owned() }))
    }

    pub(crate) fn ask_port(&self, port: u16, request: &str) -> Option<(u16, String)> {
        self.ask((LOOPBACK, port).into(), request)
    }

    pub(crate) fn get(&self, port: u16, path: &str) -> Option<(u16, String)> {
        self.ask_port(port, &format!("GET {path}"))
    }
}

/// The pieces of a body that comes in pieces.
fn joined(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(piece) = rest.get(..size).filter(|piece| !piece.is_empty()) else { break };
        whole += piece;
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}

/// Programs are found as they are for the test.
pub(crate) fn path() -> String {
    let env = ironsail_sys::env::Env::of_process();
    env.var("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").to_owned()
}

/// Waits until there is something.
pub(crate) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A running program; ended when dropped.
pub(crate) struct Agent<'a> {
    stage: &'a Stage,
    child: Child,
    log: PathBuf,
}

impl Agent<'_> {
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the log holds a text, and gives the line.
    pub(crate) async fn says(&self, text: &str) -> String {
        self.says_after(0, text).await
    }

    /// The same, of what came after the first `skip` bytes.
    pub(crate) async fn says_after(&self, skip: usize, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            let line = log.get(skip..).unwrap_or_default().lines().find(|line| line.contains(text));
            if let Some(line) = line {
                return line.to_owned();
            }
            assert!(Instant::now() < end, "nothing of {text:?} in:\n{log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn is_ready(&self) {
        self.is_ready_at((LOOPBACK, STATUS).into()).await;
    }

    pub(crate) async fn is_ready_at(&self, address: SocketAddr) {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.stage.ask(address, "GET /healthz/ready");
            if answer.as_ref().is_some_and(|(code, _)| *code == 200) {
                return;
            }
            assert!(Instant::now() < end, "{answer:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The process id of its child, which is Envoy.
    pub(crate) fn envoy(&self) -> Option<u32> {
        let pid = self.pid();
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// Another Envoy than `before`.
    pub(crate) async fn next_envoy(&self, before: u32) -> u32 {
        until("another Envoy", || self.envoy().filter(|pid| *pid != before)).await
    }

    /// Waits for its end and gives the code.
    pub(crate) async fn ended(&mut self) -> i32 {
        let child = &mut self.child;
        let status = until("its end", || child.try_wait().unwrap()).await;
        status.code().expect("it was not killed")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        exec::send_signal(self.pid(), signal);
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines of a file, or nothing while it is not there.
pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
