//! Exec and attach: a command's input, output, terminal size and end, over WebSocket channels or
//! SPDY streams.
//!
//! When the client goes away the command's future is dropped, which ends the command.

use std::sync::Arc;

use http::request::Parts;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use crate::pod::{Error, ExecIo, ExecOptions, Exit, PodRef, PodStreams, TerminalSize};
use crate::upgrade::{self, Refused, Upgrade, Wire};

mod channels;
mod streams;
#[cfg(test)]
mod tests;

const V4: &str = "v4.channel.k8s.io";
const V5: &str = "v5.channel.k8s.io";
const PIPE: usize = 64 << 10;

/// What the client wants to run, and which of its streams take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub pod: PodRef,
    pub options: ExecOptions,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

/// Takes the upgrade of an exec or attach request.
pub fn accept(
    parts: &mut Parts,
    request: Request,
    streams: Arc<dyn PodStreams>,
) -> Result<Upgrade, Refused> {
    if !request.stdin && !request.stdout && !request.stderr {
        return Err(Refused::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    // A terminal has one output.
    let stderr = request.stderr && !request.options.tty;
    let request = Request { stderr, ..request };
    let accepted = upgrade::negotiate(parts, &[V5, V4], &[V4])?;
    let (wire, on_upgrade) = (accepted.wire, accepted.on_upgrade);
    let session = Box::pin(async move {
        let upgraded = match on_upgrade.await {
            Ok(upgraded) => upgraded,
            Err(error) => {
                tracing::debug!(%error, "a client left before its exec session began");
                return;
            }
        };
        match wire {
            Wire::WebSocket(protocol) => {
                channels::run(upgraded, protocol == V5, request, streams).await;
            }
            Wire::Spdy(_) => streams::run(upgraded, request, streams).await,
        }
    });
    Ok(Upgrade { response: accepted.response, session })
}

/// The wire's ends of the pipes.
struct Ends {
    stdin: Option<DuplexStream>,
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
    resize: mpsc::Sender<TerminalSize>,
}

fn pipes(request: &Request) -> (ExecIo, Ends) {
    let pipe = |wanted: bool| wanted.then(|| tokio::io::duplex(PIPE)).unzip();
    let (stdin, stdin_end) = pipe(request.stdin);
    let (stdout, stdout_end) = pipe(request.stdout);
    let (stderr, stderr_end) = pipe(request.stderr);
    let (resize, sizes) = mpsc::channel(8);
    let io = ExecIo {
        stdin: stdin.map(|s| Box::pin(s) as _),
        stdout: stdout.map(|s| Box::pin(s) as _),
        stderr: stderr.map(|s| Box::pin(s) as _),
        resize: sizes,
    };
    (io, Ends { stdin: stdin_end, stdout: stdout_end, stderr: stderr_end, resize })
}

/// The `Status` with which a session ends.
fn end_status(outcome: Result<Exit, Error>) -> Value {
    let failure = |code: u16, reason: &str, message: String| {
        json!({ "metadata": {}, "status": "Failure", "message": message, "reason": reason,
            "code": code })
    };
    match outcome {
        Ok(Exit { code: 0 }) => json!({ "metadata": {}, "status": "Success" }),
        Ok(Exit { code }) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "reason": "NonZeroExitCode",
            "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
        }),
        Err(Error::NotFound(message)) => failure(404, "NotFound", message),
        Err(Error::BadRequest(message)) => failure(400, "BadRequest", message),
        Err(Error::Internal(message)) => {
            let text =
                format!("Internal error occurred: error executing command in container: {message}");
            let mut status = failure(500, "InternalError", text);
            status["details"] = json!({ "causes": [{ "message": message }] });
            status
        }
    }
}

/// `{"Width":80,"Height":24}`; anything else is no size.
fn terminal_size(value: &Value) -> Option<TerminalSize> {
    let part = |key: &str| u16::try_from(value[key].as_u64()?).ok();
    Some(TerminalSize { columns: part("Width")?, rows: part("Height")? })
}
