//! The program with settings and surroundings that are wrong: a clear line and the right code, never
//! a crash.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A folder as a pod has it, with a root that is one.
fn pod() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("var/run/secrets/istio");
    std::fs::create_dir_all(&secrets).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(secrets.join("root-cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    folder
}

/// The agent in a folder, with no variables but those given.
fn agent(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = ironsail_sys::exec::command(env!("CARGO_BIN_EXE_pilot-agent"));
    command.args(args).current_dir(folder).env_clear().envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// How it ended and what it said; it must end by itself.
fn end(mut command: Command) -> (i32, String) {
    let mut child = command.spawn().unwrap();
    for _ in 0..600 {
        if let Some(status) = child.try_wait().unwrap() {
            let mut said = String::new();
            std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
            return (status.code().expect("it was not killed"), said);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it did not end");
}

fn proxy(folder: &Path, variables: &[(&str, &str)]) -> (i32, String) {
    end(agent(folder, &["proxy", "sidecar"], variables))
}

fn last_line(said: &str) -> &str {
    said.lines().last().unwrap_or_default()
}

#[test]
fn wrong_settings_are_all_named_at_once() {
    let folder = pod();
    let (code, said) = proxy(
        folder.path(),
        &[
            ("PROXY_CONFIG", "{drainDuration: soon}"),
            ("INSTANCE_IP", "here"),
            ("SECRET_TTL", "long"),
            ("DISABLE_ENVOY", "perhaps"),
        ],
    );
    assert_eq!(code, 64, "{said}");
    for part in ["PROXY_CONFIG: drainDuration", "INSTANCE_IP", "SECRET_TTL", "DISABLE_ENVOY"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn a_proxy_config_that_is_no_yaml_is_named() {
    let folder = pod();
    let (code, said) = proxy(folder.path(), &[("PROXY_CONFIG", "{a: [")]);
    assert_eq!(code, 64, "{said}");
    assert!(last_line(&said).starts_with("pilot-agent: PROXY_CONFIG: "), "{said}");
}

#[test]
fn a_missing_or_broken_root_is_named() {
    let folder = pod();
    let root = folder.path().join("var/run/secrets/istio/root-cert.pem");
    std::fs::write(&root, "not a certificate").unwrap();
    let (code, said) = proxy(folder.path(), &[]);
    assert_eq!(code, 1, "{said}");
    assert!(last_line(&said).contains("root-cert.pem"), "{said}");
    std::fs::remove_file(&root).unwrap();
    let (code, said) = proxy(folder.path(), &[]);
    assert_eq!(code, 1, "{said}");
    assert!(last_line(&said).contains("No such file"), "{said}");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = pod();
    // A file where the folder should be stops root too.
    std::fs::create_dir_all(folder.path().join("etc/istio")).unwrap();
    std::fs::write(folder.path().join("etc/istio/proxy"), "").unwrap();
    let port = free_port();
    let config = format!("{{statusPort: {port}}}");
    let (code, said) = proxy(folder.path(), &[("PROXY_CONFIG", &config)]);
    assert_eq!(code, 1, "{said}");
    assert!(last_line(&said).contains("etc/istio/proxy"), "{said}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let folder = pod();
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let config = format!("{{statusPort: {port}}}");
    let (code, said) = proxy(
        folder.path(),
        &[("PROXY_CONFIG", &config), ("INSTANCE_IP", "127.0.0.1"), ("DISABLE_ENVOY", "true")],
    );
    assert_eq!(code, 1, "{said}");
    assert!(last_line(&said).contains(&format!(":{port}: Address already in use")), "{said}");
}

#[test]
fn probes_that_are_no_json_are_named() {
    let folder = pod();
    let (code, said) = proxy(folder.path(), &[("ISTIO_KUBE_APP_PROBERS", "{")]);
    assert_eq!(code, 1, "{said}");
    assert!(last_line(&said).contains("ISTIO_KUBE_APP_PROBERS"), "{said}");
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

#[test]
fn waiting_ends_well_when_the_proxy_is_ready_and_fails_when_time_is_over() {
    let folder = pod();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("--url=http://{}/healthz/ready", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for answer in ["503 Not Yet", "200 OK"] {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            let answer =
                format!("HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let (code, said) = end(agent(folder.path(), &["wait", &url, "--periodMillis=10"], &[]));
    assert_eq!(code, 0, "{said}");
    let url = format!("--url=http://127.0.0.1:{}/healthz/ready", free_port());
    let (code, said) = end(agent(folder.path(), &["wait", &url, "--timeoutSeconds=0"], &[]));
    assert_eq!(code, 1, "{said}");
    assert!(last_line(&said).contains("timeout waiting for Envoy proxy"), "{said}");
}

#[test]
fn a_question_to_nobody_fails_with_a_line() {
    let folder = pod();
    let port = format!("--debug-port={}", free_port());
    let (code, said) = end(agent(folder.path(), &["request", &port, "GET", "stats"], &[]));
    assert_eq!((code, said.lines().count()), (1, 1), "{said}");
    let (code, said) = end(agent(folder.path(), &["request", "EAT", "stats"], &[]));
    assert_eq!(code, 64, "{said}");
}
