//! Requests and responses of both variants in one form.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};

use crate::{Name, Resource, TypeUrl, Version};

/// How a client talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    StateOfTheWorld,
    Delta,
}

/// What a client asks, or says about what it got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub type_url: TypeUrl,
    /// Of the response that this is about; empty if it is about none.
    pub nonce: String,
    /// Why the client did not take that response.
    pub error: Option<String>,
    pub ask: Ask,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Everything the client wants, and the version it has.
    StateOfTheWorld { names: Vec<Name>, version: String },
    /// What it wants more and less than before, and on a new stream the versions it has.
    Delta { more: Vec<Name>, less: Vec<Name>, has: BTreeMap<String, String> },
}

/// What a client gets.
#[derive(Clone, Debug)]
pub struct Response {
    pub variant: Variant,
    pub type_url: TypeUrl,
    pub nonce: String,
    /// Of everything the client has of the type once it took this.
    pub version: Version,
    pub resources: Arc<[Resource]>,
    /// Delta only.
    pub removed: Vec<Name>,
}

impl Response {
    /// Bytes of the resources in it, without what the protocol adds.
    pub fn body_bytes(&self) -> usize {
        self.resources.iter().map(|r| r.body().len()).sum()
    }
}

fn names(strings: Vec<String>) -> Vec<Name> {
    strings.into_iter().map(Name::from).collect()
}

impl From<DiscoveryRequest> for Request {
    fn from(r: DiscoveryRequest) -> Self {
        Self {
            type_url: r.type_url.into(),
            nonce: r.response_nonce,
            error: r.error_detail.map(|status| status.message),
            ask: Ask::StateOfTheWorld { names: names(r.resource_names), version: r.version_info },
        }
    }
}

impl From<DeltaDiscoveryRequest> for Request {
    fn from(r: DeltaDiscoveryRequest) -> Self {
        let ask = Ask::Delta {
            more: names(r.resource_names_subscribe),
            less: names(r.resource_names_unsubscribe),
            has: r.initial_resource_versions,
        };
        Self {
            type_url: r.type_url.into(),
            nonce: r.response_nonce,
            error: r.error_detail.map(|status| status.message),
            ask,
        }
    }
}
