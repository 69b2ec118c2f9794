//! Everything that a container is started with, from its pod, image, volumes and environment.
//!
//! In come values, out comes the runtime's `ContainerSpec`. Apart from the files it writes into the
//! pod's own directory it does nothing.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ironsail_container::{
    Capabilities, ContainerSpec, Limits, Mount, MountSource, Placed, PodPids, RootSpec, StdioSpec,
    User,
};
use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};

use crate::env::expand::expand;
use crate::env::{self, Objects, Variables};
use crate::etc;
use crate::field::Facts;
use crate::image::{Image, Root};
use crate::network::Link;
use crate::quantity::Amount;
use crate::security::{self, Ids, ImageUser, Security};
use crate::volume::{Volumes, subpath};

use super::machine::{Fault, FaultKind};

/// The PATH of containers whose image and manifest name none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Where the image's directories of programs are inside, numbered. Their own paths on the host would not
/// do: a container's user may not be allowed to search the directories above.
const PROGRAMS: &str = "/opt/podlet";
/// Where programs leave their last words unless the manifest says otherwise.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// What a container is made from.
pub struct Launch<'a> {
    pub pod: &'a Pod,
    pub container: &'a Container,
    pub id: String,
    pub image: &'a Image,
    pub volumes: &'a Volumes,
    pub objects: &'a dyn Objects,
    pub services: &'a BTreeMap<String, String>,
    pub facts: Facts<'a>,
    pub link: &'a Link,
    pub pids: Option<PodPids>,
    pub node: &'a str,
    pub domain: &'a str,
    pub masked: &'a [PathBuf],
    pub ids: &'a Ids,
    pub files: PodFiles<'a>,
}

/// Files of the pod's own directory that are bound into every container.
#[derive(Clone, Copy)]
pub struct PodFiles<'a> {
    pub hosts: &'a Path,
    pub resolv_conf: &'a Path,
    pub hostname: &'a Path,
    pub termination: &'a Path,
}

/// Writes the files that all containers of a pod share.
pub fn write_shared(files: PodFiles<'_>, texts: [&str; 3]) -> std::io::Result<()> {
    for (path, text) in [files.hosts, files.resolv_conf, files.hostname].into_iter().zip(texts) {
        // Written over in place: containers hold the file, not its name.
        if fs::read_to_string(path).ok().as_deref() != Some(text) {
            fs::write(path, text)?;
        }
    }
    Ok(())
}

fn config(message: impl std::fmt::Display) -> Fault {
    Fault { kind: FaultKind::Config, message: message.to_string() }
}

fn create(message: impl std::fmt::Display) -> Fault {
    Fault { kind: FaultKind::Create, message: message.to_string() }
}

