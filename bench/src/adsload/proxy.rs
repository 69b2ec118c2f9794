//! One simulated proxy: asks in Envoy's order, takes everything, forgets what it got.
//!
//! Clusters first, then their endpoints, then listeners, then their routes; every response is answered
//! at once. Only the names it asked for are remembered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use ironsail_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use ironsail_xds::{CDS, EDS, LDS, RDS};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

use crate::extract::{Extract, NameId};
use crate::measure::{Count, Measure};

/// After the first stream that broke, and at most, as Envoy pauses.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longest response.
const MAX_RESPONSE: usize = 256 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Variant {
    Delta,
    Sotw,
}

/// What all proxies share.
pub(crate) struct Shared {
    pub(crate) target: Endpoint,
    pub(crate) variant: Variant,
    pub(crate) extract: Extract,
    pub(crate) measure: Measure,
}

/// Runs proxy `index`, and again whenever its stream ends, as Envoy does: after a pause that grows.
pub(crate) async fn keep(shared: Arc<Shared>, index: usize, node: Node) {
    let mut pause = PAUSE;
    let mut was_ready = false;
    loop {
        let started = Instant::now();
        let mut state = State::new(shared.clone(), index, node.clone());
        state.is_ready = was_ready;
        let ended = run(&mut state).await;
        was_ready = state.is_ready;
        let why = ended.map_or_else(|e| format!("{e:#}"), |()| "the stream ended".into());
        shared.measure.broke(format!("proxy {index}: {why}"));
        pause = if started.elapsed() > LONGEST_PAUSE { PAUSE } else { pause * 2 };
        let most = pause.min(LONGEST_PAUSE).as_secs_f64();
        tokio::time::sleep(Duration::from_secs_f64(most * (0.5 + spread(index)))).await;
    }
}

/// Somewhere below a half, for each proxy elsewhere.
fn spread(index: usize) -> f64 {
    f64::from(u16::try_from(index % 500).unwrap_or(0)) / 1_000.0
}

async fn run(state: &mut State) -> anyhow::Result<()> {
    let channel = state.shared.target.connect().await.context("connecting")?;
    match state.shared.variant {
        Variant::Delta => delta(state, channel).await,
        Variant::Sotw => sotw(state, channel).await,
    }
}

/// A response of either variant.
struct Got {
    type_url: String,
    nonce: String,
    version: String,
    /// Bodies, without names.
    put: Vec<Bytes>,
    removed: Vec<String>,
    bytes: usize,
}

/// More and fewer names of a type.
struct Wish {
    type_url: &'static str,
    more: Vec<NameId>,
    less: Vec<NameId>,
}

/// What a proxy remembers.
struct State {
    shared: Arc<Shared>,
    index: usize,
    node: Option<Node>,
    /// What each cluster and listener depends on.
    wants: FxHashMap<(bool, NameId), Arc<[NameId]>>,
    asked: [BTreeSet<NameId>; 2],
    seen: BTreeSet<&'static str>,
    asked_listeners: bool,
    is_ready: bool,
}

const DEPENDENT: [&str; 2] = [EDS, RDS];

impl State {
    fn new(shared: Arc<Shared>, index: usize, node: Node) -> Self {
        let (wants, asked, seen) = (FxHashMap::default(), Default::default(), BTreeSet::new());
        let (asked_listeners, is_ready) = (false, false);
        Self { shared, index, node: Some(node), wants, asked, seen, asked_listeners, is_ready }
    }

    /// Takes a response; gives what to ask for because of it.
    fn take(&mut self, got: &Got, whole: bool) -> Vec<Wish> {
        self.shared.measure.received(
            self.index,
            &got.type_url,
            Count {
                responses: 1,
                resources: got.put.len() as u64,
                removed: got.removed.len() as u64,
                bytes: got.bytes as u64,
            },
        );
        let Some(of) = [CDS, EDS, LDS, RDS].into_iter().find(|t| *t == got.type_url) else {
            return Vec::new();
        };
        let mut wishes = Vec::new();
        if let Some(which) = [CDS, LDS].iter().position(|t| *t == of) {
            wishes.extend(self.depend(which, got, whole));
        }
        // Listeners come after the endpoints of the first clusters, if there are any.
        let has_endpoints = of == EDS || (of == CDS && self.asked[0].is_empty());
        self.seen.insert(of);
        if has_endpoints && !std::mem::replace(&mut self.asked_listeners, true) {
            wishes.push(Wish { type_url: LDS, more: Vec::new(), less: Vec::new() });
        }
        let has_routes = self.seen.contains(RDS) || (of == LDS && self.asked[1].is_empty());
        if !self.is_ready && has_routes && self.seen.contains(LDS) {
            self.is_ready = true;
            self.shared.measure.is_ready();
        }
        wishes
    }

