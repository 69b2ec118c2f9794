//! Who is at the other end: what a peer says of itself in a header, what an endpoint's metadata says of
//! it, what its certificate proves.
//!
//! The header is Istio's: a `google.protobuf.Struct` in base64 under `x-envoy-peer-metadata`, and the
//! node's id under `x-envoy-peer-metadata-id`. What is in it is a claim, good for labels and nothing else.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Struct, Value};

use crate::config::Local;

pub const HEADER: &str = "x-envoy-peer-metadata";
pub const HEADER_ID: &str = "x-envoy-peer-metadata-id";

/// Longer headers are not read.
const MOST_BYTES: usize = 16 * 1024;
/// Longer values are cut: they become labels.
pub const MOST_VALUE: usize = 200;
pub const UNKNOWN: &str = "unknown";

const CANONICAL_NAME: &str = "service.istio.io/canonical-name";
const CANONICAL_REVISION: &str = "service.istio.io/canonical-revision";

/// What metrics tell of one side. An empty text is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    pub workload: String,
    pub namespace: String,
    pub cluster: String,
    pub canonical_service: String,
    pub canonical_revision: String,
    pub app: String,
    pub version: String,
    /// What labels of the user's own may ask for.
    pub labels: BTreeMap<String, String>,
}

impl Peer {
    /// The proxy's own workload.
    pub fn local(local: &Local) -> Self {
        let mut peer = Self {
            workload: cut(&local.workload),
            namespace: cut(&local.namespace),
            cluster: cut(&local.cluster),
            ..Self::default()
        };
        peer.take_labels(local.labels.clone());
        peer
    }

    /// From the header's value; nothing if it is no metadata.
    pub fn from_header(value: &str) -> Option<Self> {
        if value.len() > MOST_BYTES {
            return None;
        }
        let trimmed = value.trim_end_matches('=');
        let bytes = STANDARD_NO_PAD.decode(trimmed).ok()?;
        let mut fields = Struct::decode(bytes.as_slice()).ok()?.fields;
        let mut text = |key: &str| match fields.remove(key).and_then(|v| v.kind) {
            Some(Kind::StringValue(text)) => cut(&text),
            _ => String::new(),
        };
        let mut peer = Self {
            workload: text("WORKLOAD_NAME"),
            namespace: text("NAMESPACE"),
            cluster: text("CLUSTER_ID"),
            ..Self::default()
        };
        if let Some(Kind::StructValue(labels)) = fields.remove("LABELS").and_then(|v| v.kind) {
            let labels = labels.fields.into_iter().take(64).filter_map(|(key, v)| match v.kind {
                Some(Kind::StringValue(text)) => Some((key, cut(&text))),
                _ => None,
            });
            peer.take_labels(labels.collect());
        } else {
            peer.take_labels(BTreeMap::new());
        }
        Some(peer)
    }

    /// From an endpoint's `istio.workload`: `NAME;NAMESPACE;CANONICAL;REVISION;CLUSTER`.
    pub fn from_endpoint(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(cut);
        let peer = Self {
            workload: parts.next()?,
            namespace: parts.next()?,
            canonical_service: parts.next().unwrap_or_default(),
            canonical_revision: parts.next().unwrap_or_default(),
            cluster: parts.next().unwrap_or_default(),
            ..Self::default()
        };
        (!peer.workload.is_empty() || !peer.namespace.is_empty()).then_some(peer)
    }

    fn take_labels(&mut self, labels: BTreeMap<String, String>) {
        let label = |key: &str| labels.get(key).map(|text| cut(text)).unwrap_or_default();
        self.app = label("app");
        self.version = label("version");
        self.canonical_service = label(CANONICAL_NAME);
        if self.canonical_service.is_empty() {
            self.canonical_service = match self.app.is_empty() {
                true => self.workload.clone(),
                false => self.app.clone(),
            };
        }
        self.canonical_revision = label(CANONICAL_REVISION);
        if self.canonical_revision.is_empty() {
            self.canonical_revision =
                if self.version.is_empty() { "latest".into() } else { self.version.clone() };
        }
        self.labels = labels;
    }
}

