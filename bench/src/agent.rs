//! pilot-agent beside a real Envoy in a mesh of 1,000 services: size, memory, idle CPU, and how soon a
//! killed Envoy is back.
//!
//! The programs are those in a folder that the caller names; the control plane serves files, and the
//! workload's certificate is mounted, so that nothing else is needed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use ironsail_sys::env::Env;
use ironsail_sys::exec::{self, Signal};
use ironsail_sys::netns::Netns;
use tokio::time::Instant;

use crate::process;

const SERVICES: u32 = 1_000;
/// Time to come to rest, and time to watch.
const CALM: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(120);

/// Ends what it holds.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Bench {
    programs: PathBuf,
    folder: PathBuf,
    netns: Netns,
}

pub(crate) async fn run(programs: Option<String>) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("where this program lies")?;
    let own = own.parent().context("where this program lies")?.to_owned();
    let programs = programs.map_or(own, PathBuf::from);
    let folder = std::env::temp_dir().join(format!("ironsail-bench-{}", std::process::id()));
    let bench = Bench { programs, folder, netns: Netns::create()? };
    let result = bench.measure().await;
    let _ = std::fs::remove_dir_all(&bench.folder);
    result
}

fn line(what: &str, amount: impl std::fmt::Display, aim: &str) {
    println!("  {what:<42} {amount:>12}   {aim}");
}

impl Bench {
    async fn measure(&self) -> anyhow::Result<()> {
        println!("{:<44} {:>12}", "pilot-agent", "");
        let size =
            std::fs::metadata(self.programs.join("pilot-agent")).context("pilot-agent")?.len();
        line("size of the program", format!("{:.1} MB", size as f64 / 1e6), "aim: at most 12 MB");
        let mesh = self.folder.join("mesh");
        let services = SERVICES.to_string();
        let mut generate = self.program("adsload");
        generate
            .args(["generate", "--services", &services, "--endpoints", "5", "--out"])
            .arg(&mesh);
        ensure!(generate.status().context("adsload generate")?.success(), "adsload failed");
        let mut discovery = self.program("pilot-discovery");
        discovery.args(["discovery", "--configDir"]).arg(&mesh);
        let _discovery = self.start(&mut discovery, "discovery.log")?;
        self.mount_certificate()?;
        let agent = self.start(&mut self.agent(), "agent.log")?;
        let pid = agent.0.id();
        self.ready("the first time").await?;
        tokio::time::sleep(CALM).await;
        line(
            "resident memory",
            format!("{:.1} MB", process::resident_mb(pid)?),
            "aim: at most 12 MB",
        );
        let before = process::cpu_seconds(pid)?;
        tokio::time::sleep(IDLE).await;
        let used = (process::cpu_seconds(pid)? - before) / IDLE.as_secs_f64() * 100.0;
        line("CPU when idle", format!("{used:.2} %"), "aim: not measurable");
        let envoy = child(pid)?;
        let killed = Instant::now();
        exec::send_signal(envoy, Signal::SIGKILL);
        while self.answers() || child(pid).map_or(true, |now| now == envoy) {
            ensure!(killed.elapsed() < PATIENCE, "the killed Envoy goes on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.ready("again").await?;
        let back = killed.elapsed().as_secs_f64();
        line("Envoy killed until it is ready again", format!("{back:.2} s"), "aim: at most 2 s");
        Ok(())
    }

    fn program(&self, name: &str) -> Command {
        exec::command(self.programs.join(name))
    }

    fn start(&self, command: &mut Command, log: &str) -> anyhow::Result<Running> {
        let log = std::fs::File::create(self.folder.join(log))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Running(self.netns.spawn(command).with_context(|| format!("{command:?}"))?))
    }

    fn agent(&self) -> Command {
        let env = Env::of_process();
        let mut command = self.program("pilot-agent");
        command.args(["proxy", "sidecar", "--concurrency=1"]).current_dir(&self.folder);
        command.env_clear().env("PATH", env.var("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin"));
        command.env("PROXY_CONFIG", "{discoveryAddress: \"localhost:15010\", binaryPath: envoy}");
        command.env("POD_NAME", "bench").env("POD_NAMESPACE", "ns-0");
        command.env("INSTANCE_IP", "127.0.0.1").env("FILE_MOUNTED_CERTS", "true");
        command.env("ISTIO_META_CLUSTER_ID", "Kubernetes").env("ISTIO_META_DNS_CAPTURE", "true");
        command
    }

    fn mount_certificate(&self) -> anyhow::Result<()> {
        let folder = self.folder.join("etc/certs");
        std::fs::create_dir_all(&folder)?;
        let san = ironsail_identity::San::Uri("spiffe://cluster.local/ns/ns-0/sa/default".into());
        let pair = self_signed(&[san])?;
        for (name, text) in
            [("cert-chain.pem", &pair.0), ("key.pem", &pair.1), ("root-cert.pem", &pair.0)]
        {
            std::fs::write(folder.join(name), text)?;
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        self.netns.run(|| ask_ready().is_some()).unwrap_or(false)
    }

    async fn ready(&self, when: &str) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while !self.answers() {
            let log = std::fs::read_to_string(self.folder.join("agent.log")).unwrap_or_default();
            ensure!(Instant::now() < end, "Envoy was not ready {when}:\n{log}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// Whether readiness is answered well through Envoy's own port.
fn ask_ready() -> Option<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, 15021)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let text = b"GET /healthz/ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(text).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(())
}

fn child(pid: u32) -> anyhow::Result<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(Path::new(&path)).with_context(|| path.clone())?;
    let first = text.split_whitespace().next().context("the agent has no child")?;
    Ok(first.parse()?)
}

/// Certificate and key, by itself.
fn self_signed(sans: &[ironsail_identity::San]) -> anyhow::Result<(String, String)> {
    use ironsail_identity::{
        Certificate, Issuer, KeyKind, PrivateKey, Profile, Template, organization, serial,
    };
    let key = PrivateKey::generate(KeyKind::EcdsaP256)?;
    let name = organization("bench");
    let now = ironsail_sys::clock::Clock::system().now();
    let template = Template {
        serial: serial()?,
        subject: &name,
        public_key: key.public_der(),
        sans,
        not_before: now - Duration::from_secs(60),
        not_after: now + Duration::from_secs(24 * 3600),
        profile: Profile::Leaf,
    };
    let signed = template.sign(&Issuer { name: &name, key: &key, key_id: None })?;
    Ok((Certificate::from_der(&signed)?.to_pem(), key.to_pem().to_string()))
}
