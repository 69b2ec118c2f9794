//! The volumes of one pod: made before its containers start, kept fresh, removed with it.
//!
//! In come the pod, its objects and tokens; out come directories on the host to bind into
//! containers. A volume type that podlet does not have is an error that says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection, Volume, VolumeMount};
use tokio::time::Instant;

use crate::env::Objects;
use crate::field::{Facts, containers};
use crate::quantity::Amount;
use crate::security::{self, Ids};

pub mod atomic;
pub mod host;
pub mod payload;
pub mod subpath;
pub mod token;

use payload::{Source, TokenOwner};
use token::{TokenSource, Tokens};

/// Mounts memory on directories, in the mount namespace that containers are built from.
pub trait Mounter: Send + Sync + 'static {
    fn tmpfs(&self, at: &Path, size: Option<u64>) -> io::Result<()>;
    fn unmount(&self, at: &Path) -> io::Result<()>;
}

/// Mounts in this process's own mount namespace, which must be private.
#[derive(Clone, Copy, Debug)]
pub struct OwnNamespace {
    /// The size of a memory volume whose manifest names none.
    pub default_bytes: u64,
}

impl Mounter for OwnNamespace {
    fn tmpfs(&self, at: &Path, size: Option<u64>) -> io::Result<()> {
        ironsail_sys::mount::tmpfs(at, size.unwrap_or(self.default_bytes), 0o777, false)
    }

    fn unmount(&self, at: &Path) -> io::Result<()> {
        ironsail_sys::mount::detach(at)
    }
}

/// Why a volume is not there yet. The text is what the FailedMount event says.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("MountVolume.SetUp failed for volume \"{volume}\" : {reason}")]
pub struct Error {
    pub volume: String,
    pub reason: String,
}

/// Where a volume lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub path: PathBuf,
    /// Files of the API are never written by pods.
    pub read_only: bool,
    /// The host's own path: what is mounted below it comes along.
    pub of_host: bool,
}

/// What volumes are made with.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub objects: &'a dyn Objects,
    pub tokens: &'a dyn TokenSource,
    pub facts: Facts<'a>,
    /// Who can own files. Containers with other ids are refused when they are to start.
    pub ids: &'a Ids,
    /// Names the next version of a volume's files; differs from call to call.
    pub stamp: &'a str,
}

/// Where in a volume containers mount others, as paths relative to it.
fn nested(pod: &Pod, volume: &str) -> BTreeSet<PathBuf> {
    let spec = pod.spec.iter();
    let all = spec.flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten()));
    let mut points = BTreeSet::new();
    for container in all {
        let mounts = container.volume_mounts.as_deref().unwrap_or_default();
        let whole = |m: &&VolumeMount| m.sub_path.is_none() && m.sub_path_expr.is_none();
        for outer in mounts.iter().filter(whole).filter(|m| m.name == volume) {
            for inner in mounts.iter().filter(whole) {
                let below = Path::new(&inner.mount_path).strip_prefix(&outer.mount_path);
                let plain = |p: &&Path| p.components().all(|c| matches!(c, Component::Normal(_)));
                let below = below.ok().filter(|p| !p.as_os_str().is_empty()).filter(plain);
                points.extend(below.map(Path::to_path_buf));
            }
        }
    }
    points
}

/// The volumes of one pod.
pub struct Volumes {
    directory: PathBuf,
    places: BTreeMap<String, Place>,
    memory: Vec<PathBuf>,
    tokens: Tokens,
    mounter: Arc<dyn Mounter>,
}

impl Volumes {
    /// `directory` holds the volumes of this pod and nothing else.
    pub fn new(directory: PathBuf, mounter: Arc<dyn Mounter>) -> Self {
        Self {
            directory,
            places: BTreeMap::new(),
            memory: Vec::new(),
            tokens: Tokens::default(),
            mounter,
        }
    }

    pub fn place(&self, volume: &str) -> Option<&Place> {
        self.places.get(volume)
    }

