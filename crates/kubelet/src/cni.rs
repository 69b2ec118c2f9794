//! CNI: the configured plugin chain, run for each pod as a real node does.
//!
//! In come the first network configuration of a directory and a pod's namespace; out come the
//! addresses that the last plugin reports. Plugins run inside the node's network namespace and find
//! the pod's by a path. What a plugin says on failure is passed on word for word.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use ironsail_sys::netns::Netns;
use serde_json::{Value, json};

pub mod conf;

use conf::NetworkList;

/// Where configurations and plugins are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub conf_dir: PathBuf,
    pub bin_dirs: Vec<PathBuf>,
    /// Results are kept here for CHECK and DEL, through restarts.
    pub cache_dir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Conf(#[from] conf::Error),
    #[error("failed to find plugin \"{plugin}\" in path {path:?}")]
    NoPlugin { plugin: String, path: Vec<PathBuf> },
    #[error("plugin type=\"{plugin}\" name=\"{network}\" failed ({command}): {message}")]
    Plugin { plugin: String, network: String, command: &'static str, message: String },
    #[error("plugin type=\"{plugin}\" did not end within {} s", TIMEOUT.as_secs())]
    Timeout { plugin: String },
    #[error("keeping the result of {id}: {source}")]
    Cache { id: String, source: std::io::Error },
}

/// A plugin that hangs must not hang the pod for ever.
const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_OUTPUT: usize = 1 << 20;
const IFNAME: &str = "eth0";

/// A pod, as plugins are told of it.
#[derive(Clone, Debug)]
pub struct Attachment {
    pub id: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// `None` for a pod whose namespace is gone.
    pub netns: Option<Netns>,
    /// Runtime configuration for plugins that declare the capability.
    pub port_mappings: Value,
    /// The same for plugins that take addresses from the node's share.
    pub ip_ranges: Value,
}

/// Ranges as plugins read them: one set of alternatives for each family.
pub fn ip_ranges(cidrs: &[String]) -> Value {
    cidrs.iter().map(|cidr| json!([{"subnet": cidr}])).collect()
}

/// Runs the plugin chain of one node.
pub struct Cni {
    config: Config,
    node: Netns,
}

impl Cni {
    pub fn new(config: Config, node: Netns) -> Self {
        Self { config, node }
    }

    /// Adds the pod to the network and returns its addresses, the main one first.
    pub async fn add(&self, pod: &Attachment) -> Result<Vec<IpAddr>, Error> {
        // What a run that was killed left is undone first: plugins refuse to add a pod twice.
        if self.is_added(&pod.id) {
            self.del(pod).await?;
        }
        let list = conf::first(&self.config.conf_dir)?;
        let mut result = None;
        for plugin in &list.plugins {
            let input = list.input(plugin, result.as_ref(), pod);
            let output = self.call("ADD", &list, plugin, &input, pod).await?;
            result = Some(output);
        }
        let result = result.unwrap_or_else(|| json!({}));
        let owner = json!({"namespace": pod.namespace, "name": pod.name, "uid": pod.uid});
        let kept = json!({"config": list.to_json(), "result": result, "pod": owner});
        let failed = |source| Error::Cache { id: pod.id.clone(), source };
        std::fs::create_dir_all(&self.config.cache_dir).map_err(failed)?;
        std::fs::write(self.cache(&pod.id), kept.to_string()).map_err(failed)?;
        Ok(conf::addresses(&result))
    }

    /// Asks the plugins whether the pod is still as they made it.
    pub async fn check(&self, pod: &Attachment) -> Result<(), Error> {
        let Some((list, result)) = self.kept(&pod.id) else { return Ok(()) };
        if list.disable_check || list.version_below((0, 4, 0)) {
            return Ok(());
        }
        for plugin in &list.plugins {
            let input = list.input(plugin, Some(&result), pod);
            self.call("CHECK", &list, plugin, &input, pod).await?;
        }
        Ok(())
    }

    /// Takes the pod off the network, in reverse order. Every plugin is asked, whatever the others
    /// say; the first error is told.
    pub async fn del(&self, pod: &Attachment) -> Result<(), Error> {
        let (list, result) = match self.kept(&pod.id) {
            Some((list, result)) => (list, Some(result)),
            None => (conf::first(&self.config.conf_dir)?, None),
        };
        let mut outcome = Ok(());
        for plugin in list.plugins.iter().rev() {
            let input = list.input(plugin, result.as_ref(), pod);
            if let Err(error) = self.call("DEL", &list, plugin, &input, pod).await {
                outcome = outcome.and(Err(error));
            }
        }
        let _ = std::fs::remove_file(self.cache(&pod.id));
        outcome
    }

    /// Takes pods off the network that a killed run left there: all but those in `known`.
    pub async fn sweep(&self, known: &BTreeSet<String>) {
        let Ok(entries) = std::fs::read_dir(&self.config.cache_dir) else { return };
        // All at once: pods that come while this runs are no business of it.
        let entries: Vec<_> = entries.flatten().collect();
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(id) = name.strip_suffix(".json").filter(|id| !known.contains(*id)) else {
                continue;
            };
            let kept: Value = std::fs::read(entry.path())
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok())
                .unwrap_or_default();
            let text = |key: &str| kept["pod"][key].as_str().unwrap_or_default().to_owned();
            let pod = Attachment {
                id: id.to_owned(),
                namespace: text("namespace"),
                name: text("name"),
                uid: text("uid"),
                netns: None,
                port_mappings: json!([]),
                ip_ranges: json!([]),
            };
            if let Err(error) = self.del(&pod).await {
                tracing::warn!(%error, id, "CNI DEL of a pod that is no more failed");
            }
        }
    }

    /// Whether the pod was added and not deleted since, be it by an earlier run.
    pub fn is_added(&self, id: &str) -> bool {
        self.cache(id).exists()
    }

    fn cache(&self, id: &str) -> PathBuf {
        self.config.cache_dir.join(format!("{id}.json"))
    }

    fn kept(&self, id: &str) -> Option<(NetworkList, Value)> {
        let text = std::fs::read(self.cache(id)).ok()?;
        let kept: Value = serde_json::from_slice(&text).ok()?;
        Some((NetworkList::parse(&kept["config"]).ok()?, kept["result"].clone()))
    }

    async fn call(
        &self,
        command: &'static str,
        list: &NetworkList,
        plugin: &Value,
        input: &Value,
        pod: &Attachment,
    ) -> Result<Value, Error> {
        let name = plugin["type"].as_str().unwrap_or_default().to_owned();
        let program = self.find(&name)?;
        let failed = |message: String| Error::Plugin {
            plugin: name.clone(),
            network: list.name.clone(),
            command,
            message,
        };
        let args = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={};K8S_POD_UID={}",
            pod.namespace, pod.name, pod.id, pod.uid
        );
        let path = std::env::join_paths(&self.config.bin_dirs).unwrap_or_default();
        let mut process = ironsail_sys::exec::async_command(&program);
        process
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", &pod.id)
            .env("CNI_NETNS", pod.netns.as_ref().map(Netns::path).unwrap_or_default())
            .env("CNI_IFNAME", IFNAME)
            .env("CNI_ARGS", args)
            .env("CNI_PATH", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let handle = tokio::runtime::Handle::current();
        let node = self.node.clone();
        // The child is made on a thread that has entered the node's namespace and inherits it.
        let spawned = tokio::task::spawn_blocking(move || {
            node.run(|| {
                let _runtime = handle.enter();
                process.spawn()
            })
        });
        let mut child = match spawned.await {
            Ok(Ok(Ok(child))) => child,
            Ok(Ok(Err(error))) => {
                return Err(failed(format!("starting {}: {error}", program.display())));
            }
            Ok(Err(error)) => return Err(failed(crate::network::chain(&error))),
            Err(error) => return Err(failed(error.to_string())),
        };
        let stdin = child.stdin.take();
        let bytes = input.to_string();
        let feed = async move {
            if let Some(mut pipe) = stdin {
                // A plugin may end without reading; its exit tells the rest.
                let _ = tokio::io::AsyncWriteExt::write_all(&mut pipe, bytes.as_bytes()).await;
            }
        };
        let finished =
            tokio::time::timeout(TIMEOUT, async { tokio::join!(feed, child.wait_with_output()).1 })
                .await;
        let output = match finished {
            Err(_) => return Err(Error::Timeout { plugin: name }),
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Ok(Ok(output)) => output,
        };
        let stdout = &output.stdout[..output.stdout.len().min(MAX_OUTPUT)];
        if !output.status.success() {
            return Err(failed(conf::failure(stdout, &output.stderr)));
        }
        if command != "ADD" {
            return Ok(Value::Null);
        }
        serde_json::from_slice(stdout).map_err(|e| failed(format!("its result is not JSON: {e}")))
    }

    fn find(&self, plugin: &str) -> Result<PathBuf, Error> {
        let plain = !plugin.is_empty() && !plugin.contains('/') && plugin != "..";
        let found =
            self.config.bin_dirs.iter().map(|d| d.join(plugin)).find(|p| plain && p.is_file());
        found.ok_or_else(|| Error::NoPlugin {
            plugin: plugin.to_owned(),
            path: self.config.bin_dirs.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
