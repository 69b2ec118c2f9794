//! Starting a program: streams, environment, and what is told when it does not work.

use std::sync::Arc;

use ironsail_container::{ExitStatus, StartError, Started, StdioSpec, TerminalSize};
use tokio::io::AsyncWriteExt;

use crate::bench::{Bench, Output, read_all, read_until};

pub(crate) async fn exit_codes_and_streams_arrive(bench: Arc<Bench>) {
    let output = bench.run(bench.sh("echo out; echo err >&2; exit 7")).await;
    let expect =
        Output { status: ExitStatus::exited(7), stdout: "out\n".into(), stderr: "err\n".into() };
    assert_eq!(output, expect);
    assert_eq!(bench.run(bench.spec(&["true"])).await.status, ExitStatus::exited(0));
}

pub(crate) async fn standard_input_is_passed_and_its_end_seen(bench: Arc<Bench>) {
    let mut spec = bench.spec(&["cat"]);
    spec.stdio = StdioSpec::Pipes { stdin: true };
    let Started { container, mut stdio } = bench.start(spec).await;
    let mut stdin = stdio.stdin.take().expect("stdin");
    stdin.write_all(b"to and fro").await.expect("write");
    drop(stdin);
    assert_eq!(read_all(stdio.stdout).await, "to and fro");
    assert_eq!(container.wait().await.code, 0);
    // Without it, reading gives the end at once.
    assert_eq!(bench.says(bench.spec(&["cat"])).await, "");
}

pub(crate) async fn environment_directory_and_host_name_are_as_given(bench: Arc<Bench>) {
    let mut spec = bench.sh("echo $A; pwd; hostname; echo $HOSTNAME; echo $HOME");
    spec.env.push(("A".into(), "b c".into()));
    spec.cwd = "/var/new/place".into();
    spec.hostname = "web-0".into();
    assert_eq!(bench.says(spec).await, "b c\n/var/new/place\nweb-0\nweb-0\n/root");
}

pub(crate) async fn unknown_and_unfit_programs_are_told_apart_from_exit_codes(bench: Arc<Bench>) {
    let refused = async |argv: &[&str]| bench.refused(bench.spec(argv)).await;
    let error = refused(&["no-such-program"]).await;
    assert_eq!(error.to_string(), "exec: \"no-such-program\": executable file not found in $PATH");
    assert_eq!(error.exit_code(), 127);
    let error = refused(&["/no/such/file", "x"]).await;
    assert_eq!(
        error.to_string(),
        "exec: \"/no/such/file\": stat /no/such/file: no such file or directory"
    );
    let error = refused(&["/etc/passwd"]).await;
    assert_eq!(error.to_string(), "exec: \"/etc/passwd\": permission denied");
    assert_eq!(error.exit_code(), 126);
    assert_eq!(refused(&["/etc"]).await.exit_code(), 126);
}

pub(crate) async fn senseless_specs_are_refused_in_words(bench: Arc<Bench>) {
    let mut spec = bench.spec(&["true"]);
    spec.capabilities.add = vec!["FLY".into()];
    assert_eq!(bench.refused(spec).await, StartError::Spec("unknown capability \"FLY\"".into()));

    let mut spec = bench.spec(&["true"]);
    let source = ironsail_container::MountSource::Bind { host: "/no/such".into(), recursive: true };
    spec.mounts.push(ironsail_container::Mount { inside: "/x".into(), source, read_only: false });
    let error = bench.refused(spec).await.to_string();
    assert!(error.starts_with("opening /no/such for mounting: "), "{error}");
}

pub(crate) async fn large_environments_pass(bench: Arc<Bench>) {
    let mut spec = bench.sh("echo ${#BIG0} ${#BIG9}");
    for n in 0..10 {
        spec.env.push((format!("BIG{n}"), "x".repeat(100_000)));
    }
    assert_eq!(bench.says(spec).await, "100000 100000");
}

pub(crate) async fn a_container_with_a_terminal_has_one(bench: Arc<Bench>) {
    let mut spec = bench.sh("tty; stty size; read line; echo got $line; stty size");
    spec.stdio = StdioSpec::Terminal { size: Some(TerminalSize { columns: 90, rows: 30 }) };
    let Started { container, mut stdio } = bench.start(spec).await;
    let mut stdout = stdio.stdout.take().expect("stdout");
    let seen = read_until(&mut stdout, "30 90").await;
    assert!(seen.contains("/dev/pts/0"), "{seen}");
    container.resize(TerminalSize { columns: 120, rows: 40 });
    let mut stdin = stdio.stdin.take().expect("stdin");
    stdin.write_all(b"hello\n").await.expect("write");
    assert!(read_until(&mut stdout, "40 120").await.contains("got hello"));
    assert_eq!(read_all(Some(stdout)).await.trim(), "");
    assert_eq!(container.wait().await, ExitStatus::exited(0));
}
