//! Putting the parts together, and taking them down again in the right order.

use std::time::Duration;

use anyhow::Context;
use ironsail_container::{ForkedZygote, ZygoteOptions};
use ironsail_kubeproxy::{DnsServer, Proxy, PublishedPort, PublishedService, publish};
use ironsail_podnet::{Network, Protocol};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::api::Api;
use crate::args::Run;
use crate::data::{self, Data};
use crate::nodes::Nodes;
use crate::outside::World;
use crate::{cut, network};

pub(crate) async fn run(args: &Run, zygote: ForkedZygote) -> anyhow::Result<()> {
    let stop = ironsail_daemon::signal::stop_on_signals().context("watching for signals")?;
    let data = Data::open(&args.data)?;
    // Tells podlets on one machine apart, and stays the same over restarts of this one.
    let instance =
        data.remembered("instance", || format!("podlet-{:08x}", rand::random::<u32>()))?;
    let stage = data.folder("stage")?;
    let options = ZygoteOptions { stage, instance: instance.clone() };
    let zygote = zygote.connect(&options).context("reaching the zygote")?;
    if let Some(why) = zygote.limits_refused() {
        tracing::warn!("limits of containers are not kept: {why}");
    }
    let network = network::create(args).await?;
    let mut api = Api::open(args, &data, &network).await?;
    let world = match &args.outside {
        Some(file) => World::create(file, args.image_map.as_deref(), &network, &zygote).await?,
        None => World::default(),
    };
    let served = CancellationToken::new();
    let serving = AbortOnDropHandle::new(tokio::spawn(api.serve(&served)?));
    let nodes = Nodes::start(args, &data, &network, &zygote, &api).await?;
    let mut parts = Parts::start(args, &instance, &network, &world, &api).await?;
    data::write_whole(&args.kubeconfig, &api.kubeconfig())?;
    tracing::info!("ready: {} node(s), kubeconfig {}", args.nodes, args.kubeconfig.display());
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        () = zygote.lost() => Err(anyhow::anyhow!("the process that starts containers is gone")),
        error = parts.failed() => Err(error),
    };
    // Whoever waits for the file must not find one of a podlet that is going away.
    let _ = std::fs::remove_file(&args.kubeconfig);
    nodes.stop().await;
    world.stop().await;
    parts.stop().await;
    served.cancel();
    api.server.end_watches();
    let _ = tokio::time::timeout(Duration::from_secs(6), serving).await;
    ended
}

/// What follows the API: controllers, Services, names.
struct Parts {
    stop: CancellationToken,
    controllers: AbortOnDropHandle<anyhow::Result<()>>,
    proxy: AbortOnDropHandle<()>,
    cut: AbortOnDropHandle<()>,
    _dns: DnsServer,
}

impl Parts {
    async fn start(
        args: &Run,
        instance: &str,
        network: &Network,
        world: &World,
        api: &Api,
    ) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let client = |name: &str| api.client(name, &["system:masters"]);
        let config = ironsail_kubecontrol::Config {
            root_ca: Some(api.root_certificate()),
            ..ironsail_kubecontrol::Config::default()
        };
        let controllers = ironsail_kubecontrol::run(
            client("system:kube-controller-manager"),
            config,
            stop.clone(),
        );
        let controllers = tokio::spawn(async { controllers.await.context("controllers") });
        let mut config = ironsail_kubeproxy::Config::of_instance(instance);
        config.outside_names = world.names();
        if args.egress {
            let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
            config.upstreams = ironsail_dns::upstreams(&text);
        }
        let proxy = Proxy::new(client("system:kube-proxy"), network.clone(), config.clone())
            .context("setting up Services")?;
        let dns =
            DnsServer::start(network, proxy.names(), &config).await.context("starting DNS")?;
        publish(&client("system:podlet"), &cluster_dns(network)).await?;
        let proxy = tokio::spawn(proxy.run(stop.clone()));
        let cut = tokio::spawn(cut::follow(client("system:podlet"), network.clone()));
        Ok(Self {
            stop,
            controllers: AbortOnDropHandle::new(controllers),
            proxy: AbortOnDropHandle::new(proxy),
            cut: AbortOnDropHandle::new(cut),
            _dns: dns,
        })
    }

    /// Returns when a part that must run for ever has ended.
    async fn failed(&mut self) -> anyhow::Error {
        let ended = tokio::select! {
            ended = &mut self.controllers => ended.context("controllers").and_then(|r| r),
            ended = &mut self.proxy => ended.context("Services"),
            ended = &mut self.cut => ended.context("the watch of nodes"),
        };
        match ended {
            Ok(()) => anyhow::anyhow!("a part of podlet ended by itself"),
            Err(error) => error,
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        let all = async {
            let _ = self.proxy.await;
            let _ = self.controllers.await;
        };
        let _ = tokio::time::timeout(Duration::from_secs(5), all).await;
    }
}

/// The Service that pods ask for names, as every cluster calls it.
fn cluster_dns(network: &Network) -> PublishedService {
    let port = |name: &str, protocol| PublishedPort {
        name: name.to_owned(),
        protocol,
        port: 53,
        target_port: DnsServer::PORT,
    };
    PublishedService {
        namespace: "kube-system".to_owned(),
        name: "kube-dns".to_owned(),
        labels: [("k8s-app".to_owned(), "kube-dns".to_owned())].into(),
        cluster_ips: network.config().service_cidrs.iter().map(|r| network::host(r, 10)).collect(),
        addresses: network.own_addresses(),
        ports: vec![port("dns", Protocol::Udp), port("dns-tcp", Protocol::Tcp)],
    }
}
