//! What a client wants, what it has, and what it says.
//!
//! In: wishes, and responses; out: requests, and updates for somebody to accept or refuse. An update
//! counts as had only once it is accepted. No IO, no clock.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use ironsail_proto::google::rpc::Status;

use crate::rule::rule;
use crate::{Name, TypeUrl, Variant};

/// `google.rpc.Code.INVALID_ARGUMENT`, as Envoy says it.
const INVALID: i32 = 3;

/// A request to send.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    StateOfTheWorld(DiscoveryRequest),
    Delta(DeltaDiscoveryRequest),
}

/// A response that came.
#[derive(Clone, Debug)]
pub enum Incoming {
    StateOfTheWorld(DiscoveryResponse),
    Delta(DeltaDiscoveryResponse),
}

/// A resource as a client has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub name: Name,
    pub version: String,
    pub body: Bytes,
}

/// What a response brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub type_url: TypeUrl,
    pub put: Vec<Received>,
    pub removed: Vec<Name>,
    nonce: String,
    version: String,
}

/// A client's side of the conversation.
pub struct ClientSession {
    variant: Variant,
    node: Node,
    types: BTreeMap<TypeUrl, Wanted>,
    node_was_sent: bool,
    connected: bool,
}

#[derive(Default)]
struct Wanted {
    all: bool,
    names: BTreeSet<Name>,
    have: BTreeMap<Name, Received>,
    /// State of the world: of the last response accepted.
    version: String,
    /// Of the last response on this stream.
    nonce: String,
    /// A request of this type went out on this stream.
    was_asked: bool,
}

impl Wanted {
    fn wants_something(&self) -> bool {
        self.all || !self.names.is_empty()
    }

    fn contains(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }
}

impl ClientSession {
    pub fn new(variant: Variant, node: Node) -> Self {
        Self { variant, node, types: BTreeMap::new(), node_was_sent: false, connected: false }
    }

    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// A new stream is open: what to say first.
    pub fn connect(&mut self) -> Vec<Outgoing> {
        self.node_was_sent = false;
        self.connected = true;
        for wanted in self.types.values_mut() {
            wanted.nonce.clear();
            wanted.was_asked = false;
        }
        // No names would ask for all.
        let wanted = self.types.iter().filter(|(_, w)| w.wants_something());
        let types: Vec<TypeUrl> = wanted.map(|(type_url, _)| type_url.clone()).collect();
        types.iter().map(|type_url| self.first_request(type_url)).collect()
    }

    /// The stream is gone; wishes are remembered until the next one.
    pub fn disconnect(&mut self) {
        self.connected = false;
    }

    /// Wants whatever there is of a type (`*`).
    pub fn subscribe_all(&mut self, type_url: &TypeUrl) -> Option<Outgoing> {
        self.wish(type_url, |wanted| wanted.all = true, &["*".into()], &[])
    }

    /// Wants some more names of a type.
    pub fn subscribe(&mut self, type_url: &TypeUrl, names: &[Name]) -> Option<Outgoing> {
        self.wish(type_url, |wanted| wanted.names.extend(names.iter().cloned()), names, &[])
    }

    /// Wants some names no more, and forgets them.
    pub fn unsubscribe(&mut self, type_url: &TypeUrl, names: &[Name]) -> Option<Outgoing> {
        let forget = |wanted: &mut Wanted| {
            for name in names {
                wanted.names.remove(name);
                if !wanted.all {
                    wanted.have.remove(name);
                }
            }
        };
        self.wish(type_url, forget, &[], names)
    }

    fn wish(
        &mut self,
        type_url: &TypeUrl,
        change: impl FnOnce(&mut Wanted),
        more: &[Name],
        less: &[Name],
    ) -> Option<Outgoing> {
        let wanted = self.types.entry(type_url.clone()).or_default();
        change(wanted);
        if !self.connected {
            return None;
        }
        if !wanted.was_asked {
            return wanted.wants_something().then(|| self.first_request(type_url));
        }
        Some(match self.variant {
            Variant::StateOfTheWorld => self.whole_request(type_url, None),
            Variant::Delta => Outgoing::Delta(DeltaDiscoveryRequest {
                type_url: type_url.to_string(),
                resource_names_subscribe: strings(more),
                resource_names_unsubscribe: strings(less),
                ..Default::default()
            }),
        })
    }

    fn first_request(&mut self, type_url: &TypeUrl) -> Outgoing {
        let node = (!std::mem::replace(&mut self.node_was_sent, true)).then(|| self.node.clone());
        let wanted = self.types.entry(type_url.clone()).or_default();
        wanted.was_asked = true;
        match self.variant {
            Variant::StateOfTheWorld => self.whole_request(type_url, node),
            Variant::Delta => {
                let versions = wanted.have.values();
                Outgoing::Delta(DeltaDiscoveryRequest {
                    node,
                    type_url: type_url.to_string(),
                    resource_names_subscribe: names_of(wanted),
                    initial_resource_versions: versions
                        .map(|r| (r.name.to_string(), r.version.clone()))
                        .collect(),
                    ..Default::default()
                })
            }
        }
    }

