//! The nodes: a kubelet each; the streams of a pod go to the node it runs on.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use ironsail_container::Zygote;
use ironsail_kubeapi::store::Reader;
use ironsail_kubelet::config::Config;
use ironsail_kubelet::etc::ClusterDns;
use ironsail_kubelet::kubelet::{Ground, Kubelet};
use ironsail_kubelet::stream::Streams;
use ironsail_kubelet::{cni, volume};
use ironsail_kubestream::pod::{
    Duplex, Error, ExecIo, ExecOptions, Exit, LogOptions, PodRef, PodStreams,
};
use ironsail_podnet::{Network, Node};

use crate::api::Api;
use crate::args::Run;
use crate::data::Data;
use crate::network;

/// The size of a memory volume whose manifest names none.
const MEMORY_VOLUME: u64 = 256 << 20;

pub(crate) struct Nodes {
    kubelets: BTreeMap<String, Kubelet>,
}

impl Nodes {
    /// Makes the nodes, starts their kubelets and tells the API who serves the pods' streams.
    pub(crate) async fn start(
        args: &Run,
        data: &Data,
        network: &Network,
        zygote: &Zygote,
        api: &Api,
    ) -> anyhow::Result<Self> {
        let mut kubelets = BTreeMap::new();
        for number in 1..=args.nodes {
            let name = format!("node-{number}");
            let doing = || format!("starting {name}");
            let node = network.add_node(&name).await.with_context(doing)?;
            let zone = &args.zones[usize::from(number - 1) % args.zones.len()];
            let config = config(args, data, network, &node, zone)?;
            let ground = Ground {
                client: api.client(&format!("system:node:{name}"), &["system:nodes"]),
                runtime: Arc::new(zygote.clone()),
                network: Arc::new(node),
                mounter: Arc::new(volume::OwnNamespace { default_bytes: MEMORY_VOLUME }),
            };
            kubelets
                .insert(name.clone(), Kubelet::start(config, ground).await.with_context(doing)?);
        }
        let streams = kubelets.iter().map(|(name, k)| (name.clone(), k.streams())).collect();
        let reader = api.server.reader().clone();
        api.server.set_pod_streams(Arc::new(ByNode { reader, streams }));
        Ok(Self { kubelets })
    }

    /// Stops every pod of every node gracefully.
    pub(crate) async fn stop(self) {
        futures::future::join_all(self.kubelets.into_values().map(Kubelet::shutdown)).await;
    }
}

fn config(
    args: &Run,
    data: &Data,
    network: &Network,
    node: &Node,
    zone: &str,
) -> anyhow::Result<Config> {
    let servers = network.config().service_cidrs.iter().map(|range| network::host(range, 10));
    let dns = ClusterDns { servers: servers.collect(), domain: "cluster.local".to_owned() };
    let folder = data.folder(&format!("nodes/{}", node.name()))?;
    let cache_dir = folder.join("cni");
    let mut config = Config::new(node.name(), folder, dns);
    let region = zone.rsplit_once('-').map_or(zone, |(region, _)| region);
    config.node.labels = [("zone", zone), ("region", region)]
        .map(|(key, value)| (format!("topology.kubernetes.io/{key}"), value.to_owned()))
        .into();
    config.node.pod_cidrs = node.pod_ranges().iter().map(ToString::to_string).collect();
    config.masked = vec![data.path().to_path_buf()];
    config.image_map.clone_from(&args.image_map);
    config.cni = args.cni_conf_dir.clone().map(|conf_dir| cni::Config {
        conf_dir,
        bin_dirs: args.cni_bin_dir.clone(),
        cache_dir,
    });
    Ok(config)
}

/// Finds the node of a pod in the API.
struct ByNode {
    reader: Reader,
    streams: BTreeMap<String, Streams>,
}

impl ByNode {
    fn of(&self, pod: &PodRef) -> Result<&Streams, Error> {
        let object = self
            .reader
            .get("", "pods", &pod.namespace, &pod.name)
            .ok_or_else(|| Error::NotFound(format!("pods {:?} not found", pod.name)))?;
        let value = object.value();
        let name = value["spec"]["nodeName"].as_str().unwrap_or_default();
        self.streams.get(name).ok_or_else(|| {
            Error::BadRequest(format!("pod {} does not have a host assigned", pod.name))
        })
    }
}

impl PodStreams for ByNode {
    fn logs(
        &self,
        pod: PodRef,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, std::io::Result<Bytes>>, Error>> {
        Box::pin(async move { self.of(&pod)?.logs(pod, options).await })
    }

    fn exec(
        &self,
        pod: PodRef,
        options: ExecOptions,
        io: ExecIo,
    ) -> BoxFuture<'_, Result<Exit, Error>> {
        Box::pin(async move { self.of(&pod)?.exec(pod, options, io).await })
    }

    fn connect(&self, pod: PodRef, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, Error>> {
        Box::pin(async move { self.of(&pod)?.connect(pod, port).await })
    }
}
