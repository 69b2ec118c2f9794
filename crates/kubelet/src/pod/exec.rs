//! Short commands in a running container: exec probes and hooks.
//!
//! In comes a command, out come its exit code and the start of what it printed.

use std::time::Duration;

use ironsail_container::{ExecSpec, StdioSpec};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::runtime::Process;

/// How much of the output an event or message shows.
const MAX_OUTPUT: u64 = 10 * 1024;

/// Runs `command` for at most `limit`; it is killed then.
pub async fn output(
    process: &dyn Process,
    command: &[String],
    limit: Duration,
) -> Result<(i32, String), String> {
    let spec = ExecSpec {
        argv: command.to_vec(),
        stdio: StdioSpec::Pipes { stdin: false },
        ..ExecSpec::default()
    };
    let mut started = process.exec(spec).await.map_err(|e| e.to_string())?;
    let (stdout, stderr) = (started.stdio.stdout.take(), started.stdio.stderr.take());
    let running = async {
        let (out, err, exit) = tokio::join!(read(stdout), read(stderr), started.session.wait());
        (exit.code, out + &err)
    };
    let finished = tokio::time::timeout(limit, running).await;
    finished.map_err(|_| {
        format!("command timed out: {:?} timed out after {}s", command.join(" "), limit.as_secs())
    })
}

/// The start of a stream; the rest is read and dropped, so that the command never blocks on it.
async fn read(reader: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut reader) = reader else { return String::new() };
    let mut kept = Vec::new();
    let _ = (&mut reader).take(MAX_OUTPUT).read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}
