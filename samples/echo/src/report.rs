//! What a request looked like from here, as one JSON object.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use serde::Serialize;

/// Who answers; the same in every report of one process.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Who {
    pub(crate) hostname: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) service: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) node: String,
}

/// The connection a request came in on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Connection {
    #[serde(flatten)]
    pub(crate) who: Arc<Who>,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<Arc<TlsSeen>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TlsSeen {
    pub(crate) version: String,
    pub(crate) sni: Option<String>,
    pub(crate) alpn: Option<String>,
    /// URI and DNS names in the client's certificate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) client_names: Vec<String>,
}

/// One request.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) connection: Connection,
    /// `HTTP/1.1`, `HTTP/2.0`, `gRPC`, `WebSocket`, `TCP`.
    pub(crate) protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) authority: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, Vec<String>>,
    pub(crate) body: String,
}

impl Report {
    pub(crate) fn new(connection: Connection, protocol: impl Into<String>, body: &[u8]) -> Self {
        Self {
            connection,
            protocol: protocol.into(),
            method: None,
            authority: None,
            path: None,
            headers: BTreeMap::new(),
            body: String::from_utf8_lossy(body).into_owned(),
        }
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("a report has only strings and maps of strings")
    }
}

pub(crate) fn header_lists(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        lists.entry(name.as_str().to_owned()).or_default().push(value);
    }
    lists
}
