//! The program itself, with the command line of its Deployment and objects from files: it becomes
//! ready, serves proxies, refuses strangers, follows changes, and ends when it is told to.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_sys::exec;
use ironsail_xds::client::{Backoff, Client, Event};
use ironsail_xds::{CDS, EDS, Variant};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: httpbin, namespace: foo}
spec: {clusterIP: 172.16.0.1, selector: {app: httpbin}, ports: [{name: http, port: 8000, targetPort: 80}]}
";

fn slice(ip: &str) -> String {
    format!(
        "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: httpbin-x, namespace: foo, labels: {{kubernetes.io/service-name: httpbin}}}}
addressType: IPv4
ports: [{{name: http, port: 80, protocol: TCP}}]
endpoints: [{{addresses: [{ip}], conditions: {{ready: true}}}}]
"
    )
}

/// Ends with the test.
struct Program {
    process: tokio::process::Child,
    /// Where each flag's port is.
    ports: BTreeMap<String, SocketAddr>,
    folder: tempfile::TempDir,
}

impl Program {
    async fn start() -> Self {
        Self::start_with(&["--keepaliveMaxServerConnectionAge", "30m"]).await
    }

    async fn start_with(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("objects")).unwrap();
        let own = Self { process: spawn(folder.path(), more), ports: BTreeMap::new(), folder };
        own.write("service.yaml", SERVICE);
        own.write("slice.yaml", &slice("10.0.0.1"));
        own.listening().await
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join("objects").join(name), text).unwrap();
    }

    /// Reads from the log where it listens.
    async fn listening(mut self) -> Self {
        let mut lines = BufReader::new(self.process.stderr.take().unwrap()).lines();
        let (mut seen, wanted) = (String::new(), 6);
        let read = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                let line_json: Value = serde_json::from_str(&line).unwrap();
                let message = line_json["msg"].as_str().unwrap_or_default();
                if let Some((name, address)) = message.split_once(" listens on ") {
                    self.ports.insert(name.to_owned(), address.parse().unwrap());
                }
                seen += &line;
                if self.ports.len() == wanted {
                    return;
                }
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(60), read).await;
        assert!(done.is_ok() && self.ports.len() == wanted, "it does not listen: {seen}");
        // The log goes on; somebody has to read it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        self
    }

    async fn get(&self, port: &str, path: &str) -> Result<String, String> {
        let address = self.ports[port].to_string();
        let output = exec::async_command(env!("CARGO_BIN_EXE_pilot-discovery"))
            .args(["request", "--address", &address, "GET", path])
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    async fn ready(&self) {
        for _ in 0..200 {
            if self.get("httpAddr", "/ready").await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not ready: {:?}", self.get("httpAddr", "/ready").await);
    }
}

fn spawn(folder: &std::path::Path, more: &[&str]) -> tokio::process::Child {
    let line = "discovery --monitoringAddr=127.0.0.1:0 --log_output_level=default:info --log_as_json \
        --domain cluster.local --httpAddr 127.0.0.1:0 \
        --httpsAddr 127.0.0.1:0 --grpcAddr 127.0.0.1:0 --secureGRPCAddr 127.0.0.1:0 --ctrlz_port 0";
    exec::async_command(env!("CARGO_BIN_EXE_pilot-discovery"))
        .args(line.split_whitespace())
        .args(more)
        .arg("--configDir")
        .arg(folder.join("objects"))
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn node() -> Node {
    let metadata =
        json!({"NAMESPACE": "foo", "CLUSTER_ID": "Kubernetes", "LABELS": {"app": "curl"}});
    Node {
        id: "sidecar~10.0.0.9~curl.foo~foo.svc.cluster.local".into(),
        metadata: metadata.as_object().cloned().map(Into::into),
        ..Node::default()
    }
}

/// The next update of a type: its names and all its bytes.
async fn update(events: &mut mpsc::Receiver<Event>, type_url: &str) -> (Vec<String>, Vec<u8>) {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(30), events.recv()).await;
        let Event::Update(pending) = event.expect("in time").expect("a live client") else {
            continue;
        };
        let found = (*pending.update.type_url == *type_url).then(|| {
            let put = &pending.update.put;
            let names = put.iter().map(|r| r.name.to_string()).collect();
            (names, put.iter().flat_map(|r| r.body.to_vec()).collect())
        });
        pending.accept();
        if let Some(found) = found {
            return found;
        }
    }
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|w| w == text.as_bytes())
}

