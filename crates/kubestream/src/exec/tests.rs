//! Sessions of real clients with a made-up node.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, TerminalSize};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::tests::client::Client;
use crate::tests::{Node, read_all, serve};

async fn node() -> (Arc<Node>, std::net::SocketAddr) {
    let node = Arc::new(Node::default());
    let address = serve(Arc::clone(&node)).await;
    (node, address)
}

fn pods(address: std::net::SocketAddr) -> Api<Pod> {
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    Api::namespaced(kube::Client::try_from(config).unwrap(), "a")
}

fn quiet() -> AttachParams {
    AttachParams::default().stdin(false)
}

#[tokio::test]
async fn kube_sees_output_error_and_success() {
    let (_node, address) = node().await;
    let mut session = pods(address).exec("p", ["echo", "out", "err"], &quiet()).await.unwrap();
    assert_eq!(read_all(&mut session.stdout().unwrap()).await, "out");
    assert_eq!(read_all(&mut session.stderr().unwrap()).await, "err");
    let status = session.take_status().unwrap().await.unwrap();
    assert_eq!(status.status.as_deref(), Some("Success"));
}

#[tokio::test]
async fn kube_closes_its_input_and_gets_all_of_it_back() {
    let (_node, address) = node().await;
    let params = AttachParams::default().stdin(true).stderr(false);
    let mut session = pods(address).exec("p", ["cat"], &params).await.unwrap();
    let text = "0123456789".repeat(100_000);
    let (mut stdin, mut stdout) = (session.stdin().unwrap(), session.stdout().unwrap());
    let writing = async {
        stdin.write_all(text.as_bytes()).await.unwrap();
        stdin.shutdown().await.unwrap();
        drop(stdin);
    };
    let ((), got) = tokio::join!(writing, read_all(&mut stdout));
    assert!(got == text, "{} bytes came back", got.len());
}

#[tokio::test]
async fn exit_codes_and_failures_are_told() {
    let (_node, address) = node().await;
    let end = async |command: &'static [&'static str]| {
        let mut session = pods(address).exec("p", command.iter().copied(), &quiet()).await.unwrap();
        session.take_status().unwrap().await.unwrap()
    };
    let status = end(&["exit", "3"]).await;
    assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"));
    let cause = status.details.unwrap().causes.unwrap().remove(0);
    assert_eq!((cause.reason.as_deref(), cause.message.as_deref()), (Some("ExitCode"), Some("3")));
    let status = end(&["nothing"]).await;
    assert_eq!(
        status.message.as_deref(),
        Some(
            "Internal error occurred: error executing command in container: [\"nothing\"]: no such program"
        )
    );
}

#[tokio::test]
async fn a_terminal_has_a_size_and_one_output() {
    let (_node, address) = node().await;
    let params = AttachParams::interactive_tty();
    let mut session = pods(address).exec("p", ["size"], &params).await.unwrap();
    let size = TerminalSize { width: 80, height: 24 };
    session.terminal_size().unwrap().send(size).await.unwrap();
    assert_eq!(read_all(&mut session.stdout().unwrap()).await, "80x24");
}

/// Waits until a number is as expected.
async fn becomes(node: &Node, expected: usize) {
    let check = async {
        while node.hanging.load(Ordering::SeqCst) != expected {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), check).await.expect("it never became so");
}

#[tokio::test]
async fn a_command_ends_when_its_client_goes() {
    let (node, address) = node().await;
    let session = pods(address).exec("p", ["hang"], &quiet()).await.unwrap();
    becomes(&node, 1).await;
    session.abort();
    drop(session);
    becomes(&node, 0).await;
    let mut spdy = exec_over_spdy(address, "command=hang&stdout=true").await;
    spdy.open(&[("streamtype", "error")]).await;
    spdy.open(&[("streamtype", "stdout")]).await;
    becomes(&node, 1).await;
    drop(spdy);
    becomes(&node, 0).await;
}

#[tokio::test]
async fn a_client_with_too_many_streams_does_not_hold_its_command() {
    let (node, address) = node().await;
    let mut spdy = exec_over_spdy(address, "command=hang&stdout=true").await;
    for kind in ["error", "stdout"].into_iter().chain(["stdout"; 50]) {
        spdy.open(&[("streamtype", kind)]).await;
    }
    becomes(&node, 1).await;
    spdy.ping(1).await;
    drop(spdy);
    becomes(&node, 0).await;
}

async fn websocket(
    address: std::net::SocketAddr,
    query: &str,
    protocol: &'static str,
) -> Result<tokio_tungstenite::WebSocketStream<TcpStream>, tokio_tungstenite::tungstenite::Error> {
    let url = format!("ws://{address}/pods/p/exec?{query}");
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
    let stream = TcpStream::connect(address).await.unwrap();
    Ok(tokio_tungstenite::client_async(request, stream).await?.0)
}

