//! Envoy as a child of this process: started, watched, restarted, drained and ended.
//!
//! In: a command line; out: its end, told apart. The kernel kills it when this process dies in any
//! way, so no proxy is left without an agent.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use ironsail_sys::exec::{self, Signal};
use tokio::process::Child;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// How often Envoy may fail in a row before the agent gives up.
const MOST_FAILURES: u32 = 10;
/// An Envoy that ran this long had started well.
const WELL: Duration = Duration::from_secs(60);
/// Time to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(5);

/// How to start Envoy.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) drain: Duration,
    pub(crate) log_level: String,
    pub(crate) component_log_level: String,
    pub(crate) concurrency: Option<u32>,
    pub(crate) ipv6_only: bool,
    pub(crate) flush_interval: Duration,
    pub(crate) flush_min_size_kb: Option<u32>,
    pub(crate) skip_deprecated: bool,
    /// Where Envoy looks for modules.
    pub(crate) modules: Option<PathBuf>,
}

impl Launch {
    /// The arguments, in the order that people know from process lists.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["-c".to_owned(), self.config.display().to_string()];
        let mut put = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        put("--drain-time-s", self.drain.as_secs().to_string());
        put("--drain-strategy", "immediate".to_owned());
        put("--local-address-ip-version", if self.ipv6_only { "v6" } else { "v4" }.to_owned());
        put("--file-flush-interval-msec", self.flush_interval.as_millis().to_string());
        if let Some(size) = self.flush_min_size_kb {
            put("--file-flush-min-size-kb", size.to_string());
        }
        arguments.push("--disable-hot-restart".to_owned());
        arguments.push("--allow-unknown-static-fields".to_owned());
        if self.skip_deprecated {
            arguments.push("--skip-deprecated-logs".to_owned());
        }
        let mut put = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        put("-l", self.log_level.clone());
        if !self.component_log_level.is_empty() {
            put("--component-log-level", self.component_log_level.clone());
        }
        if let Some(threads) = self.concurrency {
            put("--concurrency", threads.to_string());
        }
        arguments
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let mut command = exec::command(&self.program);
        command.args(self.arguments()).stdin(Stdio::null());
        if let Some(folder) = &self.modules {
            command.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", folder);
        }
        // This runs on the thread of `main`, which lives as long as the process.
        exec::die_with_thread(&mut command, Signal::SIGKILL);
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn();
        child.with_context(|| format!("starting {}", self.program.display()))
    }
}

/// Runs Envoy until `stop`; restarts it with growing pauses when it ends by itself. What happens
/// between the wish to stop and Envoy's end is `drain`.
pub(crate) async fn run<F>(
    launch: &Launch,
    stop: CancellationToken,
    drain: impl FnOnce() -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = ()>,
{
    let mut failures = 0;
    loop {
        let started = tokio::time::Instant::now();
        let mut child = launch.spawn()?;
        let pid = child.id().unwrap_or_default();
        info!(target: "envoy", "Envoy command: {:?}", launch.arguments());
        let ended = tokio::select! {
            ended = child.wait() => ended.context("waiting for Envoy")?,
            () = stop.cancelled() => {
                tokio::select! {
                    () = drain() => {}
                    ended = child.wait() => {
                        warn!(target: "envoy", "Envoy ended while it drained: {}", reason(ended?));
                        return Ok(());
                    }
                }
                return end(child, pid).await;
            }
        };
        if started.elapsed() >= WELL {
            failures = 0;
        }
        failures += 1;
        error!(target: "envoy", "Envoy ended: {}", reason(ended));
        if ended.success() {
            anyhow::bail!("Envoy ended by itself");
        }
        anyhow::ensure!(failures < MOST_FAILURES, "Envoy failed {failures} times in a row");
        let pause = Duration::from_millis(100) * 2_u32.pow(failures.min(7) - 1);
        info!(target: "envoy", "starting Envoy again in {pause:?}");
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return Ok(());
        }
    }
}

async fn end(mut child: Child, pid: u32) -> anyhow::Result<()> {
    exec::send_signal(pid, Signal::SIGTERM);
    match tokio::time::timeout(PATIENCE, child.wait()).await {
        Ok(ended) => info!(target: "envoy", "Envoy ended: {}", reason(ended?)),
        Err(_) => {
            warn!(target: "envoy", "Envoy did not end within {PATIENCE:?} and is killed");
            child.kill().await.context("killing Envoy")?;
        }
    }
    Ok(())
}

/// Why a process ended, in words.
fn reason(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "exit code 0".to_owned(),
        (Some(code), _) => format!("exit code {code}; its own log says why"),
        // The kernel's killer of memory hogs sends this, and so may a person.
        (_, Some(9)) => "killed (SIGKILL): out of memory, or by somebody".to_owned(),
        (_, Some(6)) => {
            "it aborted itself (SIGABRT): a crash, or its watchdog saw it hang".to_owned()
        }
        (_, Some(11 | 7 | 4)) => "it crashed (a fault in memory)".to_owned(),
        (_, Some(signal)) => format!("ended by signal {signal}"),
        _ => format!("{status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_the_one_people_know() {
        let launch = Launch {
            program: "/usr/local/bin/envoy".into(),
            config: "etc/istio/proxy/envoy-rev.json".into(),
            drain: Duration::from_secs(45),
            log_level: "warning".into(),
            component_log_level: "misc:error".into(),
            concurrency: Some(2),
            ipv6_only: false,
            flush_interval: Duration::from_secs(1),
            flush_min_size_kb: None,
            skip_deprecated: true,
            modules: None,
        };
        assert_eq!(
            launch.arguments().join(" "),
            "-c etc/istio/proxy/envoy-rev.json --drain-time-s 45 --drain-strategy immediate \
             --local-address-ip-version v4 --file-flush-interval-msec 1000 --disable-hot-restart \
             --allow-unknown-static-fields --skip-deprecated-logs -l warning \
             --component-log-level misc:error --concurrency 2"
        );
    }

    fn script(text: &str) -> (tempfile::TempDir, Launch) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("envoy");
        std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let launch = Launch {
            program,
            config: "x".into(),
            drain: Duration::ZERO,
            log_level: "info".into(),
            component_log_level: String::new(),
            concurrency: None,
            ipv6_only: false,
            flush_interval: Duration::from_secs(1),
            flush_min_size_kb: None,
            skip_deprecated: false,
            modules: None,
        };
        (folder, launch)
    }

    #[tokio::test]
    async fn one_that_always_fails_is_given_up() {
        let (folder, launch) = script("echo x >> \"$(dirname \"$0\")/runs\"; exit 3");
        tokio::time::pause();
        let error = run(&launch, CancellationToken::new(), || async {}).await.unwrap_err();
        assert_eq!(error.to_string(), "Envoy failed 10 times in a row");
        let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
        assert_eq!(runs.lines().count(), 10);
    }

    #[tokio::test]
    async fn it_is_drained_then_ended() {
        let (_folder, launch) = script("exec sleep 1000");
        let stop = CancellationToken::new();
        stop.cancel();
        let (drained, seen) = tokio::sync::oneshot::channel();
        run(&launch, stop, || async { drained.send(()).unwrap() }).await.unwrap();
        seen.await.unwrap();
    }
}
