//! The outside world: hosts beside the nodes, declared in a file, and the servers that run there.
//!
//! ```yaml
//! hosts:
//! - name: shop
//!   addresses: [203.0.113.10]
//!   hostnames: [shop.example.com]
//!   servers:
//!   - image: echo
//!     args: [serve, --http, "80"]
//! ```

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ironsail_container::{Container, ContainerSpec, RootSpec, Zygote};
use ironsail_kubelet::image::{ImageMap, Root};
use ironsail_podnet::{Network, Outside, OutsideConfig};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};

/// How long a server may take to end.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    hosts: Vec<Host>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Host {
    name: String,
    addresses: Vec<std::net::IpAddr>,
    #[serde(default)]
    hostnames: Vec<String>,
    #[serde(default)]
    routed: bool,
    #[serde(default)]
    servers: Vec<Server>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    image: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// The outside hosts and what runs on them.
#[derive(Default)]
pub(crate) struct World {
    hosts: Vec<Outside>,
    servers: Vec<Container>,
}

impl World {
    /// Makes the hosts that `file` declares and starts their servers.
    pub(crate) async fn create(
        file: &Path,
        image_map: Option<&Path>,
        network: &Network,
        zygote: &Zygote,
    ) -> anyhow::Result<Self> {
        let doing = || format!("reading {}", file.display());
        let text = std::fs::read_to_string(file).with_context(doing)?;
        let parsed: File = ironsail_yaml::parse(&text).with_context(doing)?;
        let images = ImageMap::new(image_map.map(Path::to_path_buf));
        let mut world = Self::default();
        for host in parsed.hosts {
            let config = OutsideConfig {
                name: host.name.clone(),
                addresses: host.addresses,
                hostnames: host.hostnames,
                routed: host.routed,
            };
            let doing = || format!("making the outside host {}", host.name);
            let outside = network.add_outside(config).await.with_context(doing)?;
            for (i, server) in host.servers.iter().enumerate() {
                let id = format!("outside-{}-{i}", host.name);
                let started = start(&id, server, &outside, &images, zygote).await;
                world.servers.push(started.with_context(doing)?);
            }
            world.hosts.push(outside);
        }
        Ok(world)
    }

    /// Names that cluster DNS shall know, with their addresses.
    pub(crate) fn names(&self) -> Vec<(String, Vec<std::net::IpAddr>)> {
        let names = |host: &Outside| {
            let addresses = host.addresses().to_vec();
            let names = host.config().hostnames.clone();
            names.into_iter().map(move |name| (name, addresses.clone())).collect::<Vec<_>>()
        };
        self.hosts.iter().flat_map(names).collect()
    }

    pub(crate) async fn stop(&self) {
        for server in &self.servers {
            server.signal(ironsail_sys::exec::Signal::SIGTERM as i32);
        }
        let all = futures::future::join_all(self.servers.iter().map(Container::wait));
        if tokio::time::timeout(GRACE, all).await.is_err() {
            self.servers.iter().for_each(Container::kill);
        }
    }
}

async fn start(
    id: &str,
    server: &Server,
    host: &Outside,
    images: &ImageMap,
    zygote: &Zygote,
) -> anyhow::Result<Container> {
    let image = images.find(&server.image)?;
    let root = match image.root {
        Root::Host => RootSpec::Host,
        Root::Dir(dir) => RootSpec::Dir(dir),
    };
    let args = if server.args.is_empty() { &image.cmd } else { &server.args };
    let argv = image.entrypoint.iter().chain(args).cloned();
    let mut spec = ContainerSpec::new(id, root, argv);
    let netns = host.netns().as_fd().try_clone_to_owned().context("holding its network")?;
    spec.netns = Some(Arc::new(netns));
    spec.hostname = host.name().to_owned();
    let path = image.path.iter().map(|p| p.display().to_string());
    let path: Vec<_> =
        path.chain(["/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()]).collect();
    spec.env = vec![("PATH".to_owned(), path.join(":"))];
    spec.env.extend(image.env);
    spec.env.extend(server.env.clone());
    let mut started =
        zygote.start(spec).await.with_context(|| format!("starting {}", server.image))?;
    for out in [started.stdio.stdout.take(), started.stdio.stderr.take()].into_iter().flatten() {
        let id = id.to_owned();
        tokio::spawn(async move {
            let mut lines = BufReader::new(out).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                tracing::debug!(target: "outside", "{id}: {line}");
            }
        });
    }
    Ok(started.container)
}