impl Launch<'_> {
    pub fn spec(&self) -> Result<ContainerSpec, Fault> {
        let vars =
            env::build(self.container, &self.facts, self.objects, self.services).map_err(config)?;
        let security = self.security()?;
        let argv =
            env::command_line(self.container, &self.image.entrypoint, &self.image.cmd, &vars);
        if argv.is_empty() {
            return Err(create("no command specified"));
        }
        let (root, mut placed) = self.root();
        placed.extend(
            self.image
                .files
                .iter()
                .map(|(inside, host)| Placed { host: host.clone(), inside: inside.clone() }),
        );
        let hostname = etc::uts_name(self.pod, self.node, self.domain);
        let netns = self.link.netns.as_fd().try_clone_to_owned().map_err(create)?;
        let tty = self.container.tty == Some(true);
        let stdin = self.container.stdin == Some(true);
        let mut spec = ContainerSpec::new(self.id.clone(), root, argv);
        spec.placed = placed;
        spec.mounts = self.mounts(&vars, &security)?;
        spec.masked = if self.image.root == Root::Host { self.masked.to_vec() } else { Vec::new() };
        spec.netns = Some(Arc::new(netns));
        spec.shared_pids = self.pids.clone();
        spec.env = self.environment(&vars, &hostname);
        spec.hostname = hostname;
        spec.cwd = self.cwd();
        spec.limits = self.limits();
        spec.read_only_root = security.read_only_root;
        spec.no_new_privs = security.no_new_privileges;
        spec.capabilities = Capabilities {
            add: security.add,
            drop: security.drop,
            privileged: security.privileged,
        };
        spec.user = User { uid: security.uid, gid: Some(security.gid), groups: security.groups };
        spec.stdio =
            if tty { StdioSpec::Terminal { size: None } } else { StdioSpec::Pipes { stdin } };
        Ok(spec)
    }

    fn security(&self) -> Result<Security, Fault> {
        let root = match &self.image.root {
            Root::Host => Path::new("/"),
            Root::Dir(dir) => dir.as_path(),
        };
        let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
        let user = match self.image.user.as_deref() {
            None => ImageUser::default(),
            user => {
                ImageUser::parse(user, &read("etc/passwd"), &read("etc/group")).map_err(create)?
            }
        };
        let security = security::merge(self.pod, self.container, user).map_err(config)?;
        self.ids.check(&security).map_err(config)?;
        Ok(security)
    }

    /// The root, and the image's directories of programs.
    fn root(&self) -> (RootSpec, Vec<Placed>) {
        let root = match &self.image.root {
            Root::Host => RootSpec::Host,
            Root::Dir(dir) => RootSpec::Dir(dir.clone()),
        };
        let place = |(own, inside): (&PathBuf, PathBuf)| {
            let host = fs::canonicalize(own).unwrap_or_else(|_| own.clone());
            Placed { host, inside }
        };
        (root, self.image.path.iter().zip(self.programs()).map(place).collect())
    }

    /// Where the image's directories of programs are inside.
    fn programs(&self) -> impl Iterator<Item = PathBuf> {
        (0..self.image.path.len()).map(|n| Path::new(PROGRAMS).join(n.to_string()))
    }

    fn cwd(&self) -> PathBuf {
        let own =
            self.container.working_dir.as_deref().filter(|d| !d.is_empty()).map(PathBuf::from);
        own.or_else(|| self.image.workdir.clone()).unwrap_or_else(|| PathBuf::from("/"))
    }

    /// The manifest's variables over the image's, over what every container has.
    fn environment(&self, vars: &Variables, hostname: &str) -> Vec<(String, String)> {
        let mut all = Variables::default();
        let image_path = self.image.env.get("PATH").map_or(PATH, String::as_str);
        let programs = self.programs().map(|p| p.display().to_string());
        let path: Vec<String> = programs.chain([image_path.to_owned()]).collect();
        all.set("PATH", path.join(":"));
        all.set("HOSTNAME", hostname.to_owned());
        for (name, value) in self.image.env.iter().filter(|(name, _)| *name != "PATH") {
            all.set(name, value.clone());
        }
        for (name, value) in vars.iter() {
            all.set(name, value.to_owned());
        }
        all.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn limits(&self) -> Limits {
        let resources = self.container.resources.as_ref();
        let amount = |map: Option<&BTreeMap<String, _>>, name: &str| {
            map.and_then(|m| m.get(name)).and_then(Amount::of)
        };
        let positive = |n: i64| u64::try_from(n).ok().filter(|n| *n > 0);
        let limits = resources.and_then(|r| r.limits.as_ref());
        let requests = resources.and_then(|r| r.requests.as_ref());
        Limits {
            memory_bytes: amount(limits, "memory").and_then(|a| positive(a.units())),
            cpu_millis: amount(limits, "cpu").and_then(|a| positive(a.millis())),
            cpu_request_millis: amount(requests, "cpu").and_then(|a| positive(a.millis())),
            pids: None,
        }
    }

    fn mounts(&self, vars: &Variables, security: &Security) -> Result<Vec<Mount>, Fault> {
        let mut mounts = Vec::new();
        for mount in self.container.volume_mounts.iter().flatten() {
            mounts.push(self.volume_mount(mount, vars)?);
        }
        let message = self.container.termination_message_path.as_deref().unwrap_or(TERMINATION_LOG);
        let own = [
            ("/etc/hosts", self.files.hosts, security.read_only_root),
            ("/etc/resolv.conf", self.files.resolv_conf, security.read_only_root),
            ("/etc/hostname", self.files.hostname, security.read_only_root),
            (message, self.files.termination, false),
        ];
        for (inside, host, read_only) in own {
            let inside = PathBuf::from(inside);
            // A volume that the manifest puts there wins.
            if inside.is_absolute() && !mounts.iter().any(|m| m.inside == inside) {
                let source = MountSource::Bind { host: host.to_owned(), recursive: false };
                mounts.push(Mount { inside, source, read_only });
            }
        }
        Ok(mounts)
    }

    fn volume_mount(&self, mount: &VolumeMount, vars: &Variables) -> Result<Mount, Fault> {
        let place = self.volumes.place(&mount.name).ok_or_else(|| {
            config(format!(
                "cannot find volume \"{}\" to mount into container \"{}\"",
                mount.name, self.container.name
            ))
        })?;
        let sub = match (mount.sub_path.as_deref(), mount.sub_path_expr.as_deref()) {
            (_, Some(expr)) if !expr.is_empty() => Some(self.expand_sub_path(expr, vars)?),
            (Some(path), _) if !path.is_empty() => Some(path.to_owned()),
            _ => None,
        };
        let host = match sub {
            None => place.path.clone(),
            Some(sub) => subpath::resolve(&place.path, &sub, !place.read_only).map_err(|e| {
                config(format!(
                    "failed to prepare subPath for volumeMount \"{}\" of container \"{}\": {e}",
                    mount.name, self.container.name
                ))
            })?,
        };
        Ok(Mount {
            inside: PathBuf::from("/").join(&mount.mount_path),
            source: MountSource::Bind { host, recursive: place.of_host },
            read_only: place.read_only || mount.read_only == Some(true),
        })
    }

    fn expand_sub_path(&self, expr: &str, vars: &Variables) -> Result<String, Fault> {
        let missing = std::cell::Cell::new(false);
        let text = expand(expr, |name| {
            let value = vars.get(name).map(str::to_owned);
            missing.set(missing.get() || value.is_none());
            value
        });
        if missing.get() {
            return Err(config(format!(
                "failed to expand subPathExpr {expr:?}: a variable is not set"
            )));
        }
        Ok(text)
    }
}

/// The address that probes and hooks go to.
pub fn main_address(link: &Link) -> IpAddr {
    link.addresses.first().copied().unwrap_or(IpAddr::from([127, 0, 0, 1]))
}
