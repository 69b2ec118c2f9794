//! What a pod has before its first container: objects, volumes, network, shared files.
//!
//! In comes a pod; out comes a [`Sandbox`], after as many attempts as it takes. What holds it up is
//! told as events. Giving up is asked for by a token, never by dropping the task: a network that is
//! half made could not be undone.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ironsail_container::PodPids;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cni::{self, Attachment, Cni};
use crate::context::{Context, read_or_empty};
use crate::etc;
use crate::event::{self, Severity};
use crate::field::{Facts, containers};
use crate::network::{Attach, Link};
use crate::object::Held;
use crate::security;
use crate::volume::{Means, Volumes};

use super::launch::{self, PodFiles};
use super::unsupported;

pub struct Sandbox {
    pub link: Link,
    pub objects: Arc<Held>,
    pub volumes: tokio::sync::Mutex<Volumes>,
    pub pids: Option<PodPids>,
    pub directory: PathBuf,
}

impl Sandbox {
    pub fn hosts(&self) -> PathBuf {
        self.directory.join("etc-hosts")
    }

    pub fn resolv_conf(&self) -> PathBuf {
        self.directory.join("resolv.conf")
    }

    pub fn hostname(&self) -> PathBuf {
        self.directory.join("hostname")
    }

    /// Brings the files of all volumes up to date.
    pub async fn refresh(&self, ctx: &Context, pod: &Pod) -> Result<(), String> {
        let mut volumes = self.volumes.lock().await;
        refresh(ctx, pod, &mut volumes, &self.objects, &self.link).await
    }
}

async fn refresh(
    ctx: &Context,
    pod: &Pod,
    volumes: &mut Volumes,
    objects: &Held,
    link: &Link,
) -> Result<(), String> {
    let facts = Facts {
        pod,
        pod_ips: &link.addresses,
        host_ips: &ctx.host_ips,
        allocatable: &ctx.allocatable,
    };
    let stamp = ctx.stamp();
    let means = Means { objects, tokens: &*ctx.tokens, facts, ids: &ctx.config.ids, stamp: &stamp };
    volumes.refresh(pod, means).await.map_err(|e| e.to_string())
}

/// Between attempts, unless something changes before.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Makes the sandbox; `None` if told to give up.
pub async fn prepare(
    ctx: Arc<Context>,
    pod: Arc<Pod>,
    cancel: CancellationToken,
) -> Option<Arc<Sandbox>> {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let about = event::about(&pod, None);
    let objects = Arc::new(ctx.objects.hold(&pod));
    let directory = ctx.pod_directory(&uid);
    let mut volumes = Volumes::new(directory.join("volumes"), ctx.mounter.clone());
    let ignored = unsupported::fields(&pod, ctx.cni.is_some());
    if !ignored.is_empty() {
        let message = format!("podlet does not act on {}", ignored.join(", "));
        ctx.recorder.note(about.clone(), Severity::Warning, "NotSupported", message);
    }
    let mut wait = FIRST_WAIT;
    loop {
        tokio::select! {
            () = objects.known() => {}
            () = cancel.cancelled() => return None,
        }
        let (reason, message) = match attempt(&ctx, &pod, &mut volumes, &objects).await {
            Ok((link, pids)) => {
                let volumes = tokio::sync::Mutex::new(volumes);
                return Some(Arc::new(Sandbox { link, objects, volumes, pids, directory }));
            }
            Err(failure) => failure,
        };
        ctx.recorder.note(about.clone(), Severity::Warning, reason, message);
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(LONGEST_WAIT),
            () = objects.changed.notified() => {}
            () = cancel.cancelled() => return None,
        }
    }
}

type Failure = (&'static str, String);

async fn attempt(
    ctx: &Context,
    pod: &Pod,
    volumes: &mut Volumes,
    objects: &Held,
) -> Result<(Link, Option<PodPids>), Failure> {
    // Volumes that show the pod's address are written again once it is known.
    let nowhere = Link { netns: ctx.network.node_netns(), addresses: Vec::new() };
    refresh(ctx, pod, volumes, objects, &nowhere).await.map_err(|e| ("FailedMount", e))?;
    let failed = |error: String| {
        ("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {error}"))
    };
    let link = connect(ctx, pod).await.map_err(failed)?;
    refresh(ctx, pod, volumes, objects, &link).await.map_err(|e| ("FailedMount", e))?;
    write_files(ctx, pod, &link).map_err(|e| failed(e.to_string()))?;
    let share = pod.spec.as_ref().is_some_and(|s| s.share_process_namespace == Some(true));
    let pids =
        if share { ctx.runtime.pod_pids().await.map_err(|e| failed(e.to_string()))? } else { None };
    Ok((link, pids))
}

fn on_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|s| s.host_network == Some(true))
}

/// What podlet cannot give a pod is said, not left out in silence.
fn refuse_unsupported(pod: &Pod) -> Result<(), String> {
    let spec = pod.spec.as_ref();
    let asks =
        [("hostPID", spec.and_then(|s| s.host_pid)), ("hostIPC", spec.and_then(|s| s.host_ipc))];
    match asks.iter().find(|(_, asked)| *asked == Some(true)) {
        Some((what, _)) => Err(format!("{what} is not supported by podlet")),
        None => Ok(()),
    }
}

