//! Logs, exec, attach and port-forward on real pods.

use std::sync::Arc;

use futures::StreamExt;
use ironsail_kubestream::pod::{ExecIo, ExecOptions, LogOptions, PodStreams};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::bench::{Bench, SERVER, Space, shell};

/// Runs a command in the pod's only container; returns its exit code and what it printed.
pub(crate) async fn run(space: &Space, pod: &str, command: &[&str]) -> (i32, String) {
    run_with(space, pod, command, b"").await
}

async fn run_with(
    space: &Space,
    pod: &str,
    command: &[&str],
    input: &'static [u8],
) -> (i32, String) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (_sizes, resize) = mpsc::channel(1);
    let (mut from, to) = tokio::io::split(near);
    drop(to);
    let io =
        ExecIo { stdin: Some(Box::pin(input)), stdout: Some(Box::pin(far)), stderr: None, resize };
    let command = command.iter().map(|c| (*c).to_owned()).collect();
    let options = ExecOptions { command, ..ExecOptions::default() };
    let streams = space.bench.streams();
    let mut output = String::new();
    let (exit, read) = tokio::join!(
        streams.exec(space.reference(pod), options, io),
        from.read_to_string(&mut output)
    );
    read.expect("text");
    (exit.expect("exec").code, output)
}

pub(crate) async fn logs_are_followed_across_the_life_of_a_container(bench: Arc<Bench>) {
    let space = bench.space("logs-are-followed").await;
    let mut container = shell(
        "c",
        "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; echo err >&2; read x; echo got $x",
    );
    container["stdin"] = json!(true);
    space.pod("p", json!({"restartPolicy": "Never", "containers": [container]})).await;
    space.ready("p").await;
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let mut stream = bench.streams().logs(space.reference("p"), options).await.expect("logs");
    let mut seen = String::new();
    while !(seen.contains("line 299\n") && seen.contains("err\n")) {
        seen.push_str(
            std::str::from_utf8(&stream.next().await.expect("more").expect("log")).expect("text"),
        );
    }
    // Attached, the program is told what it waits for.
    let (near, far) = tokio::io::duplex(1 << 16);
    let (_sizes, resize) = mpsc::channel(1);
    let io = ExecIo {
        stdin: Some(Box::pin(&b"word\n"[..])),
        stdout: Some(Box::pin(far)),
        stderr: None,
        resize,
    };
    let exit = bench
        .streams()
        .exec(space.reference("p"), ExecOptions::default(), io)
        .await
        .expect("attach");
    assert_eq!(exit.code, 0);
    drop(near);
    while let Some(part) = stream.next().await {
        seen.push_str(std::str::from_utf8(&part.expect("log")).expect("text"));
    }
    assert!(seen.ends_with("got word\n"), "{seen}");
    let tail = LogOptions { tail_lines: Some(1), timestamps: true, ..LogOptions::default() };
    let last = space.log("p", tail).await;
    assert!(last.ends_with("Z got word\n"), "{last}");
}

pub(crate) async fn commands_run_with_their_streams_and_codes(bench: Arc<Bench>) {
    let space = bench.space("commands-run").await;
    space.pod("p", json!({"containers": [shell("c", "exec sleep 1000")], "terminationGracePeriodSeconds": 1})).await;
    space.ready("p").await;
    assert_eq!(run(&space, "p", &["sh", "-c", "echo out; exit 3"]).await, (3, "out\n".to_owned()));
    assert_eq!(run_with(&space, "p", &["cat"], b"in and out").await, (0, "in and out".to_owned()));
    let (code, text) = run(&space, "p", &["no-such-program"]).await;
    assert_eq!(
        (code, text.as_str()),
        (127, "exec: \"no-such-program\": executable file not found in $PATH\n")
    );
    let options =
        ExecOptions { container: Some("ghost".into()), command: vec!["true".into()], tty: false };
    let (_sizes, resize) = mpsc::channel(1);
    let io = ExecIo { stdin: None, stdout: None, stderr: None, resize };
    let error = bench
        .streams()
        .exec(space.reference("p"), options, io)
        .await
        .expect_err("no such container");
    assert_eq!(error.to_string(), "container ghost is not valid for pod p");
    space.delete("p").await;
}

pub(crate) async fn ports_are_reached_on_loopback(bench: Arc<Bench>) {
    let space = bench.space("ports-are-reached").await;
    let server = json!({"name": "c", "image": "app", "command": ["perl", "-e", SERVER, "8080"],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}});
    space.pod("p", json!({"containers": [server], "terminationGracePeriodSeconds": 1})).await;
    space.ready("p").await;
    let mut stream = bench.streams().connect(space.reference("p"), 8080).await.expect("connect");
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.expect("request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answer");
    assert!(answer.starts_with("HTTP/1.0 200 OK"), "{answer}");
    let refused = bench.streams().connect(space.reference("p"), 81).await;
    assert!(refused.is_err_and(|e| e.to_string().contains("connecting to port 81 of pod p")));
    space.delete("p").await;
}
