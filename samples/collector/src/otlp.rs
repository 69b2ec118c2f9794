//! OpenTelemetry's protocol, as far as a proxy speaks it: spans and log records, in protobuf.
//!
//! The messages name only the fields that are kept. gRPC is spoken by hand: one message a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use prost::{Message, Oneof};

use crate::store::{Log, Span, Store};

#[derive(Clone, PartialEq, Message)]
struct Traces {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Logs {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeLogs {
    #[prost(message, repeated, tag = "2")]
    records: Vec<Record>,
}

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(message, optional, tag = "5")]
    body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Number(f64),
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.kind.as_ref()) {
        Some(Kind::Text(text)) => text.clone(),
        Some(Kind::Flag(flag)) => flag.to_string(),
        Some(Kind::Int(int)) => int.to_string(),
        Some(Kind::Number(number)) => number.to_string(),
        None => String::new(),
    }
}

fn pairs(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    pairs.iter().map(|pair| (pair.key.clone(), text(pair.value.as_ref()))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn keep_traces(store: &Store, bytes: Bytes, protocol: &'static str) -> Result<(), String> {
    let traces = Traces::decode(bytes).map_err(|error| error.to_string())?;
    for group in &traces.resources {
        let resource = group.resource.as_ref().map(|r| pairs(&r.attributes)).unwrap_or_default();
        let service = resource.get("service.name").cloned().unwrap_or_default();
        let spans = group.scopes.iter().flat_map(|scope| &scope.spans);
        store.add_spans(spans.map(|span| Span {
            protocol,
            trace: hex(&span.trace),
            id: hex(&span.id),
            parent: hex(&span.parent),
            name: span.name.clone(),
            kind: match span.kind {
                2 => "SERVER".to_owned(),
                3 => "CLIENT".to_owned(),
                _ => String::new(),
            },
            service: service.clone(),
            tags: pairs(&span.attributes),
        }));
    }
    Ok(())
}

pub(crate) async fn http_traces(State(store): State<Arc<Store>>, body: Bytes) -> Response {
    match keep_traces(&store, body, "otlp-http") {
        Ok(()) => ([("content-type", "application/x-protobuf")], Bytes::new()).into_response(),
        Err(why) => (StatusCode::BAD_REQUEST, why).into_response(),
    }
}

pub(crate) async fn grpc_traces(State(store): State<Arc<Store>>, body: Bytes) -> Response {
    answer(&unframed(&body).and_then(|message| keep_traces(&store, message, "otlp-grpc")))
}

pub(crate) async fn grpc_logs(State(store): State<Arc<Store>>, body: Bytes) -> Response {
    answer(&unframed(&body).and_then(|message| {
        let logs = Logs::decode(message).map_err(|error| error.to_string())?;
        for group in &logs.resources {
            let resource =
                group.resource.as_ref().map(|r| pairs(&r.attributes)).unwrap_or_default();
            let records = group.scopes.iter().flat_map(|scope| &scope.records);
            store.add_logs(records.map(|record| Log {
                body: text(record.body.as_ref()),
                attributes: pairs(&record.attributes),
                resource: resource.clone(),
            }));
        }
        Ok(())
    }))
}

/// The message behind gRPC's five bytes.
fn unframed(body: &Bytes) -> Result<Bytes, String> {
    match body.first() {
        Some(0) if body.len() >= 5 => Ok(body.slice(5..)),
        Some(_) => Err("compressed messages are not understood".to_owned()),
        None => Err("no message".to_owned()),
    }
}

/// An empty message and the status behind it.
fn answer(result: &Result<(), String>) -> Response {
    let mut trailers = HeaderMap::new();
    let status = if result.is_ok() { "0" } else { "3" };
    trailers.insert("grpc-status", HeaderValue::from_static(status));
    let frames = [
        Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(&[0; 5]))),
        Ok(Frame::trailers(trailers)),
    ];
    let body = Body::new(StreamBody::new(futures::stream::iter(frames)));
    ([("content-type", "application/grpc")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_their_service_are_read() {
        let pair = |key: &str, value: &str| KeyValue {
            key: key.into(),
            value: Some(AnyValue { kind: Some(Kind::Text(value.into())) }),
        };
        let span = SpanMessage {
            trace: vec![1; 16],
            id: vec![2; 8],
            name: "n".into(),
            kind: 3,
            attributes: vec![pair("a", "b")],
            ..SpanMessage::default()
        };
        let traces = Traces {
            resources: vec![ResourceSpans {
                resource: Some(Resource { attributes: vec![pair("service.name", "s")] }),
                scopes: vec![ScopeSpans { spans: vec![span] }],
            }],
        };
        let store = Store::default();
        keep_traces(&store, traces.encode_to_vec().into(), "otlp-grpc").unwrap();
        let kept = &store.spans()[0];
        assert_eq!(kept.trace, "01".repeat(16));
        assert_eq!((kept.service.as_str(), kept.kind.as_str()), ("s", "CLIENT"));
        assert_eq!(kept.tags["a"], "b");
        assert_eq!(kept.parent, "");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert!(unframed(&Bytes::new()).is_err());
        assert!(unframed(&Bytes::from_static(&[1, 0, 0, 0, 0])).is_err());
        assert!(keep_traces(&Store::default(), Bytes::from_static(&[9, 9]), "x").is_err());
    }
}
