//! Probes of one running container: when to ask, how to ask, what the answers mean.
//!
//! In comes a container's probes and ways to reach it; out go changed verdicts and events. A
//! worker asks one probe and ends when its handle is dropped.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use crate::network::PodNetwork;
use crate::pod::exec;
use crate::runtime::Process;

pub mod grpc;
pub mod http;
pub mod verdict;

pub use verdict::Kind;
use verdict::Verdict;

/// How probes name themselves.
pub const AGENT: &str = "kube-probe/1.36";

/// Connects to a host and port; the text of an error is what an event shows.
pub trait Dial: Send + Sync {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<TcpStream, String>>;
}

/// Dials from the node, as kubelets do. Names are not resolved: the node has no resolver of its own.
pub struct FromNode(pub Arc<dyn PodNetwork>);

impl Dial for FromNode {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<TcpStream, String>> {
        Box::pin(async move {
            let ip: IpAddr = match host {
                "localhost" => IpAddr::from([127, 0, 0, 1]),
                host => {
                    host.parse().map_err(|_| format!("dial tcp: lookup {host}: no such host"))?
                }
            };
            let to = SocketAddr::new(ip, port);
            self.0.dial(to).await.map_err(|e| format!("dial tcp {to}: connect: {}", plain(&e)))
        })
    }
}

/// The words of the C library, without Rust's "(os error 111)".
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

/// What a probe is asked of.
#[derive(Clone)]
pub struct Subject {
    pub container: Arc<Container>,
    pub ip: IpAddr,
    pub process: Arc<dyn Process>,
    pub dial: Arc<dyn Dial>,
}

/// What one asking gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// It answered, with a warning worth an event.
    Warning(String),
    Failure(String),
    /// It could not be asked.
    Errored(String),
}

/// Asks once.
pub async fn ask(probe: &Probe, subject: &Subject) -> Outcome {
    let limit = seconds(probe.timeout_seconds, 1);
    let asked = async {
        if let Some(action) = &probe.exec {
            return ask_exec(action.command.as_deref().unwrap_or_default(), subject, limit).await;
        }
        if let Some(action) = &probe.http_get {
            return ask_http(action, subject).await;
        }
        if let Some(action) = &probe.tcp_socket {
            let host = action
                .host
                .clone()
                .filter(|h| !h.is_empty())
                .unwrap_or_else(|| subject.ip.to_string());
            return match resolve_port(&action.port, &subject.container) {
                Err(error) => Outcome::Errored(error),
                Ok(port) => subject
                    .dial
                    .dial(&host, port)
                    .await
                    .map_or_else(Outcome::Failure, |_| Outcome::Success),
            };
        }
        if let Some(action) = &probe.grpc {
            let service = action.service.as_deref().unwrap_or_default();
            let Ok(port) = u16::try_from(action.port) else {
                return Outcome::Errored(format!("invalid port number: {}", action.port));
            };
            let answer = grpc::check(subject.ip, port, service, AGENT, &*subject.dial).await;
            return answer.map_or_else(Outcome::Failure, |()| Outcome::Success);
        }
        Outcome::Errored("missing probe handler".to_owned())
    };
    match timeout(limit, asked).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::Failure(timed_out(probe, subject, limit)),
    }
}