    /// The names that clusters (0) or listeners (1) now make the proxy want, as a change.
    fn depend(&mut self, which: usize, got: &Got, whole: bool) -> Option<Wish> {
        let listener = which == 1;
        if whole {
            self.wants.retain(|(l, _), _| *l != listener);
        }
        for body in &got.put {
            if let Some((name, wanted)) = self.shared.extract.of(&got.type_url, body) {
                self.wants.insert((listener, name), wanted);
            }
        }
        for name in &got.removed {
            self.wants.remove(&(listener, self.shared.extract.id(name)));
        }
        let of_this = self.wants.iter().filter(|((l, _), _)| *l == listener);
        let now: BTreeSet<NameId> = of_this.flat_map(|(_, w)| w.iter().copied()).collect();
        let more: Vec<NameId> = now.difference(&self.asked[which]).copied().collect();
        let less: Vec<NameId> = self.asked[which].difference(&now).copied().collect();
        self.asked[which] = now;
        let changed = !(more.is_empty() && less.is_empty());
        changed.then_some(Wish { type_url: DEPENDENT[which], more, less })
    }

    /// All names of a type that the proxy wants.
    fn names(&self, type_url: &str) -> Vec<String> {
        let which = DEPENDENT.iter().position(|t| *t == type_url);
        let ids = which.map(|w| self.asked[w].iter().copied());
        ids.map(|ids| self.shared.extract.names(ids)).unwrap_or_default()
    }
}

async fn delta(state: &mut State, channel: Channel) -> anyhow::Result<()> {
    let mut client =
        AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(MAX_RESPONSE);
    let (send, queue) = mpsc::channel(16);
    let first = DeltaDiscoveryRequest {
        node: state.node.take(),
        type_url: CDS.into(),
        ..Default::default()
    };
    send.send(first).await?;
    let opened = client.delta_aggregated_resources(ReceiverStream::new(queue)).await;
    let mut stream = opened.context("opening the stream")?.into_inner();
    while let Some(response) = stream.message().await.context("receiving")? {
        let resources = response.resources.into_iter();
        let put: Vec<Bytes> = resources.filter_map(|r| Some(r.resource?.value)).collect();
        let got = Got {
            bytes: put.iter().map(Bytes::len).sum(),
            type_url: response.type_url,
            nonce: response.nonce,
            version: String::new(),
            put,
            removed: response.removed_resources,
        };
        let wishes = state.take(&got, false);
        let (type_url, response_nonce) = (got.type_url, got.nonce);
        let answer = DeltaDiscoveryRequest { type_url, response_nonce, ..Default::default() };
        send.send(answer).await?;
        for wish in wishes {
            let request = DeltaDiscoveryRequest {
                type_url: wish.type_url.into(),
                resource_names_subscribe: state.shared.extract.names(wish.more),
                resource_names_unsubscribe: state.shared.extract.names(wish.less),
                ..Default::default()
            };
            send.send(request).await?;
        }
    }
    Ok(())
}

async fn sotw(state: &mut State, channel: Channel) -> anyhow::Result<()> {
    let mut client =
        AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(MAX_RESPONSE);
    let (send, queue) = mpsc::channel(16);
    let first =
        DiscoveryRequest { node: state.node.take(), type_url: CDS.into(), ..Default::default() };
    send.send(first).await?;
    let opened = client.stream_aggregated_resources(ReceiverStream::new(queue)).await;
    let mut stream = opened.context("opening the stream")?.into_inner();
    // The last version and nonce of each type, without which a request would be stale.
    let mut last: FxHashMap<String, (String, String)> = FxHashMap::default();
    while let Some(response) = stream.message().await.context("receiving")? {
        let put: Vec<Bytes> = response.resources.into_iter().map(|any| any.value).collect();
        let got = Got {
            bytes: put.iter().map(Bytes::len).sum(),
            type_url: response.type_url,
            nonce: response.nonce,
            version: response.version_info,
            put,
            removed: Vec::new(),
        };
        let wishes = state.take(&got, true);
        last.insert(got.type_url.clone(), (got.version, got.nonce));
        let types = std::iter::once(got.type_url.as_str()).chain(wishes.iter().map(|w| w.type_url));
        for type_url in types {
            let (version_info, response_nonce) = last.get(type_url).cloned().unwrap_or_default();
            let request = DiscoveryRequest {
                type_url: type_url.into(),
                resource_names: state.names(type_url),
                version_info,
                response_nonce,
                ..Default::default()
            };
            send.send(request).await?;
        }
    }
    Ok(())
}
