//! The proxies that are connected, and where each stands.
//!
//! In: what happens on streams; out: for every connection what was sent, taken and refused of each
//! type. A refusal keeps the reason and the objects behind the refused resources.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ironsail_identity::{Certificate, TrustReport};
use ironsail_model::Proxy;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_xds::{Interest, Rejection, Response, Set, TypeUrl, Variant, Verdict, Version};
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::auth::Identity;
use crate::class::Class;

/// One stream of a proxy.
pub struct Connection {
    /// As Istio names them: the node's id and a number.
    pub id: String,
    pub proxy: Arc<Proxy>,
    pub identity: Option<Identity>,
    pub peer: Option<SocketAddr>,
    pub variant: Variant,
    pub since: Timestamp,
    types: Mutex<BTreeMap<TypeUrl, TypeState>>,
    /// What the agent said last of the proxy's roots and certificate.
    trust: Mutex<Option<(TrustReport, Timestamp)>>,
    /// The certificate that the agent showed when it came.
    pub shown: Option<Certificate>,
    class: RwLock<Arc<Class>>,
    /// The class is another one.
    pub(crate) moved: Notify,
    pub(crate) close: CancellationToken,
}

/// Where a proxy stands with a type.
#[derive(Clone, Debug, Default)]
pub struct TypeState {
    pub all: bool,
    /// How many names it asked for.
    pub names: usize,
    pub sent: Option<Sent>,
    pub accepted: Option<(Version, Timestamp)>,
    pub nack: Option<Arc<Nack>>,
    /// Responses since the stream began.
    pub pushes: u64,
}

/// The last response.
#[derive(Clone, Debug)]
pub struct Sent {
    pub version: Version,
    pub nonce: String,
    pub at: Timestamp,
    pub bytes: usize,
}

/// A response that the proxy refused.
#[derive(Clone, Debug)]
pub struct Nack {
    pub rejection: Arc<Rejection>,
    /// Paths of the objects behind the refused resources, as the resources' metadata names them.
    pub objects: Vec<String>,
    pub at: Timestamp,
}

/// How a type stands, in Istio's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncStatus {
    /// Nothing was sent.
    NotSent,
    Synced,
    /// Sent and not answered yet.
    Stale,
    Error,
}

impl TypeState {
    pub fn status(&self) -> SyncStatus {
        match (&self.sent, &self.nack, &self.accepted) {
            (None, ..) => SyncStatus::NotSent,
            (Some(_), Some(_), _) => SyncStatus::Error,
            (Some(sent), None, Some((accepted, _))) if sent.version == *accepted => {
                SyncStatus::Synced
            }
            _ => SyncStatus::Stale,
        }
    }
}

/// Who opened a stream.
pub(crate) struct Opened {
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) identity: Option<Identity>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) variant: Variant,
    pub(crate) since: Timestamp,
    pub(crate) shown: Option<Certificate>,
    pub(crate) class: Arc<Class>,
}

impl Connection {
    pub(crate) fn class(&self) -> Arc<Class> {
        self.class.read().clone()
    }

    /// The proxy's class is another one now.
    pub(crate) fn move_to(&self, class: Arc<Class>) {
        *self.class.write() = class;
        self.moved.notify_one();
    }

    /// What the agent said of the proxy's roots and certificate, and when; None if it never did.
    pub fn trust(&self) -> Option<(TrustReport, Timestamp)> {
        self.trust.lock().clone()
    }

    pub(crate) fn set_trust(&self, report: TrustReport, at: Timestamp) {
        *self.trust.lock() = Some((report, at));
    }

    /// Ends the stream; the proxy will come back.
    pub fn close(&self) {
        self.close.cancel();
    }

    pub fn types(&self) -> BTreeMap<TypeUrl, TypeState> {
        self.types.lock().clone()
    }

    /// What the proxy should have of a type.
    pub fn resources(&self, kind: crate::Kind) -> Option<Arc<Set>> {
        self.class().set(kind)
    }

    pub(crate) fn subscribed(&self, type_url: &TypeUrl, interest: &Interest) {
        let mut types = self.types.lock();
        let state = types.entry(type_url.clone()).or_default();
        (state.all, state.names) = (interest.all, interest.names.len());
    }

    pub(crate) fn sent(&self, response: &Response, at: Timestamp) {
        let mut types = self.types.lock();
        let state = types.entry(response.type_url.clone()).or_default();
        state.pushes += 1;
        let (version, nonce, bytes) =
            (response.version, response.nonce.clone(), response.body_bytes());
        state.sent = Some(Sent { version, nonce, at, bytes });
    }