fn timed_out(probe: &Probe, subject: &Subject, limit: Duration) -> String {
    let seconds = limit.as_secs();
    if let Some(action) = &probe.http_get {
        let port = resolve_port(&action.port, &subject.container).unwrap_or_default();
        let scheme = action.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let at = SocketAddr::new(subject.ip, port);
        let path = action.path.as_deref().unwrap_or("/");
        return format!(
            "Get \"{scheme}://{at}{path}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        );
    }
    if let Some(action) = &probe.exec {
        let command = action.command.clone().unwrap_or_default().join(" ");
        return format!("command timed out: \"{command}\" timed out after {seconds}s");
    }
    if let Some(action) = &probe.tcp_socket {
        let port = resolve_port(&action.port, &subject.container).unwrap_or_default();
        return format!("dial tcp {}: i/o timeout", SocketAddr::new(subject.ip, port));
    }
    format!("timeout: health rpc did not complete within {seconds}s")
}

async fn ask_exec(command: &[String], subject: &Subject, limit: Duration) -> Outcome {
    match exec::output(&*subject.process, command, limit).await {
        Err(error) => Outcome::Errored(error),
        Ok((0, _)) => Outcome::Success,
        Ok((_, output)) => Outcome::Failure(output),
    }
}

async fn ask_http(
    action: &k8s_openapi::api::core::v1::HTTPGetAction,
    subject: &Subject,
) -> Outcome {
    match http::get(action, &subject.container, subject.ip, AGENT, &*subject.dial).await {
        Err(error) => Outcome::Failure(error),
        Ok(answer) => match (answer.status, answer.redirected_away) {
            (200..400, None) => Outcome::Success,
            (200..400, Some(to)) => {
                Outcome::Warning(format!("Probe terminated redirects, Response body: {to}"))
            }
            (status, _) => Outcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
        },
    }
}

/// A port by number or by its name in the container.
pub fn resolve_port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => name.parse().ok().or_else(|| {
            let ports = container.ports.iter().flatten();
            ports.filter(|p| p.name.as_deref() == Some(name)).map(|p| p.container_port).next()
        }),
    };
    let shown = || match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    };
    let number = number.ok_or_else(|| {
        format!("could not find port {} in container {}", shown(), container.name)
    })?;
    u16::try_from(number)
        .ok()
        .filter(|p| *p > 0)
        .ok_or_else(|| format!("invalid port number: {}", shown()))
}

pub fn seconds(value: Option<i32>, default: u64) -> Duration {
    let value = value.and_then(|v| u64::try_from(v).ok()).filter(|v| *v > 0);
    Duration::from_secs(value.unwrap_or(default))
}

/// What a probe's worker reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The verdict changed.
    Changed(bool),
    /// A failure or warning to tell as an event.
    Unhealthy(String),
    Warning(String),
}

/// The first askings of a fresh container, before its first period is over. Only success counts in
/// them, so a program that is up after 300 ms does not wait out a period of ten seconds.
const EARLY: [u64; 6] = [50, 100, 200, 400, 800, 1600];

/// How long a fresh container is left alone by its liveness probe.
const SETTLE: Duration = Duration::from_secs(1);

/// Asks `probe` until dropped, or until a startup or liveness probe has given its last word.
pub async fn run(kind: Kind, probe: Probe, subject: Subject, mut report: impl FnMut(Report)) {
    let period = seconds(probe.period_seconds, 10);
    let delay = Duration::from_secs(
        probe.initial_delay_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0),
    );
    let mut verdict = Verdict::new(&probe);
    let start = Instant::now() + delay;
    if delay.is_zero()
        && kind != Kind::Liveness
        && ask_early(&probe, &subject, period, start, &mut verdict, &mut report).await
        && kind == Kind::Startup
    {
        return;
    }
    // A liveness probe that is asked before the program had a moment to start tells nothing.
    let mut next = match (delay.is_zero(), kind) {
        (false, _) => start,
        (true, Kind::Liveness) => start + period.min(SETTLE),
        (true, _) => start + period,
    };
    loop {
        sleep_until(next).await;
        let outcome = ask(&probe, &subject).await;
        let success = matches!(outcome, Outcome::Success | Outcome::Warning(_));
        match outcome {
            Outcome::Success => {}
            Outcome::Warning(text) => {
                report(Report::Warning(format!("{} probe warning: {text}", kind.name())));
            }
            Outcome::Failure(text) => {
                report(Report::Unhealthy(format!("{} probe failed: {text}", kind.name())));
            }
            Outcome::Errored(text) => {
                report(Report::Unhealthy(format!(
                    "{} probe errored and resulted in unknown state: {text}",
                    kind.name()
                )));
            }
        }
        if let Some(changed) = verdict.add(success) {
            report(Report::Changed(changed));
            if kind == Kind::Startup || (kind == Kind::Liveness && !changed) {
                return;
            }
        }
        next = (next + period).max(Instant::now());
    }
}

/// Returns whether the verdict became good.
async fn ask_early(
    probe: &Probe,
    subject: &Subject,
    period: Duration,
    start: Instant,
    verdict: &mut Verdict,
    report: &mut impl FnMut(Report),
) -> bool {
    let mut at = start;
    for wait in EARLY {
        sleep_until(at).await;
        if matches!(ask(probe, subject).await, Outcome::Success | Outcome::Warning(_)) {
            if verdict.add(true).is_some() {
                report(Report::Changed(true));
                return true;
            }
            // Further successes come in their period.
            return false;
        }
        at = Instant::now() + Duration::from_millis(wait);
        if at >= start + period {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