#[tokio::test]
async fn channels_of_version_4_carry_numbers_in_front() {
    let (_node, address) = node().await;
    let query = "command=echo&command=o&command=e&stdout=true&stderr=true";
    let mut socket = websocket(address, query, "v4.channel.k8s.io").await.unwrap();
    let mut seen = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Binary(data) => seen.push(String::from_utf8(data.to_vec()).unwrap()),
            Message::Close(frame) => assert_eq!(u16::from(frame.unwrap().code), 1000),
            _ => {}
        }
    }
    assert_eq!(seen[0], "\u{1}", "the greeting");
    assert!(seen.contains(&"\u{1}o".to_owned()) && seen.contains(&"\u{2}e".to_owned()), "{seen:?}");
    assert_eq!(seen.last().unwrap(), "\u{3}{\"metadata\":{},\"status\":\"Success\"}");
}

#[tokio::test]
async fn nonsense_on_a_websocket_is_passed_over() {
    let (_node, address) = node().await;
    let query = "command=cat&stdin=true&stdout=true";
    let mut socket = websocket(address, query, "v5.channel.k8s.io").await.unwrap();
    for message in [
        Message::text("hello"),
        Message::binary(vec![]),
        Message::binary(vec![9, 9]),
        Message::binary(vec![255]),
        Message::binary(vec![255, 1]),
        Message::binary(b"\x04{\"Width\":-1}".to_vec()),
        Message::binary(b"\x04garbage".to_vec()),
        Message::binary(b"\x00x".to_vec()),
        Message::binary(vec![255, 0]),
    ] {
        socket.send(message).await.unwrap();
    }
    let mut seen = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        seen.push(message.into_data().to_vec());
    }
    assert!(seen.contains(&b"\x01x".to_vec()), "{seen:?}");
}

async fn exec_over_spdy(address: std::net::SocketAddr, query: &str) -> Client<TcpStream> {
    let path = format!("/pods/p/exec?{query}");
    Client::upgrade(address, &path, "v4.channel.k8s.io").await.unwrap()
}

#[tokio::test]
async fn spdy_carries_input_output_and_status() {
    let (_node, address) = node().await;
    let mut client =
        exec_over_spdy(address, "command=cat&stdin=true&stdout=true&stderr=true").await;
    let error = client.open(&[("streamType", "error")]).await;
    let stdin = client.open(&[("streamType", "stdin")]).await;
    let stdout = client.open(&[("streamType", "stdout")]).await;
    let stderr = client.open(&[("streamType", "stderr")]).await;
    client.send(stdin, b"hello ").await;
    client.ping(1).await;
    client.send(stdin, b"world").await;
    client.finish(stdin).await;
    assert_eq!(client.wait(stdout).await, "hello world");
    assert_eq!(client.wait(stderr).await, "");
    let status: Value = serde_json::from_str(&client.wait(error).await).unwrap();
    assert_eq!(status["status"], "Success");
    client.wait_for_goodbye().await;
}

#[tokio::test]
async fn spdy_carries_terminal_sizes() {
    let (_node, address) = node().await;
    let mut client = exec_over_spdy(address, "command=size&stdout=true&stderr=true&tty=true").await;
    client.open(&[("streamtype", "error")]).await;
    let stdout = client.open(&[("streamtype", "stdout")]).await;
    let resize = client.open(&[("streamtype", "resize")]).await;
    client.send(resize, b"{\"Width\":100,").await;
    client.send(resize, b"\"Height\":40}\n").await;
    assert_eq!(client.wait(stdout).await, "100x40");
}

#[tokio::test]
async fn broken_spdy_ends_only_its_own_connection() {
    let (_node, address) = node().await;
    for bytes in [
        &b"\x80\x02\x00\x01\x00\x00\x00\x00"[..],
        &b"\x80\x03\x00\x01\x00\xff\xff\xff"[..],
        &b"\x80\x03\x00\x01\x00\x00\x00\x02ab"[..],
        &b"\x80\x03\x00\x01\x00\x00\x00\x0e\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00garb"[..],
        &b"\x80\x03\x00\x06\x00\x00\x00\x00"[..],
    ] {
        let mut client = exec_over_spdy(address, "command=hang&stdout=true").await;
        client.raw(bytes).await;
        client.wait_for_end().await;
    }
    let mut client = exec_over_spdy(address, "command=exit&command=0&stdout=true").await;
    client.raw(b"\x80\x03\x00\x04\x00\x00\x00\x04\x00\x00\x00\x00").await;
    client.send(99, b"nobody").await;
    let error = client.open(&[("streamtype", "error")]).await;
    client.open(&[("streamtype", "stdout")]).await;
    assert!(client.wait(error).await.contains("Success"));
}

#[tokio::test]
async fn requests_that_cannot_be_upgraded_are_refused() {
    let (_node, address) = node().await;
    let refused = async |path: &str, protocol: &str| {
        Client::upgrade(address, path, protocol).await.err().expect("it is refused")
    };
    assert!(refused("/p/exec?stdout=true", "v9.channel.k8s.io").await.starts_with("HTTP/1.1 403"));
    assert!(refused("/p/exec?command=x", "v4.channel.k8s.io").await.starts_with("HTTP/1.1 400"));
    let error = websocket(address, "stdout=true", "nothing").await.unwrap_err();
    assert!(error.to_string().contains("400"), "{error}");
}