/// The header by which the proxy tells peers who it is: only what metrics need.
pub fn header(local: &Local) -> String {
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let shared = ["app", "version", CANONICAL_NAME, CANONICAL_REVISION];
    let labels = shared
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), text(local.labels.get(*key)?))))
        .collect();
    let mut fields = BTreeMap::new();
    let named = [
        ("CLUSTER_ID", &local.cluster),
        ("NAME", &local.name),
        ("NAMESPACE", &local.namespace),
        ("OWNER", &local.owner),
        ("WORKLOAD_NAME", &local.workload),
    ];
    for (key, value) in named {
        if !value.is_empty() {
            fields.insert(key.to_owned(), text(value));
        }
    }
    let labels = Struct { fields: labels };
    fields.insert("LABELS".to_owned(), Value { kind: Some(Kind::StructValue(labels)) });
    STANDARD.encode(Struct { fields }.encode_to_vec())
}

/// The namespace that a certificate's `spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT` proves.
pub fn namespace_of(principal: &str) -> Option<&str> {
    let mut parts = principal.strip_prefix("spiffe://")?.split('/');
    match (parts.nth(1), parts.next()) {
        (Some("ns"), Some(namespace)) if !namespace.is_empty() => Some(namespace),
        _ => None,
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(MOST_VALUE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn local() -> Local {
        let labels = [("app", "web"), ("version", "v2"), ("secret", "not for peers")];
        Local {
            id: "sidecar~10.0.0.1~web-1.shop~shop.svc".into(),
            name: "web-1".into(),
            namespace: "shop".into(),
            workload: "web-v2".into(),
            cluster: "Kubernetes".into(),
            owner: "kubernetes://apis/apps/v1/namespaces/shop/deployments/web-v2".into(),
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            version: "1".into(),
            ..Local::default()
        }
    }

    #[test]
    fn what_one_proxy_says_the_other_reads() {
        let said = header(&local());
        let read = Peer::from_header(&said).unwrap();
        assert_eq!(read.workload, "web-v2");
        assert_eq!(read.namespace, "shop");
        assert_eq!(read.cluster, "Kubernetes");
        assert_eq!((read.app.as_str(), read.version.as_str()), ("web", "v2"));
        assert_eq!(read.canonical_service, "web");
        assert_eq!(read.canonical_revision, "v2");
        assert!(!read.labels.contains_key("secret"));
    }

    #[test]
    fn istio_s_header_without_padding_is_read_too() {
        let said = header(&local());
        assert!(Peer::from_header(said.trim_end_matches('=')).is_some());
    }

    #[test]
    fn an_endpoint_says_five_things() {
        let peer = Peer::from_endpoint("reviews-v1;default;reviews;v1;east").unwrap();
        assert_eq!(peer.workload, "reviews-v1");
        assert_eq!(peer.canonical_revision, "v1");
        assert_eq!(peer.cluster, "east");
        assert_eq!(Peer::from_endpoint(";;;;"), None);
        assert_eq!(Peer::from_endpoint(""), None);
    }

    #[test]
    fn a_namespace_is_proved_by_the_certificate_only() {
        assert_eq!(namespace_of("spiffe://cluster.local/ns/shop/sa/web"), Some("shop"));
        for other in ["", "unknown", "spiffe://x", "spiffe://x/sa/y/ns/z", "https://x/ns/y"] {
            assert_eq!(namespace_of(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn nothing_in_a_header_breaks_the_reader(text in ".{0,400}", bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Peer::from_header(&text);
            if let Some(peer) = Peer::from_header(&STANDARD.encode(&bytes)) {
                prop_assert!(peer.workload.len() <= MOST_VALUE);
            }
            let _ = Peer::from_endpoint(&text);
            let _ = namespace_of(&text);
        }
    }
}
