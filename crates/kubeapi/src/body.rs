//! Bodies: what requests may send (JSON, YAML or protobuf, bounded in size and time) and what answers
//! are.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use crate::kinds;
use crate::status::Status;

/// What the body of a request may hold at most.
pub const LIMIT: usize = 3 << 20;
/// How much more is read and thrown away, so that the client sees the refusal.
const DRAIN: usize = 16 << 20;
/// How long a client may take for the next part of its body.
const PATIENCE: Duration = Duration::from_secs(30);

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Reads a whole body.
pub(crate) async fn read<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body + Send,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut out = BytesMut::new();
    let mut dropped = 0;
    loop {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.map_err(|_| {
            Status::new(408, "Timeout", "Timeout: the body of the request did not arrive in time")
        })?;
        let Some(frame) = frame else {
            return if dropped > 0 { Err(Status::too_large_body(LIMIT)) } else { Ok(out.freeze()) };
        };
        let frame = frame.map_err(|error| {
            Status::bad_request(format!("unable to read the body of the request: {error}"))
        })?;
        if let Ok(mut data) = frame.into_data() {
            if out.len() + data.remaining() > LIMIT {
                // Clients look for the answer only when they have sent everything.
                dropped += data.remaining();
                if dropped > DRAIN {
                    return Err(Status::too_large_body(LIMIT));
                }
                continue;
            }
            while data.has_remaining() {
                let chunk = data.chunk();
                out.extend_from_slice(chunk);
                let length = chunk.len();
                data.advance(length);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    /// Of built-in objects only, and only in requests: answers are JSON.
    Protobuf,
}

/// The media type of a body, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

pub(crate) const MEDIA_TYPES: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The format of an object in a body; without a content type it is JSON.
pub(crate) fn format(headers: &HeaderMap) -> Result<Format, Status> {
    match media_type(headers) {
        "" | "application/json" => Ok(Format::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(Format::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Format::Protobuf),
        _ => Err(Status::unsupported_media_type(MEDIA_TYPES)),
    }
}

/// A parsed body and the fields it gave twice. `expected` is the kind that texts name.
pub(crate) fn parse(
    bytes: &[u8],
    format: Format,
    expected: &str,
) -> Result<(Value, Vec<String>), Status> {
    let unrecognized = |error: &dyn std::fmt::Display| {
        let shown: String = String::from_utf8_lossy(bytes).chars().take(128).collect();
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {expected}): couldn't get \
             version/kind; json parse error: {error} ({shown})"
        ))
    };
    match format {
        Format::Json => {
            let parsed = kinds::parse(bytes).map_err(|error| unrecognized(&error))?;
            Ok((parsed.value, parsed.duplicates))
        }
        Format::Yaml => {
            let text = std::str::from_utf8(bytes).map_err(|error| unrecognized(&error))?;
            let value = yaml(text).map_err(|error| unrecognized(&error))?;
            Ok((value, Vec::new()))
        }
        Format::Protobuf => {
            let value =
                kinds::protobuf::read(bytes).map_err(|e| Status::bad_request(e.to_string()))?;
            Ok((value, Vec::new()))
        }
    }
}

/// The one document of a YAML text.
pub(crate) fn yaml(text: &str) -> Result<Value, String> {
    let mut documents = ironsail_yaml::documents(text).map_err(|error| error.to_string())?;
    match documents.len() {
        0 => Err("there is no document".to_owned()),
        1 => Ok(documents.remove(0)),
        many => Err(format!("there are {many} documents, expected one")),
    }
}
