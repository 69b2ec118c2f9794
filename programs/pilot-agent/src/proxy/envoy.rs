//! Envoy as a child of this process: started, watched, restarted, drained and ended.
//!
//! In: a command line; out: its end, told apart: a crash, a hang, want of memory, or somebody's signal.
//! The kernel kills it when this process dies in any way, so no proxy is left without an agent.

mod ending;
mod hang;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use ironsail_sys::exec::{self, Signal};
use tokio::process::Child;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use ending::{Memory, reason};
pub(crate) use hang::Watchdog;

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
    /// YAML that is laid over the file.
    pub(crate) over: Option<String>,
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
        if let Some(over) = &self.over {
            put("--config-yaml", over.clone());
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

/// Runs Envoy until `stop`; restarts it with growing pauses when it ends by itself or hangs. What
/// happens between the wish to stop and Envoy's end is `drain`.
pub(crate) async fn run<F>(
    launch: &Launch,
    watchdog: &Watchdog,
    stop: CancellationToken,
    drain: impl FnOnce() -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = ()>,
{
    let memory = Memory::of_this_process();
    let mut failures = 0;
    loop {
        let started = tokio::time::Instant::now();
        let kills = memory.kills();
        let mut child = launch.spawn()?;
        let pid = child.id().unwrap_or_default();
        info!(target: "envoy", "Envoy command: {:?}", launch.arguments());
        let (ended, hung) = tokio::select! {
            ended = child.wait() => (ended.context("waiting for Envoy")?, None),
            silent = watchdog.watch() => (kill_hung(&mut child, pid, silent).await?, Some(silent)),
            () = stop.cancelled() => {
                tokio::select! {
                    () = drain() => {}
                    ended = child.wait() => {
                        let why = reason(ended?, memory.killed_since(kills));
                        warn!(target: "envoy", "Envoy ended while it drained: {why}");
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
        match hung {
            Some(silent) => {
                error!(target: "envoy", "Envoy was ended because it hung for {silent:?}");
            }
            None => {
                let why = reason(ended, memory.killed_since(kills));
                error!(target: "envoy", "Envoy ended: {why}");
            }
        }
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

/// Ends an Envoy that does not answer. The first signal makes it say where it hangs, if it still can.
async fn kill_hung(child: &mut Child, pid: u32, silent: Duration) -> anyhow::Result<ExitStatus> {
    error!(
        target: "envoy",
        "Envoy hangs: its process {pid} lives, but its administration has not answered for \
         {silent:?}; it is ended and started again"
    );
    exec::send_signal(pid, Signal::SIGABRT);
    if let Ok(ended) = tokio::time::timeout(PATIENCE, child.wait()).await {
        return ended.context("waiting for Envoy");
    }
    exec::send_signal(pid, Signal::SIGKILL);
    child.wait().await.context("waiting for Envoy")
}

async fn end(mut child: Child, pid: u32) -> anyhow::Result<()> {
    exec::send_signal(pid, Signal::SIGTERM);
    match tokio::time::timeout(PATIENCE, child.wait()).await {
        Ok(ended) => info!(target: "envoy", "Envoy ended: {}", reason(ended?, None)),
        Err(_) => {
            warn!(target: "envoy", "Envoy did not end within {PATIENCE:?} and is killed");
            child.kill().await.context("killing Envoy")?;
        }
    }
    Ok(())
}
