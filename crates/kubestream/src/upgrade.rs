//! From a request with `Upgrade` headers to the answer 101 and the connection behind it.

use base64::Engine as _;
use futures::future::BoxFuture;
use http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

const SPDY: &str = "SPDY/3.1";
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// An accepted upgrade: send `response` and let `session` run beside it. The session ends when the
/// work is done or the client is gone; dropping it ends the work.
pub struct Upgrade {
    pub response: Response<()>,
    pub session: BoxFuture<'static, ()>,
}

/// The request cannot be upgraded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    pub code: u16,
    pub message: String,
}

impl Refused {
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self { code: 400, message: message.into() }
    }
}

/// How the client wants to speak, and the protocol in it that both know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    WebSocket(&'static str),
    Spdy(&'static str),
}

/// What is needed to go on after the answer was sent.
pub(crate) struct Accepted {
    pub(crate) wire: Wire,
    pub(crate) response: Response<()>,
    pub(crate) on_upgrade: OnUpgrade,
}

/// Chooses a protocol. `websocket` and `spdy` are those that we speak, the best one first.
pub(crate) fn negotiate(
    parts: &mut Parts,
    websocket: &'static [&'static str],
    spdy: &'static [&'static str],
) -> Result<Accepted, Refused> {
    let headers = &parts.headers;
    let is_upgrade = tokens(headers, &CONNECTION).any(|t| t.eq_ignore_ascii_case("upgrade"));
    let wanted = headers.get(UPGRADE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let (wire, response) = if is_upgrade && wanted.eq_ignore_ascii_case("websocket") {
        let protocol = choose(headers, &SEC_WEBSOCKET_PROTOCOL, websocket, 400)?;
        (Wire::WebSocket(protocol), websocket_answer(headers, protocol)?)
    } else if is_upgrade && wanted.eq_ignore_ascii_case(SPDY) {
        let protocol = choose(headers, &STREAM_PROTOCOL, spdy, 403)?;
        let fields = [
            (UPGRADE, HeaderValue::from_static(SPDY)),
            (STREAM_PROTOCOL, HeaderValue::from_static(protocol)),
        ];
        (Wire::Spdy(protocol), switching(fields))
    } else {
        return Err(Refused::bad_request("Upgrade request required"));
    };
    let on_upgrade = parts.extensions.remove::<OnUpgrade>().ok_or_else(|| {
        Refused::bad_request("unable to upgrade: this connection cannot be upgraded, use HTTP/1.1")
    })?;
    Ok(Accepted { wire, response, on_upgrade })
}

fn choose(
    headers: &HeaderMap,
    name: &HeaderName,
    known: &'static [&'static str],
    code: u16,
) -> Result<&'static str, Refused> {
    let offered: Vec<_> = tokens(headers, name).collect();
    known.iter().find(|k| offered.contains(k)).copied().ok_or_else(|| Refused {
        code,
        message: format!(
            "unable to upgrade: unable to negotiate protocol: client supports {offered:?}, server \
             accepts {known:?}"
        ),
    })
}

fn websocket_answer(headers: &HeaderMap, protocol: &'static str) -> Result<Response<()>, Refused> {
    let version = headers.get(SEC_WEBSOCKET_VERSION).map(HeaderValue::as_bytes);
    if version != Some(b"13") {
        return Err(Refused::bad_request("unable to upgrade: WebSocket version 13 is required"));
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    let decoded = base64::engine::general_purpose::STANDARD.decode(key);
    if decoded.is_ok_and(|k| k.len() != 16) || key.is_empty() {
        return Err(Refused::bad_request("unable to upgrade: the WebSocket key is malformed"));
    }
    let accept = HeaderValue::from_str(&derive_accept_key(key))
        .map_err(|_| Refused::bad_request("unable to upgrade: the WebSocket key is malformed"))?;
    Ok(switching([
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_ACCEPT, accept),
        (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol)),
    ]))
}

fn switching(fields: impl IntoIterator<Item = (HeaderName, HeaderValue)>) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.extend(fields);
    response
}

/// The items of a header that may be given several times, each a list.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter();
    values.filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).map(str::trim)
}
