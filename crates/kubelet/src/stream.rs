//! Logs, exec, attach and port-forward of this node's pods.
//!
//! In come requests that the API server has authenticated and decoded; out go bytes. The wire
//! protocols are none of its business.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use ironsail_container::{ExecSpec, StdioEnds, StdioSpec, TerminalSize};
use ironsail_kubestream::pod::{
    Duplex, Error, ExecIo, ExecOptions, Exit, LogOptions, PodRef, PodStreams, Reader, Writer,
};
use k8s_openapi::api::core::v1::Pod;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::context::{Context, Shown, ShownContainer};
use crate::field::containers;
use crate::log;
use crate::log::line::Stream;
use crate::pod::container::Instance;

/// The streams of all pods of a node.
#[derive(Clone)]
pub struct Streams {
    ctx: Arc<Context>,
}

impl Streams {
    pub fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    fn pod(&self, pod: &PodRef) -> Result<Arc<Shown>, Error> {
        let key = (pod.namespace.clone(), pod.name.clone());
        let found = self.ctx.pods.lock().get(&key).cloned();
        found.ok_or_else(|| Error::NotFound(format!("pods \"{}\" not found", pod.name)))
    }

    /// The container that is asked for, or the only one.
    fn container(shown: &Shown, asked: Option<&str>) -> Result<String, Error> {
        let pod = shown.pod.lock().clone();
        let name = pod.metadata.name.clone().unwrap_or_default();
        if let Some(asked) = asked.filter(|a| !a.is_empty()) {
            return match containers(&pod).find(|c| c.name == asked) {
                Some(found) => Ok(found.name.clone()),
                None => {
                    Err(Error::BadRequest(format!("container {asked} is not valid for pod {name}")))
                }
            };
        }
        let main: Vec<String> =
            pod.spec.iter().flat_map(|s| s.containers.iter().map(|c| c.name.clone())).collect();
        let default = pod
            .metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get("kubectl.kubernetes.io/default-container"));
        match (main.as_slice(), default) {
            ([only], _) => Ok(only.clone()),
            (_, Some(default)) if main.contains(default) => Ok(default.clone()),
            _ => Err(Error::BadRequest(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                containers(&pod).map(|c| c.name.as_str()).collect::<Vec<_>>().join(" ")
            ))),
        }
    }

    fn running(shown: &Shown, container: &str) -> Result<Arc<Instance>, Error> {
        let found = shown.containers.lock().get(container).and_then(|c| c.instance.clone());
        found.ok_or_else(|| Error::BadRequest(format!("container {container} is not running")))
    }

    async fn open_logs(
        &self,
        pod: PodRef,
        options: LogOptions,
    ) -> Result<BoxStream<'static, io::Result<Bytes>>, Error> {
        let shown = self.pod(&pod)?;
        let container = Self::container(&shown, options.container.as_deref())?;
        let state = shown.containers.lock().get(&container).cloned().unwrap_or_default();
        let (restart, live) = which_log(&state, options.previous, &container, &pod.name)?;
        let path = log::path(&shown.log_directory, &container, restart);
        let live = live.then(|| state.instance.as_ref().map(|i| i.log.progress())).flatten();
        log::reader::read(path, options, live).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NotFound(format!(
                "the log of container \"{container}\" in pod \"{}\" is no longer there",
                pod.name
            )),
            _ => Error::Internal(format!("reading the log of container \"{container}\": {error}")),
        })
    }

    async fn run_exec(&self, pod: PodRef, options: ExecOptions, io: ExecIo) -> Result<Exit, Error> {
        let shown = self.pod(&pod)?;
        let container = Self::container(&shown, options.container.as_deref())?;
        let instance = Self::running(&shown, &container)?;
        if options.command.is_empty() {
            return attach(&instance, io).await;
        }
        let stdio = if options.tty {
            StdioSpec::Terminal { size: None }
        } else {
            StdioSpec::Pipes { stdin: io.stdin.is_some() }
        };
        let spec = ExecSpec { argv: options.command, stdio, ..ExecSpec::default() };
        let mut started = match instance.process.exec(spec).await {
            Ok(started) => started,
            Err(error) => return refused(io, &error).await,
        };
        let copies = copy_all(std::mem::take(&mut started.stdio), io.stdin, io.stdout, io.stderr);
        let session = &started.session;
        let exit = with_resizes(io.resize, |size| session.resize(size), async {
            let (exit, ()) = tokio::join!(session.wait(), copies);
            exit
        })
        .await;
        Ok(Exit { code: exit.code })
    }

    async fn dial(&self, pod: PodRef, port: u16) -> Result<Box<dyn Duplex>, Error> {
        let shown = self.pod(&pod)?;
        let link = shown.link.lock().clone();
        let link = link.ok_or_else(|| {
            Error::BadRequest(format!(
                "unable to forward port because pod {} is not running",
                pod.name
            ))
        })?;
        let failed = |e: &dyn std::fmt::Display| {
            Error::Internal(format!("connecting to port {port} of pod {}: {e}", pod.name))
        };
        let dialer = link.netns.dialer().map_err(|e| failed(&e))?;
        let to = |ip: IpAddr| SocketAddr::new(ip, port);
        match dialer.tcp(to(IpAddr::from([127, 0, 0, 1]))).await {
            Ok(stream) => Ok(Box::new(stream)),
            // Some programs listen on IPv6 alone.
            Err(error) => match dialer.tcp(to(IpAddr::from(std::net::Ipv6Addr::LOCALHOST))).await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(_) => Err(failed(&error)),
            },
        }
    }
}

