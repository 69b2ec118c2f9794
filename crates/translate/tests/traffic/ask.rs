//! A real Envoy with a static bootstrap, servers inside of it that say who they are, and plain HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ironsail_sys::exec;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Killed when it is dropped.
pub(crate) struct Envoy {
    _process: tokio::process::Child,
    admin: SocketAddr,
    front: SocketAddr,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// What a server said about the request: `NAME=VALUE` lines.
    pub(crate) fn field(&self, name: &str) -> &str {
        let line = self.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_default()
    }
}

/// A listener that answers with what it got.
pub(crate) fn echo(name: &str, address: &Value) -> Value {
    let text = format!(
        "cluster={name}\npath=%REQ(:PATH)%\nhost=%REQ(:AUTHORITY)%\nroute=%REQ(X-ROUTE)%\nattempt=%REQ(X-ENVOY-ATTEMPT-COUNT)%\n"
    );
    json!({
        "name": name, "address": address,
        "filter_chains": [{"filters": [{"name": "hcm", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "echo",
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{
                "match": {"prefix": "/"},
                "direct_response": {"status": 200, "body_format": {
                    "text_format_source": {"inline_string": text}
                }}
            }]}]},
            "http_filters": [{"name": "router", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
            }}]
        }}]}]
    })
}

impl Envoy {
    /// Starts Envoy and waits until its listener `front` is there.
    pub(crate) async fn start(files: &Path, bootstrap: &Value) -> Self {
        let mut bootstrap = bootstrap.clone();
        bootstrap["admin"] =
            json!({"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}});
        // Nobody serves discovery here.
        bootstrap.as_object_mut().unwrap().remove("dynamic_resources");
        let config = files.join("bootstrap.json");
        std::fs::write(&config, bootstrap.to_string()).unwrap();
        let admin = files.join("admin");
        let log = std::fs::File::create(files.join("log")).unwrap();
        let process = exec::async_command(super::bootstrap::program())
            .arg("--config-path")
            .arg(&config)
            .arg("--admin-address-path")
            .arg(&admin)
            .args(["--disable-hot-restart", "--use-dynamic-base-id", "--concurrency", "1"])
            .stderr(log)
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("envoy is on PATH or among the tools that scripts/setup installs");
        let end = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let address = std::fs::read_to_string(&admin).ok().and_then(|text| text.parse().ok());
            if let Some(admin) = address
                && let Some(front) = front(admin).await
            {
                return Self { _process: process, admin, front };
            }
            let log = || std::fs::read_to_string(files.join("log")).unwrap_or_default();
            assert!(tokio::time::Instant::now() < end, "envoy does not start: {}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        host: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        request(self.front, method, path, host, headers).await.unwrap()
    }

    /// Waits until the line is among the statistics.
    pub(crate) async fn wait_for_stat(&self, line: &str) {
        let end = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let stats = request(self.admin, "GET", "/stats", "admin", &[]).await.unwrap().body;
            if stats.lines().any(|l| l == line) {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "{line} does not come");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn front(admin: SocketAddr) -> Option<SocketAddr> {
    let answer = request(admin, "GET", "/listeners", "admin", &[]).await.ok()?;
    let line = answer.body.lines().find_map(|line| line.strip_prefix("front::"))?;
    line.parse().ok()
}

async fn request(
    to: SocketAddr,
    method: &str,
    path: &str,
    host: &str,
    headers: &[(&str, &str)],
) -> std::io::Result<Answer> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let asked = async {
        let mut io = tokio::net::TcpStream::connect(to).await?;
        io.write_all(text.as_bytes()).await?;
        let mut all = Vec::new();
        io.read_to_end(&mut all).await?;
        Ok(String::from_utf8_lossy(&all).into_owned())
    };
    let all: std::io::Result<String> = tokio::time::timeout(Duration::from_secs(10), asked)
        .await
        .map_err(std::io::Error::other)?;
    let all = all?;
    let (head, body) =
        all.split_once("\r\n\r\n").ok_or_else(|| std::io::Error::other("no answer"))?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|s| s.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers: Vec<(String, String)> =
        headers.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let chunked =
        headers.iter().any(|(key, value)| key == "transfer-encoding" && value == "chunked");
    let body = if chunked { unchunked(body) } else { body.to_owned() };
    Ok(Answer { status: status.ok_or_else(|| std::io::Error::other("no status"))?, headers, body })
}

fn unchunked(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        out.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    out
}
