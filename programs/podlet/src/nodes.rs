//! The nodes: a kubelet each, found again by the pod that a stream is for, and cut off or healed as
//! their annotation says.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use ironsail_container::Zygote;
use ironsail_kubeapi::store::Reader;
use ironsail_kubelet::{Config, Kubelet};
use ironsail_kubestream::pod::{
    Duplex, Error, ExecIo, ExecOptions, Exit, LogOptions, PodRef, PodStreams,
};
use ironsail_podnet::Network;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};

use crate::api;
use crate::args::Run;
use crate::data::Data;
use crate::network;

/// `kubectl annotate node NAME podlet.ironsail/cut=true` takes a node off the network; removing the
/// annotation heals it.
const CUT: &str = "podlet.ironsail/cut";

/// The kubelets by the name of their node.
pub(crate) type Kubelets = BTreeMap<String, Kubelet>;

pub(crate) async fn create(
    args: &Run,
    data: &Data,
    network: &Network,
    zygote: &Zygote,
    api: &api::Api,
) -> anyhow::Result<Kubelets> {
    let mut kubelets = Kubelets::new();
    for i in 1..=args.nodes {
        let name = format!("node-{i}");
        let doing = || format!("making {name}");
        let node = network.add_node(&name).await.with_context(doing)?;
        let config = config(args, data, network, &name, usize::from(i) - 1)?;
        let client = api.client(&format!("system:node:{name}"), &["system:nodes", "system:masters"]);
        let kubelet = Kubelet::new(config, client, zygote.clone(), node).await.with_context(doing)?;
        kubelets.insert(name, kubelet);
    }
    Ok(kubelets)
}