impl PodStreams for Streams {
    fn logs(
        &self,
        pod: PodRef,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, io::Result<Bytes>>, Error>> {
        Box::pin(self.open_logs(pod, options))
    }

    fn exec(
        &self,
        pod: PodRef,
        options: ExecOptions,
        io: ExecIo,
    ) -> BoxFuture<'_, Result<Exit, Error>> {
        Box::pin(self.run_exec(pod, options, io))
    }

    fn connect(&self, pod: PodRef, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, Error>> {
        Box::pin(self.dial(pod, port))
    }
}

/// What a pod's status says of instances that ran before this node started.
pub fn remembered(pod: &Pod) -> HashMap<String, ShownContainer> {
    let status = pod.status.as_ref();
    let lists =
        status.into_iter().flat_map(|s| [&s.init_container_statuses, &s.container_statuses]);
    let each = lists.flatten().flatten().map(|c| {
        let shown = ShownContainer {
            restarts: u32::try_from(c.restart_count).unwrap_or(0),
            ever_started: c.container_id.is_some(),
            ..ShownContainer::default()
        };
        (c.name.clone(), shown)
    });
    each.collect()
}

/// The instance whose log is meant, and whether it is still written.
fn which_log(
    state: &ShownContainer,
    previous: bool,
    container: &str,
    pod: &str,
) -> Result<(u32, bool), Error> {
    if previous {
        return match state.restarts.checked_sub(1).filter(|_| state.ever_started) {
            Some(restart) => Ok((restart, false)),
            None => Err(Error::BadRequest(format!(
                "previous terminated container \"{container}\" in pod \"{pod}\" not found"
            ))),
        };
    }
    if !state.ever_started {
        let why = state.waiting.as_deref().unwrap_or("ContainerCreating");
        return Err(Error::BadRequest(format!(
            "container \"{container}\" in pod \"{pod}\" is waiting to start: {why}"
        )));
    }
    Ok((state.restarts, state.instance.is_some()))
}

/// Joins the client to a container that runs already.
async fn attach(instance: &Instance, io: ExecIo) -> Result<Exit, Error> {
    let mut output = instance.log.attach();
    let (mut stdout, mut stderr) = (io.stdout, io.stderr);
    let forward = async {
        while let Ok((stream, bytes)) = output.recv().await {
            let to = match stream {
                Stream::Stdout => &mut stdout,
                Stream::Stderr => &mut stderr,
            };
            if let Some(to) = to
                && (to.write_all(&bytes).await.is_err() || to.flush().await.is_err())
            {
                break;
            }
        }
    };
    let stdin = io.stdin.and_then(|client| Some((client, instance.stdin.lock().take()?)));
    let feed = async {
        if let Some((mut client, mut own)) = stdin {
            let _ = tokio::io::copy(&mut client, &mut own).await;
            // The next client may speak to the program, too.
            *instance.stdin.lock() = Some(own);
        }
        std::future::pending::<()>().await;
    };
    let process = &instance.process;
    let tty = instance.tty;
    let resize = move |size| {
        if tty {
            process.resize(size);
        }
    };
    let code = with_resizes(io.resize, resize, async {
        tokio::select! {
            exit = instance.process.wait() => exit.code,
            () = forward => 0,
            () = feed => 0,
        }
    })
    .await;
    Ok(Exit { code })
}

/// Tells the client why its command did not start, as runtimes do.
async fn refused(io: ExecIo, error: &ironsail_container::StartError) -> Result<Exit, Error> {
    let code = error.exit_code();
    let text = format!("{error}\n");
    if let Some(mut to) = io.stderr.or(io.stdout) {
        let _ = to.write_all(text.as_bytes()).await;
        let _ = to.shutdown().await;
        return Ok(Exit { code });
    }
    Err(Error::Internal(error.to_string()))
}

async fn copy_all(
    ends: StdioEnds,
    stdin: Option<Reader>,
    stdout: Option<Writer>,
    stderr: Option<Writer>,
) {
    let feed = async {
        if let (Some(mut from), Some(mut to)) = (stdin, ends.stdin) {
            let _ = tokio::io::copy(&mut from, &mut to).await;
            let _ = to.shutdown().await;
        }
    };
    // Input that never ends must not hold up a command that has.
    tokio::select! {
        ((), ()) = async { tokio::join!(drain(ends.stdout, stdout), drain(ends.stderr, stderr)) } => {}
        () = async { feed.await; std::future::pending::<()>().await } => {}
    }
}

async fn drain(from: Option<ironsail_container::Reader>, to: Option<Writer>) {
    let Some(mut from) = from else { return };
    match to {
        Some(mut to) => {
            if tokio::io::copy(&mut from, &mut to).await.is_err() {
                // The client is gone; the command may still write.
                let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
            }
            let _ = to.shutdown().await;
        }
        None => {
            let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
        }
    }
}

/// Runs `work` while passing on changes of the terminal's size.
async fn with_resizes<T>(
    mut sizes: mpsc::Receiver<ironsail_kubestream::pod::TerminalSize>,
    set: impl Fn(TerminalSize),
    work: impl Future<Output = T>,
) -> T {
    let resizes = async {
        while let Some(size) = sizes.recv().await {
            set(TerminalSize { columns: size.columns, rows: size.rows });
        }
        std::future::pending::<T>().await
    };
    tokio::select! {
        done = work => done,
        never = resizes => never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_that_is_meant() {
        let never =
            ShownContainer { waiting: Some("PodInitializing".into()), ..ShownContainer::default() };
        let error = which_log(&never, false, "c", "p").unwrap_err().to_string();
        assert_eq!(error, "container \"c\" in pod \"p\" is waiting to start: PodInitializing");
        let again = ShownContainer { restarts: 3, ever_started: true, ..ShownContainer::default() };
        assert_eq!(which_log(&again, false, "c", "p").unwrap(), (3, false));
        assert_eq!(which_log(&again, true, "c", "p").unwrap(), (2, false));
        let first = ShownContainer { ever_started: true, ..ShownContainer::default() };
        let error = which_log(&first, true, "c", "p").unwrap_err().to_string();
        assert_eq!(error, "previous terminated container \"c\" in pod \"p\" not found");
    }
}
