//! From a spec to a running process: asking the zygote, hearing how it went, watching to the end.
//!
//! Each process has a task of its own that lives until the zygote has reaped it, even when whoever
//! asked for it has lost interest: then it is killed, and its cgroup removed all the same.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ironsail_sys::cgroup::{Group, GroupLimits};
use ironsail_sys::fdpass::{Channel, Packet, memory_file};
use ironsail_sys::{reactor, signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};

use crate::handle::{Inner, PodPids, Process};
use crate::stdio::Master;
use crate::wire::{
    Descriptors, ExecBody, Order, ProcessBody, Report, Request, StartBody, Token, tell,
};
use crate::zygote::Zygote;
use crate::{
    Container, ContainerSpec, ExecSpec, ExitStatus, Session, StartError, Started, StartedSession,
    StdioEnds, StdioSpec, check, stdio,
};

pub(crate) async fn start(zygote: &Zygote, mut spec: ContainerSpec) -> Result<Started, StartError> {
    check::container(&spec)?;
    let group = make_group(zygote, &spec).await?;
    let (ends, descriptors) = streams(spec.stdio, group.as_deref())?;
    let template = ProcessBody {
        argv: std::mem::take(&mut spec.argv),
        env: std::mem::take(&mut spec.env),
        hostname: spec.hostname.clone(),
        cwd: spec.cwd.clone(),
        user: spec.user.clone(),
        capabilities: spec.capabilities.clone(),
        no_new_privs: spec.no_new_privs,
        oom_score_adj: spec.oom_score_adj,
        stdio: spec.stdio,
        cgroups: descriptors.cgroups.len(),
    };
    let id = spec.id.clone();
    let (netns, shared_pids) = (spec.netns.take(), spec.shared_pids.take());
    let has_netns = netns.is_some();
    let body =
        StartBody { spec, stage: zygote.stage().to_owned(), has_netns, process: template.clone() };
    let mut fds = vec![encode(&body)?];
    if let Some(netns) = netns {
        let netns = netns.try_clone().map_err(|e| setup("passing the network namespace", &e))?;
        fds.push(netns);
    }
    fds.extend(descriptors.into_vec());
    let token = zygote.token();
    let request =
        Request::Start { token, shared_pids: shared_pids.as_ref().map(|pod| pod.process.token) };
    let launched = launch(zygote, request, token, fds, ends, group.clone()).await;
    let (process, ends) = launched.map_err(|error| match error {
        StartError::NotRunning { .. } => StartError::Setup {
            step: "joining the pod's PID namespace".to_owned(),
            reason: "it is gone".to_owned(),
        },
        other => other,
    })?;
    let inner = Inner {
        id,
        process,
        zygote: zygote.clone(),
        template,
        has_netns,
        group,
        _shared_pids: shared_pids,
    };
    Ok(Started { container: Container { inner: Arc::new(inner) }, stdio: ends })
}

pub(crate) async fn exec(of: &Inner, spec: ExecSpec) -> Result<StartedSession, StartError> {
    check::command(&spec)?;
    let (ends, descriptors) = streams(spec.stdio, of.group.as_deref())?;
    let mut process = of.template.clone();
    process.argv = spec.argv;
    process.env.retain(|(name, _)| !spec.env.iter().any(|(new, _)| new == name));
    process.env.extend(spec.env);
    process.user = spec.user.unwrap_or(process.user);
    process.stdio = spec.stdio;
    process.cgroups = descriptors.cgroups.len();
    let mut fds = vec![encode(&ExecBody { has_netns: of.has_netns, process })?];
    fds.extend(descriptors.into_vec());
    let token = of.zygote.token();
    let request = Request::Exec { token, of: of.process.token };
    let (process, stdio) = launch(&of.zygote, request, token, fds, ends, None).await?;
    Ok(StartedSession { session: Session { process }, stdio })
}

pub(crate) async fn pod_pids(zygote: &Zygote) -> Result<PodPids, StartError> {
    let token = zygote.token();
    let request = Request::PodPids { token };
    let none = StdioEnds::default();
    let (process, _) = launch(zygote, request, token, Vec::new(), none, None).await?;
    Ok(PodPids { process: Arc::new(process) })
}

/// Making directories in a cgroup file system may take the kernel a while.
async fn make_group(
    zygote: &Zygote,
    spec: &ContainerSpec,
) -> Result<Option<Arc<Group>>, StartError> {
    if spec.limits.is_empty() {
        return Ok(None);
    }
    let limits = GroupLimits {
        memory_bytes: spec.limits.memory_bytes,
        cpu_millis: spec.limits.cpu_millis,
        cpu_request_millis: spec.limits.cpu_request_millis,
        pids: spec.limits.pids,
    };
    let (cgroups, id) = (zygote.cgroups(), spec.id.clone());
    let made = tokio::task::spawn_blocking(move || cgroups.create(&id, &limits)).await;
    let made = made.map_err(io::Error::other).and_then(|made| made);
    Ok(made.map_err(|e| setup("setting limits", &e))?.map(Arc::new))
}