    /// Makes what is missing and brings all files up to date. May be called again after an error,
    /// and later whenever something the files show may have changed.
    pub async fn refresh(&mut self, pod: &Pod, means: Means<'_>) -> Result<(), Error> {
        let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_deref()).unwrap_or_default();
        for volume in volumes {
            let failed = |reason: String| Error { volume: volume.name.clone(), reason };
            match classify(volume).map_err(failed)? {
                Kind::Empty { memory, size } => {
                    let group = fs_group(pod, means.ids);
                    self.empty_dir(&volume.name, memory, size, group).map_err(failed)?;
                }
                Kind::Host { path, kind } => {
                    host::check(&path, &kind).map_err(|e| failed(e.to_string()))?;
                    self.places.insert(
                        volume.name.clone(),
                        Place { path, read_only: false, of_host: true },
                    );
                }
                Kind::Files(source) => {
                    self.tokens
                        .refresh(pod, projections(&source), means.tokens)
                        .await
                        .map_err(failed)?;
                    self.write_files(pod, &volume.name, &source, means).map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// When a token is to be renewed.
    pub fn due(&self) -> Option<Instant> {
        self.tokens.due()
    }

    fn empty_dir(
        &mut self,
        name: &str,
        memory: bool,
        size: Option<u64>,
        group: Option<u32>,
    ) -> Result<(), String> {
        if self.places.contains_key(name) {
            return Ok(());
        }
        let path = self.make(name)?;
        let failed = |what: &str, e: io::Error| format!("{what} {}: {e}", path.display());
        if memory {
            self.mounter.tmpfs(&path, size).map_err(|e| failed("mounting memory on", e))?;
            self.memory.push(path.clone());
        }
        let mode = if group.is_some() { 0o2777 } else { 0o777 };
        if group.is_some() {
            chown(&path, None, group).map_err(|e| failed("changing the group of", e))?;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .map_err(|e| failed("setting the mode of", e))?;
        self.places.insert(name.to_owned(), Place { path, read_only: false, of_host: false });
        Ok(())
    }

    fn write_files(
        &mut self,
        pod: &Pod,
        name: &str,
        source: &Source,
        means: Means<'_>,
    ) -> Result<(), String> {
        let group = fs_group(pod, means.ids);
        let user = single_user(pod).filter(|id| means.ids.users.contains(*id));
        let owner = TokenOwner { user, group };
        let tokens = |p: &ServiceAccountTokenProjection| self.tokens.get(p);
        let payload = payload::build(source, &means.facts, means.objects, &tokens, owner)
            .map_err(|e| e.to_string())?;
        let path = self.make(name)?;
        atomic::write(&path, &payload, group, means.stamp)
            .map_err(|e| crate::network::chain(&e))?;
        // A container cannot make them: it sees this volume read-only.
        for point in nested(pod, name) {
            let point = path.join(point);
            fs::create_dir_all(&point).map_err(|e| format!("making {}: {e}", point.display()))?;
        }
        self.places.insert(name.to_owned(), Place { path, read_only: true, of_host: false });
        Ok(())
    }

    fn make(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.directory.join(name);
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(&path);
        made.map_err(|e| format!("making {}: {e}", path.display()))?;
        Ok(path)
    }

    /// Unmounts and removes everything.
    pub fn remove(&mut self) {
        self.unmount();
        self.places.clear();
        if let Err(error) = fs::remove_dir_all(&self.directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.directory.display(), %error, "cannot remove a pod's volumes");
        }
    }
}

impl Volumes {
    fn unmount(&mut self) {
        for path in self.memory.drain(..) {
            if let Err(error) = self.mounter.unmount(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot unmount a memory volume");
            }
        }
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        self.unmount();
    }
}

enum Kind {
    Empty { memory: bool, size: Option<u64> },
    Host { path: PathBuf, kind: String },
    Files(Source),
}

fn classify(volume: &Volume) -> Result<Kind, String> {
    if let Some(empty) = &volume.empty_dir {
        let size = empty.size_limit.as_ref().and_then(Amount::of).map(Amount::units);
        let size = size.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
        return match empty.medium.as_deref().unwrap_or_default() {
            "" => Ok(Kind::Empty { memory: false, size }),
            "Memory" => Ok(Kind::Empty { memory: true, size }),
            other => Err(format!("emptyDir medium {other} is not supported by podlet")),
        };
    }
    if let Some(host) = &volume.host_path {
        let kind = host.type_.clone().unwrap_or_default();
        return Ok(Kind::Host { path: PathBuf::from(&host.path), kind });
    }
    if let Some(source) = &volume.config_map {
        return Ok(Kind::Files(Source::ConfigMap(source.clone())));
    }
    if let Some(source) = &volume.secret {
        return Ok(Kind::Files(Source::Secret(source.clone())));
    }
    if let Some(source) = &volume.downward_api {
        return Ok(Kind::Files(Source::Downward(source.clone())));
    }
    if let Some(source) = &volume.projected {
        return Ok(Kind::Files(Source::Projected(source.clone())));
    }
    let named = serde_json::to_value(volume).ok();
    let kind = named.as_ref().and_then(|v| v.as_object()?.keys().find(|k| *k != "name").cloned());
    match kind {
        // Kubernetes takes a volume without a source for an empty directory.
        None => Ok(Kind::Empty { memory: false, size: None }),
        Some(kind) => Err(format!("volume type {kind} is not supported by podlet")),
    }
}

fn projections(source: &Source) -> Vec<&ServiceAccountTokenProjection> {
    match source {
        Source::Projected(p) => {
            p.sources.iter().flatten().filter_map(|s| s.service_account_token.as_ref()).collect()
        }
        _ => Vec::new(),
    }
}

/// The group files are given to, if the pod asks for one that there is.
fn fs_group(pod: &Pod, ids: &Ids) -> Option<u32> {
    security::fs_group(pod).filter(|id| ids.groups.contains(*id))
}

/// The user that all containers run as, if the manifest names one and the same for all.
fn single_user(pod: &Pod) -> Option<u32> {
    let of_pod = pod.spec.as_ref()?.security_context.as_ref().and_then(|c| c.run_as_user);
    let mut users =
        containers(pod).map(|c| c.security_context.as_ref().and_then(|s| s.run_as_user).or(of_pod));
    let first = users.next()??;
    users.all(|u| u == Some(first)).then(|| u32::try_from(first).ok()).flatten()
}

#[cfg(test)]
mod tests;