    /// Gives the refusal if it is one.
    pub(crate) fn answered(
        &self,
        type_url: &TypeUrl,
        verdict: &Verdict,
        refused: Option<&Set>,
        at: Timestamp,
    ) -> Option<Arc<Nack>> {
        let mut types = self.types.lock();
        let state = types.entry(type_url.clone()).or_default();
        match verdict {
            Verdict::Accepted { version } => {
                state.accepted = Some((*version, at));
                state.nack = None;
                None
            }
            Verdict::Rejected(rejection) => {
                let objects = refused.map(|set| objects(rejection, set)).unwrap_or_default();
                let nack = Arc::new(Nack { rejection: rejection.clone(), objects, at });
                state.nack = Some(nack.clone());
                Some(nack)
            }
        }
    }

    /// The node as status shows it: the id and the cluster, without the rest of the metadata.
    pub fn node(&self) -> Node {
        let fields = [
            ("CLUSTER_ID", self.proxy.cluster.to_string()),
            ("NAMESPACE", self.proxy.namespace.to_string()),
            ("ISTIO_VERSION", self.proxy.metadata.text("ISTIO_VERSION").unwrap_or_default()),
        ];
        let fields = fields.into_iter().map(|(k, v)| (k.to_owned(), serde_json::Value::from(v)));
        let metadata = fields.collect::<serde_json::Map<_, _>>().into();
        Node { id: self.proxy.id.to_string(), metadata: Some(metadata), ..Node::default() }
    }
}

/// Objects that the refused resources name in their metadata (`istio.config`).
fn objects(rejection: &Rejection, set: &Set) -> Vec<String> {
    let refused = rejection.resources.iter().filter_map(|name| set.get(name));
    let mut paths: Vec<String> = refused.flat_map(|r| paths_in(r.body())).collect();
    paths.sort();
    paths.dedup();
    paths.truncate(32);
    paths
}

/// Texts that read `/apis/GROUP/VERSION/namespaces/NS/KIND/NAME` in an encoded message. The message
/// may be of any type, so it is searched as bytes.
fn paths_in(body: &[u8]) -> Vec<String> {
    const START: &[u8] = b"/apis/";
    let in_path = |b: &u8| b.is_ascii_alphanumeric() || b"/.-_".contains(b);
    let starts = body.windows(START.len()).enumerate().filter(|(_, w)| *w == START);
    let found = starts.filter_map(|(at, _)| {
        let rest = &body[at..];
        let end = rest.iter().position(|b| !in_path(b)).unwrap_or(rest.len()).min(1024);
        let text = std::str::from_utf8(&rest[..end]).ok()?;
        (text.split('/').count() == 8).then(|| text.to_owned())
    });
    found.take(32).collect()
}

/// All connections.
#[derive(Default)]
pub(crate) struct Connections {
    open: RwLock<BTreeMap<u64, Arc<Connection>>>,
    last: AtomicU64,
}

impl Connections {
    /// Enters a connection; the number is for `remove`.
    pub(crate) fn add(&self, opened: Opened) -> (u64, Arc<Connection>) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let connection = Arc::new(Connection {
            id: format!("{}-{number}", opened.proxy.id),
            proxy: opened.proxy,
            identity: opened.identity,
            peer: opened.peer,
            variant: opened.variant,
            since: opened.since,
            types: Mutex::default(),
            trust: Mutex::default(),
            shown: opened.shown,
            class: RwLock::new(opened.class),
            moved: Notify::new(),
            close: CancellationToken::new(),
        });
        self.open.write().insert(number, connection.clone());
        (number, connection)
    }

    pub(crate) fn remove(&self, number: u64) {
        self.open.write().remove(&number);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Connection>> {
        self.open.read().values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.read().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_in_encoded_metadata() {
        let path = "/apis/networking.istio.io/v1/namespaces/foo/virtual-service/bar";
        let body = [b"\x0a\x40".as_slice(), path.as_bytes(), b"\x12\x02/apis/x"].concat();
        assert_eq!(paths_in(&body), [path]);
        assert!(paths_in(b"/apis/").is_empty());
    }

    #[test]
    fn a_type_stands_as_it_was_answered_last() {
        let at = Timestamp::UNIX_EPOCH;
        let (one, two) = (Version::of(b"1"), Version::of(b"2"));
        let mut state = TypeState::default();
        assert_eq!(state.status(), SyncStatus::NotSent);
        state.sent = Some(Sent { version: one, nonce: "1".into(), at, bytes: 0 });
        assert_eq!(state.status(), SyncStatus::Stale);
        state.accepted = Some((one, at));
        assert_eq!(state.status(), SyncStatus::Synced);
        state.sent = Some(Sent { version: two, nonce: "2".into(), at, bytes: 0 });
        assert_eq!(state.status(), SyncStatus::Stale);
    }
}