fn streams(spec: StdioSpec, group: Option<&Group>) -> Result<(StdioEnds, Descriptors), StartError> {
    let (ends, mut theirs) = stdio::make(spec).map_err(|e| setup("making pipes", &e))?;
    if let Some(group) = group {
        theirs.cgroups = group.entrances().map_err(|e| setup("opening the cgroup", &e))?;
    }
    Ok((ends, theirs))
}

fn encode<B: serde::Serialize>(body: &B) -> Result<OwnedFd, StartError> {
    let bytes = serde_json::to_vec(body)
        .map_err(|e| StartError::Spec(format!("the spec cannot be passed on: {e}")))?;
    memory_file(&bytes).map_err(|e| setup("passing the spec on", &e))
}

fn setup(step: &str, e: &io::Error) -> StartError {
    StartError::Setup { step: step.to_owned(), reason: e.to_string() }
}

/// Sends the request and waits until the program runs.
async fn launch(
    zygote: &Zygote,
    request: Request,
    token: Token,
    mut fds: Vec<OwnedFd>,
    mut ends: StdioEnds,
    group: Option<Arc<Group>>,
) -> Result<(Process, StdioEnds), StartError> {
    let connect = || -> io::Result<(Arc<AsyncFd<Channel>>, OwnedFd)> {
        let (ours, theirs) = Channel::pair()?;
        ours.set_nonblocking()?;
        Ok((Arc::new(reactor::watch(ours)?), theirs.into()))
    };
    let (channel, theirs) = connect().map_err(|e| setup("making a channel", &e))?;
    fds.insert(0, theirs);
    let (told, tell_status) = watch::channel(None);
    let (ready, is_ready) = oneshot::channel();
    let task = Task { channel: Arc::clone(&channel), group, status: told };
    tokio::spawn(task.run(zygote.clone(), request, fds, ready));
    let terminal = is_ready.await.unwrap_or(Err(StartError::ZygoteLost))?;
    let mut weak = std::sync::Weak::new();
    if let Some(master) = terminal {
        let master = Master::new(master).map_err(|e| setup("opening the terminal", &e))?;
        ends = master.ends();
        weak = master.downgrade();
    }
    Ok((Process { token, channel, status: tell_status, terminal: weak }, ends))
}

type Ready = oneshot::Sender<Result<Option<OwnedFd>, StartError>>;

/// Watches one child of the zygote.
struct Task {
    channel: Arc<AsyncFd<Channel>>,
    group: Option<Arc<Group>>,
    status: watch::Sender<Option<ExitStatus>>,
}

impl Task {
    async fn run(self, zygote: Zygote, request: Request, fds: Vec<OwnedFd>, ready: Ready) {
        let outcome = match zygote.ask(&request, &fds).await {
            Ok(()) => {
                // Only the child's own copies are to keep its channel and streams open.
                drop(fds);
                self.until_running().await
            }
            Err(_) => Err(StartError::ZygoteLost),
        };
        drop(zygote);
        // When nobody waits for it any more, the handles are gone too, see below.
        let _ = ready.send(outcome);
        let mut status = self.until_gone().await;
        if let Some(group) = &self.group {
            status.oom_killed = group.oom_kills() > 0;
            remove_group(group).await;
        }
        self.status.send_replace(Some(status));
    }

    async fn next(&self) -> Option<(Report, Vec<OwnedFd>)> {
        let got = self.channel.async_io(Interest::READABLE, Channel::recv).await;
        let Packet { bytes, fds } = got.ok().flatten()?;
        Some((serde_json::from_slice(&bytes).ok()?, fds))
    }

    async fn until_running(&self) -> Result<Option<OwnedFd>, StartError> {
        let mut terminal = None;
        loop {
            match self.next().await {
                Some((Report::Terminal, fds)) => terminal = fds.into_iter().next(),
                Some((Report::Running, _)) => return Ok(terminal),
                Some((Report::Failed(error), _)) => return Err(error),
                Some((Report::Ended(_), _)) | None => {
                    return Err(StartError::Setup {
                        step: "starting the program".to_owned(),
                        reason: "its supervisor was killed".to_owned(),
                    });
                }
            }
        }
    }

    /// Kills it once nobody holds a handle any more.
    async fn until_gone(&self) -> ExitStatus {
        let mut status = ExitStatus::signalled(signal::KILL);
        let mut told = false;
        loop {
            tokio::select! {
                report = self.next() => match report {
                    Some((Report::Ended(ended), _)) => status = ended,
                    Some(_) => {}
                    None => return status,
                },
                () = self.status.closed(), if !told => {
                    told = true;
                    tell(self.channel.get_ref(), &Order::Kill, &[]);
                }
            }
        }
    }
}

/// The kernel may take a moment to see that the last process has left.
async fn remove_group(group: &Group) {
    for _ in 0..100 {
        if group.remove().is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tracing::warn!(?group, "a cgroup is still in use; the next start removes it");
}

impl Zygote {
    /// Sends a request with its descriptors.
    async fn ask(&self, request: &Request, fds: &[OwnedFd]) -> io::Result<()> {
        let bytes = serde_json::to_vec(request).map_err(io::Error::other)?;
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        self.channel().async_io(Interest::WRITABLE, |channel| channel.send(&bytes, &fds)).await
    }
}
