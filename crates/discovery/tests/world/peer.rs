//! A client that behaves as Envoy does: clusters, their endpoints, listeners, their routes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ironsail_proto::Message;
use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::config::listener::v3::Listener;
use ironsail_proto::envoy::config::listener::v3::filter::ConfigType;
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use ironsail_xds::client::{Backoff, Client, Event, Update};
use ironsail_xds::{CDS, EDS, LDS, RDS, Variant};
use serde_json::json;
use tokio::sync::watch;

/// What a peer got, by type and name, and how many resources came in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Got {
    pub(crate) have: BTreeMap<String, BTreeMap<String, Bytes>>,
    pub(crate) updates: BTreeMap<String, Vec<Vec<String>>>,
    pub(crate) connects: usize,
}

impl Got {
    pub(crate) fn names(&self, type_url: &str) -> Vec<&str> {
        self.have.get(type_url).into_iter().flat_map(|of| of.keys()).map(String::as_str).collect()
    }
}

/// Dropping it disconnects.
pub(crate) struct Peer {
    pub(crate) got: watch::Receiver<Got>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A sidecar of workload `app`.
pub(crate) fn node(app: &str, namespace: &str, index: usize) -> Node {
    let ip = format!("10.200.{}.{}", index / 250, index % 250 + 1);
    let pod = format!("{app}-{index}");
    let metadata = json!({
        "NAME": pod, "NAMESPACE": namespace, "SERVICE_ACCOUNT": app, "WORKLOAD_NAME": app,
        "CLUSTER_ID": "Kubernetes", "INSTANCE_IPS": ip, "ISTIO_VERSION": "1.30.0",
        "LABELS": {"app": app}, "PROXY_CONFIG": {"serviceCluster": "istio-proxy"}
    });
    Node {
        id: format!("sidecar~{ip}~{pod}.{namespace}~{namespace}.svc.cluster.local"),
        cluster: format!("{app}.{namespace}"),
        metadata: metadata.as_object().cloned().map(Into::into),
        ..Node::default()
    }
}

/// Takes an update or refuses it.
pub(crate) type Judge = Arc<dyn Fn(&Update) -> Result<(), String> + Send + Sync>;

impl Peer {
    pub(crate) fn connect(address: SocketAddr, node: Node, variant: Variant) -> Self {
        Self::judging(address, node, variant, Arc::new(|_| Ok(())))
    }

    /// A peer that refuses what `judge` refuses.
    pub(crate) fn judging(address: SocketAddr, node: Node, variant: Variant, judge: Judge) -> Self {
        let (send, got) = watch::channel(Got::default());
        let channel = super::server::channel(address);
        let task = tokio::spawn(async move {
            let backoff =
                Backoff { first: Duration::from_millis(20), longest: Duration::from_millis(200) };
            let (client, mut events) = Client::start(channel, node, variant, backoff);
            client.subscribe_all(CDS).await;
            client.subscribe_all(LDS).await;
            while let Some(event) = events.recv().await {
                let pending = match event {
                    Event::Update(pending) => pending,
                    Event::Connected => {
                        send.send_modify(|got| got.connects += 1);
                        continue;
                    }
                    Event::Disconnected(_) => continue,
                };
                let update = pending.update.clone();
                match judge(&update) {
                    Err(reason) => {
                        pending.reject(reason);
                        continue;
                    }
                    Ok(()) => pending.accept(),
                }
                let wanted = wanted(&update);
                if let Some((type_url, names)) = &wanted {
                    client.subscribe(type_url, names.iter().map(String::as_str)).await;
                }
                send.send_modify(|got| take(got, &update));
            }
        });
        Self { got, task }
    }

    /// Waits until what it got is as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Got) -> bool) -> Got {
        let mut got = self.got.clone();
        let waiting = tokio::time::timeout(Duration::from_secs(60), got.wait_for(|g| wanted(g)));
        match waiting.await {
            Ok(found) => found.unwrap().clone(),
            Err(_) => panic!("{what} did not happen: {:?}", self.got.borrow().updates),
        }
    }

    /// Waits until it has clusters, endpoints, listeners and routes.
    pub(crate) async fn complete(&self) -> Got {
        let all = |got: &Got| [CDS, EDS, LDS, RDS].iter().all(|t| got.have.contains_key(*t));
        self.until("all types", all).await
    }
}

fn take(got: &mut Got, update: &Update) {
    let have = got.have.entry(update.type_url.to_string()).or_default();
    for put in &update.put {
        have.insert(put.name.to_string(), put.body.clone());
    }
    for gone in &update.removed {
        have.remove(&**gone);
    }
    let names = update.put.iter().map(|r| r.name.to_string());
    let gone = update.removed.iter().map(|n| format!("-{n}"));
    got.updates.entry(update.type_url.to_string()).or_default().push(names.chain(gone).collect());
}

/// What an update makes Envoy ask for.
fn wanted(update: &Update) -> Option<(&'static str, Vec<String>)> {
    let bodies = update.put.iter().map(|r| r.body.clone());
    let (type_url, mut names): (_, Vec<String>) = match &*update.type_url {
        CDS => (EDS, bodies.filter_map(|b| endpoints(&Cluster::decode(b).unwrap())).collect()),
        LDS => (RDS, bodies.flat_map(|b| routes(&Listener::decode(b).unwrap())).collect()),
        _ => return None,
    };
    names.sort();
    names.dedup();
    (!names.is_empty()).then_some((type_url, names))
}

fn endpoints(cluster: &Cluster) -> Option<String> {
    let eds = Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into()));
    if cluster.cluster_discovery_type != eds {
        return None;
    }
    let named = cluster.eds_cluster_config.as_ref().map(|e| e.service_name.clone());
    Some(named.filter(|n| !n.is_empty()).unwrap_or_else(|| cluster.name.clone()))
}

fn routes(listener: &Listener) -> Vec<String> {
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    let filters = chains.flat_map(|chain| &chain.filters);
    filters
        .filter_map(|filter| match &filter.config_type {
            Some(ConfigType::TypedConfig(any))
                if any.type_url.ends_with("HttpConnectionManager") =>
            {
                HttpConnectionManager::decode(any.value.clone()).ok()?.route_specifier
            }
            _ => None,
        })
        .filter_map(|specifier| match specifier {
            RouteSpecifier::Rds(rds) => Some(rds.route_config_name),
            _ => None,
        })
        .collect()
}