async fn connect(ctx: &Context, pod: &Pod) -> Result<Link, String> {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    refuse_unsupported(pod)?;
    if on_host_network(pod) {
        return ctx.network.attach(uid, Attach::Host).await;
    }
    let settings = security::sysctls(pod, &ctx.config.ids)?;
    let how = if ctx.cni.is_some() { Attach::Bare } else { Attach::Wired };
    let mut link = ctx.network.attach(uid, how).await?;
    if let Some(cni) = &ctx.cni {
        link.addresses = add(cni, &attachment(ctx, pod, Some(&link))).await?;
    }
    let netns = link.netns.clone();
    let set = tokio::task::spawn_blocking(move || {
        let paths: Vec<(String, &str)> =
            settings.iter().map(|(k, v)| (k.replace('.', "/"), v.as_str())).collect();
        let pairs: Vec<(&str, &str)> = paths.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        netns.set_sysctls(&pairs)
    });
    set.await.map_err(|e| e.to_string())?.map_err(|e| crate::network::chain(&e))?;
    Ok(link)
}

/// Runs the plugins for a pod.
async fn add(cni: &Cni, pod: &Attachment) -> Result<Vec<IpAddr>, String> {
    let addresses = match cni.add(pod).await {
        Ok(addresses) => addresses,
        Err(error) => {
            // A chain that broke in the middle is undone, so that the next attempt starts clean.
            if let Err(error) = cni.del(pod).await {
                tracing::debug!(%error, "undoing a failed CNI ADD");
            }
            return Err(format!("plugin failed: {error}"));
        }
    };
    // A complaint, not a failure: some plugins check more than they were asked to make.
    if let Err(error) = cni.check(pod).await {
        tracing::warn!(%error, pod = pod.name, "CNI CHECK failed");
    }
    Ok(addresses)
}

fn attachment(ctx: &Context, pod: &Pod, link: Option<&Link>) -> Attachment {
    let meta = &pod.metadata;
    let ports = containers(pod).flat_map(|c| c.ports.iter().flatten()).filter_map(|p| {
        let host = p.host_port.filter(|h| *h > 0)?;
        let protocol = p.protocol.as_deref().unwrap_or("TCP").to_lowercase();
        Some(json!({"hostPort": host, "containerPort": p.container_port, "protocol": protocol, "hostIP": p.host_ip.clone().unwrap_or_default()}))
    });
    let text = |v: &Option<String>| v.clone().unwrap_or_default();
    Attachment {
        id: text(&meta.uid),
        namespace: text(&meta.namespace),
        name: text(&meta.name),
        uid: text(&meta.uid),
        netns: link.map(|link| link.netns.clone()),
        port_mappings: Value::Array(ports.collect()),
        ip_ranges: cni::ip_ranges(&ctx.config.node.pod_cidrs),
    }
}

fn write_files(ctx: &Context, pod: &Pod, link: &Link) -> std::io::Result<()> {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let directory = ctx.pod_directory(uid);
    std::fs::create_dir_all(&directory)?;
    let node = &ctx.config.node.name;
    let domain = &ctx.config.dns.domain;
    let node_hosts =
        if on_host_network(pod) { read_or_empty(&ctx.config.hosts) } else { String::new() };
    let hosts = etc::hosts(pod, &link.addresses, node, domain, &node_hosts);
    let resolv = etc::resolv_conf(pod, &ctx.config.dns, &read_or_empty(&ctx.config.resolv_conf));
    let hostname = format!("{}\n", etc::uts_name(pod, node, domain));
    let (a, b, c) =
        (directory.join("etc-hosts"), directory.join("resolv.conf"), directory.join("hostname"));
    let files = PodFiles { hosts: &a, resolv_conf: &b, hostname: &c, termination: &c };
    launch::write_shared(files, [&hosts, &resolv, &hostname])
}

/// Takes the pod off the network and removes its files, whether or not it ever had a sandbox.
pub async fn remove(ctx: &Arc<Context>, pod: &Pod, sandbox: Option<Arc<Sandbox>>) {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    if !on_host_network(pod) {
        // Also without a sandbox: an earlier run, or an attempt that failed later on, may have added it.
        let link = sandbox.as_ref().map(|sandbox| &sandbox.link);
        if let Some(cni) = ctx.cni.as_ref().filter(|cni| cni.is_added(&uid))
            && let Err(error) = cni.del(&attachment(ctx, pod, link)).await
        {
            tracing::warn!(%error, pod = pod.metadata.name, "CNI DEL failed");
        }
        // The kernel takes its time to unplug a link. Nobody needs to wait for it: no process is
        // left in the namespace, and the address is not given away before it is gone.
        let (ctx, uid) = (ctx.clone(), uid.clone());
        tokio::spawn(async move {
            if let Err(error) = ctx.network.detach(&uid).await {
                tracing::warn!(%error, uid, "cannot take a pod off the network");
            }
        });
    }
    if let Some(sandbox) = sandbox {
        sandbox.volumes.lock().await.remove();
    }
    let directory = ctx.pod_directory(&uid);
    if let Err(error) = std::fs::remove_dir_all(&directory)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path = %directory.display(), %error, "cannot remove a pod's files");
    }
}
