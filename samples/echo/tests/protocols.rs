//! The client against the server, in every protocol, over loopback sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

const ECHO: &str = env!("CARGO_BIN_EXE_echo");

/// A server on free ports, ended with the test.
struct Server {
    child: Child,
    ports: HashMap<String, u16>,
}

impl Server {
    fn start() -> Self {
        let mut child = ironsail_sys::exec::command(ECHO)
            .args([
                "serve", "--http", "0", "--https", "0", "--tcp", "0", "--tls", "0", "--greet", "0",
            ])
            .env("VERSION", "v7")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ports = HashMap::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some((name, address)) = line.split_once(" on ") else { break };
            ports.insert(name.to_owned(), address.rsplit(':').next().unwrap().parse().unwrap());
        }
        Self { child, ports }
    }

    /// `scheme://` on the port for `name`, with more arguments; what came back.
    fn call(&self, scheme: &str, name: &str, args: &[&str]) -> Vec<Value> {
        let url = format!("{scheme}://127.0.0.1:{}/some/path?x=1", self.ports[name]);
        let output =
            ironsail_sys::exec::command(ECHO).arg("call").arg(url).args(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_protocol_is_reported() {
    let server = Server::start();
    let cases = [
        ("http", "http", "HTTP/1.1", 200),
        ("h2c", "http", "HTTP/2.0", 200),
        ("https", "https", "HTTP/1.1", 200),
        ("h2", "https", "HTTP/2.0", 200),
        ("grpc", "http", "gRPC", 0),
        ("grpcs", "https", "gRPC", 0),
        ("ws", "http", "WebSocket", 101),
        ("wss", "https", "WebSocket", 101),
    ];
    for (scheme, name, protocol, status) in cases {
        let seen =
            &server.call(scheme, name, &["-H", "x-test: 1", "-d", "hi", "--sni", "a.example"])[0];
        assert_eq!(seen["status"], status, "{scheme}: {seen}");
        assert_eq!(seen["body"]["protocol"], protocol, "{scheme}: {seen}");
        assert_eq!(seen["body"]["body"], "hi", "{scheme}: {seen}");
        assert_eq!(seen["body"]["version"], "v7", "{scheme}: {seen}");
        assert_eq!(seen["body"]["headers"]["x-test"][0], "1", "{scheme}: {seen}");
        if name == "https" {
            assert_eq!(seen["body"]["tls"]["sni"], "a.example", "{scheme}: {seen}");
        }
    }
    for (scheme, name) in [("tcp", "tcp"), ("tls", "tls")] {
        let seen = &server.call(scheme, name, &["-d", "hi", "--sni", "a.example"])[0];
        assert_eq!(
            (&seen["body"]["protocol"], &seen["body"]["body"]),
            (&"TCP".into(), &"hi".into())
        );
    }
    assert_eq!(
        server.call("tcp", "greet", &["-d", "hi"])[0]["body"],
        format!("hello from {}", hostname())
    );
}

fn hostname() -> String {
    ironsail_sys::env::Env::of_process().var("HOSTNAME").unwrap_or("localhost").to_owned()
}

#[test]
fn a_client_certificate_is_named() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    let name = "spiffe://cluster.local/ns/a/sa/b";
    params.subject_alt_names = vec![rcgen::SanType::URI(name.try_into().unwrap())];
    let cert = params.self_signed(&key).unwrap();
    std::fs::write(dir.path().join("c"), cert.pem()).unwrap();
    std::fs::write(dir.path().join("k"), key.serialize_pem()).unwrap();
    let path = |f| dir.path().join(f).display().to_string();
    let seen = &server.call("https", "https", &["--cert", &path("c"), "--key", &path("k")])[0];
    assert_eq!(seen["body"]["tls"]["client_names"][0], name, "{seen}");
}

#[test]
fn wishes_and_refusals_are_told_apart() {
    let server = Server::start();
    let url = format!("http://127.0.0.1:{}/?status=503&header=x-a:b", server.ports["http"]);
    let output = ironsail_sys::exec::command(ECHO)
        .args(["call", &url, "-n", "2", "--keep"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let seen: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        (seen.len(), &seen[1]["status"], &seen[1]["headers"]["x-a"][0]),
        (2, &503.into(), &"b".into())
    );
    // One connection for both.
    assert_eq!(seen[0]["body"]["peer"], seen[1]["body"]["peer"]);
    assert_eq!(server.call("grpc", "http", &["--grpc-code", "7"])[0]["status"], 7);
    let nobody =
        ironsail_sys::exec::command(ECHO).args(["call", "tcp://127.0.0.1:1"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stdout).contains("connecting to 127.0.0.1:1"));
}