    /// State of the world: everything again.
    fn whole_request(&mut self, type_url: &TypeUrl, node: Option<Node>) -> Outgoing {
        let wanted = self.types.entry(type_url.clone()).or_default();
        Outgoing::StateOfTheWorld(DiscoveryRequest {
            node,
            type_url: type_url.to_string(),
            version_info: wanted.version.clone(),
            response_nonce: wanted.nonce.clone(),
            resource_names: names_of(wanted),
            ..Default::default()
        })
    }

    /// What a response brings; it counts once it is answered.
    pub fn receive(&mut self, incoming: Incoming) -> Update {
        match incoming {
            Incoming::StateOfTheWorld(r) => {
                let type_url: TypeUrl = r.type_url.into();
                let wanted = self.types.entry(type_url.clone()).or_default();
                let put: Vec<Received> = r
                    .resources
                    .into_iter()
                    .enumerate()
                    .map(|(i, any)| {
                        let name = name_in(&type_url, &any.value).unwrap_or_else(|| i.to_string());
                        let version = r.version_info.clone();
                        Received { name: name.into(), version, body: any.value }
                    })
                    .collect();
                let there: BTreeSet<&Name> = put.iter().map(|r| &r.name).collect();
                let removed = match rule(&type_url).named {
                    true => Vec::new(),
                    false => wanted.have.keys().filter(|n| !there.contains(n)).cloned().collect(),
                };
                wanted.nonce.clone_from(&r.nonce);
                Update { type_url, put, removed, nonce: r.nonce, version: r.version_info }
            }
            Incoming::Delta(r) => {
                let type_url: TypeUrl = r.type_url.into();
                let put = r.resources.into_iter().map(|resource| Received {
                    name: resource.name.into(),
                    version: resource.version,
                    body: resource.resource.map(|any| any.value).unwrap_or_default(),
                });
                let put = put.collect();
                let removed = r.removed_resources.into_iter().map(Name::from).collect();
                let version = r.system_version_info;
                Update { type_url, put, removed, nonce: r.nonce, version }
            }
        }
    }

    /// Accepts an update, or refuses it for a reason, and gives the request that says so.
    pub fn answer(&mut self, update: Update, verdict: Result<(), String>) -> Outgoing {
        let type_url = update.type_url.clone();
        let wanted = self.types.entry(type_url.clone()).or_default();
        let nonce = update.nonce.clone();
        let error = verdict.err();
        if error.is_none() {
            wanted.version = update.version;
            for name in &update.removed {
                wanted.have.remove(name);
            }
            let put =
                update.put.into_iter().filter(|r| wanted.all || wanted.names.contains(&r.name));
            wanted.have.extend(put.map(|r| (r.name.clone(), r)));
        }
        let error_detail =
            error.map(|message| Status { code: INVALID, message, ..Default::default() });
        match self.variant {
            Variant::StateOfTheWorld => match self.whole_request(&type_url, None) {
                Outgoing::StateOfTheWorld(request) => Outgoing::StateOfTheWorld(DiscoveryRequest {
                    response_nonce: nonce,
                    error_detail,
                    ..request
                }),
                other @ Outgoing::Delta(_) => other,
            },
            Variant::Delta => Outgoing::Delta(DeltaDiscoveryRequest {
                type_url: type_url.to_string(),
                response_nonce: nonce,
                error_detail,
                ..Default::default()
            }),
        }
    }

    /// What the client has of a type.
    pub fn have(&self, type_url: &str) -> impl Iterator<Item = &Received> {
        let wanted = self.types.get(type_url);
        wanted.into_iter().flat_map(|w| w.have.values().filter(|r| w.contains(&r.name)))
    }
}

fn strings(names: &[Name]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn names_of(wanted: &Wanted) -> Vec<String> {
    let star = wanted.all.then(|| "*".to_owned());
    star.into_iter().chain(wanted.names.iter().map(ToString::to_string)).collect()
}

/// The state of the world does not say the names of resources; all types that Envoy asks for have
/// theirs in the first field.
fn name_in(type_url: &str, body: &Bytes) -> Option<String> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Named {
        #[prost(string, tag = "1")]
        name: String,
    }
    let is_known = rule(type_url).place.is_some() || rule(type_url).named;
    let named = <Named as prost::Message>::decode(body.clone()).ok().filter(|_| is_known)?;
    Some(named.name)
}
