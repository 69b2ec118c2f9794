//! Further commands in a running container.

use std::sync::Arc;

use ironsail_container::{
    ExecSpec, ExitStatus, StartError, StartedSession, StdioSpec, TerminalSize, User,
};
use tokio::io::AsyncWriteExt;

use crate::bench::{Bench, descendants, read_both, read_until, until};

fn sh(script: &str) -> ExecSpec {
    ExecSpec { argv: ["sh", "-c", script].map(str::to_owned).to_vec(), ..ExecSpec::default() }
}

pub(crate) async fn a_command_runs_in_the_container_with_its_environment_and_user(
    bench: Arc<Bench>,
) {
    let mut spec = bench.sh("echo here > /tmp/mark; echo ready; sleep 1000");
    spec.env.push(("A".into(), "one".into()));
    spec.env.push(("B".into(), "two".into()));
    spec.user = User { uid: 1337, gid: Some(1338), groups: vec![5000] };
    spec.hostname = "inside".into();
    let mut started = bench.start(spec).await;
    read_until(started.stdio.stdout.as_mut().expect("stdout"), "ready").await;
    let container = started.container;

    let mut exec =
        sh("cat /tmp/mark; echo $A $B; id -u; id -G; hostname; cat /proc/1/comm; exit 9");
    exec.env = vec![("B".into(), "three".into())];
    let StartedSession { session, stdio } = container.exec(exec).await.expect("exec");
    let (stdout, _) = read_both(stdio).await;
    assert_eq!(stdout, "here\none three\n1337\n1338 5000\ninside\npodlet-init\n");
    assert_eq!(session.wait().await, ExitStatus::exited(9));

    let mut exec = sh("id -u; cat");
    exec.user = Some(User::default());
    exec.stdio = StdioSpec::Pipes { stdin: true };
    let StartedSession { session, mut stdio } = container.exec(exec).await.expect("exec");
    stdio.stdin.take().expect("stdin").write_all(b"fed\n").await.expect("write");
    assert_eq!(read_both(stdio).await.0, "0\nfed\n");
    assert_eq!(session.wait().await.code, 0);
}

pub(crate) async fn a_command_with_a_terminal_sees_its_size(bench: Arc<Bench>) {
    let container = bench.sleeper().await;
    let mut exec = sh("tty; stty size; read x; stty size; echo $TERM");
    exec.stdio = StdioSpec::Terminal { size: Some(TerminalSize { columns: 81, rows: 25 }) };
    let StartedSession { session, mut stdio } = container.exec(exec).await.expect("exec");
    let mut stdout = stdio.stdout.take().expect("stdout");
    assert!(read_until(&mut stdout, "25 81").await.contains("/dev/pts/"));
    session.resize(TerminalSize { columns: 132, rows: 50 });
    stdio.stdin.take().expect("stdin").write_all(b"\n").await.expect("write");
    assert!(read_until(&mut stdout, "xterm").await.contains("50 132"));
    assert_eq!(session.wait().await, ExitStatus::exited(0));
}

pub(crate) async fn a_dropped_session_kills_its_command(bench: Arc<Bench>) {
    let container = bench.sleeper().await;
    let before = descendants(bench.zygote.pid());
    let exec = sh("trap '' TERM HUP; sleep 999 & echo ready; wait");
    let StartedSession { session, mut stdio } = container.exec(exec).await.expect("exec");
    read_until(stdio.stdout.as_mut().expect("stdout"), "ready").await;
    assert!(descendants(bench.zygote.pid()).len() > before.len());
    drop(session);
    until("the command is gone", || descendants(bench.zygote.pid()) == before).await;
    assert_eq!(container.status(), None);
}

pub(crate) async fn a_command_in_an_ended_container_is_refused(bench: Arc<Bench>) {
    let container = bench.start(bench.spec(&["true"])).await.container;
    container.wait().await;
    let error = container.exec(sh("true")).await.expect_err("it has ended");
    assert_eq!(error, StartError::NotRunning { id: container.id().to_owned() });

    // One that runs when the container ends is killed with it.
    let container = bench.sleeper().await;
    let exec = container.exec(sh("sleep 1000")).await.expect("exec");
    container.kill();
    assert_eq!(exec.session.wait().await, ExitStatus::signalled(9));
    container.wait().await;
}

pub(crate) async fn a_command_that_is_not_there_is_told(bench: Arc<Bench>) {
    let container = bench.sleeper().await;
    let exec = ExecSpec { argv: vec!["nothing".into()], ..ExecSpec::default() };
    let error = container.exec(exec).await.expect_err("no such program");
    assert_eq!(error, StartError::NotInPath { program: "nothing".into() });
}