#[tokio::test]
async fn the_program_serves_a_mesh_of_files_and_ends_when_told() {
    let mut program = Program::start().await;
    program.ready().await;
    assert_eq!(program.get("monitoringAddr", "/version").await.unwrap(), env!("CARGO_PKG_VERSION"));

    let channel = |port: &str| {
        let uri = format!("http://{}", program.ports[port]);
        tonic::transport::Endpoint::from_shared(uri).unwrap().connect_lazy()
    };
    let (client, mut events) =
        Client::start(channel("grpcAddr"), node(), Variant::Delta, Backoff::default());
    client.subscribe_all(CDS).await;
    let name = "outbound|8000||httpbin.foo.svc.cluster.local";
    let (clusters, _) = update(&mut events, CDS).await;
    assert!(clusters.iter().any(|c| c == name), "{clusters:?}");
    client.subscribe(EDS, [name]).await;
    assert!(has(&update(&mut events, EDS).await.1, "10.0.0.1"));
    program.write("slice.yaml", &slice("10.0.0.2"));
    assert!(has(&update(&mut events, EDS).await.1, "10.0.0.2"));

    // The other port speaks TLS only.
    let (stranger, mut refused) =
        Client::start(channel("secureGRPCAddr"), node(), Variant::Delta, Backoff::default());
    stranger.subscribe_all(CDS).await;
    let event = tokio::time::timeout(Duration::from_secs(30), refused.recv()).await.unwrap();
    assert!(matches!(event, Some(Event::Disconnected(_))), "{event:?}");

    exec::send_signal(program.process.id().unwrap(), exec::Signal::SIGTERM);
    let ended = tokio::time::timeout(Duration::from_secs(40), program.process.wait()).await;
    assert!(ended.unwrap().unwrap().success());
}

/// Connects a proxy and waits until it has clusters.
async fn connect(program: &Program) -> (Client, mpsc::Receiver<Event>) {
    let uri = format!("http://{}", program.ports["grpcAddr"]);
    let channel = tonic::transport::Endpoint::from_shared(uri).unwrap().connect_lazy();
    let (client, mut events) = Client::start(channel, node(), Variant::Delta, Backoff::default());
    client.subscribe_all(CDS).await;
    update(&mut events, CDS).await;
    (client, events)
}

/// When the stream ends; updates before are taken.
async fn ended(events: &mut mpsc::Receiver<Event>) -> tokio::time::Instant {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await;
        match event.expect("in time").expect("a live client") {
            Event::Disconnected(_) => return tokio::time::Instant::now(),
            Event::Update(pending) => pending.accept(),
            _ => {}
        }
    }
}

#[tokio::test]
async fn proxies_move_away_one_after_another() {
    let mut program = Program::start_with(&["--shutdownDuration", "4s"]).await;
    program.ready().await;
    let mut proxies = Vec::new();
    for _ in 0..10 {
        proxies.push(connect(&program).await);
    }
    exec::send_signal(program.process.id().unwrap(), exec::Signal::SIGTERM);
    let ends = futures::future::join_all(proxies.iter_mut().map(|(_, events)| ended(events))).await;
    let (first, last) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
    // Ten of them within a tenth of the time would be one case in many millions.
    assert!(*last - *first > Duration::from_millis(400), "all at once: {ends:?}");
    let status = tokio::time::timeout(Duration::from_secs(60), program.process.wait()).await;
    assert!(status.unwrap().unwrap().success());
}

#[tokio::test]
async fn an_old_connection_ends_and_the_proxy_comes_back_for_nothing() {
    let program = Program::start_with(&["--keepaliveMaxServerConnectionAge", "1s"]).await;
    program.ready().await;
    let (_client, mut events) = connect(&program).await;
    ended(&mut events).await;
    // It comes back and has everything: the next thing that happens is that it is too old again.
    let again = async {
        loop {
            match events.recv().await.expect("a live client") {
                Event::Disconnected(_) => return true,
                Event::Update(_) => return false,
                _ => {}
            }
        }
    };
    let nothing_sent = tokio::time::timeout(Duration::from_secs(60), again).await.unwrap();
    assert!(nothing_sent, "what it had was sent again");
}

#[tokio::test]
async fn bad_settings_are_all_told_and_nothing_starts() {
    let output = exec::async_command(env!("CARGO_BIN_EXE_pilot-discovery"))
        .args(["discovery", "--domain", "..", "--registries", "Mock"])
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--domain") && said.contains("--registries"), "{said}");
}
