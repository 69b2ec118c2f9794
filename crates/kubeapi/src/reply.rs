//! From what a verb returns to an HTTP answer: one object, a list or a document, in the format and
//! shape the client asked for.
//!
//! Objects in their stored version are answered as the stored bytes, without parsing them.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WARNING};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::accept::{Accept, Shape};
use crate::body::{Body, Format, full};
use crate::registry::Definition;
use crate::status::Status;
use crate::store::Object;
use crate::table::{self, Include};

/// A part of a list.
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) revision: u64,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

/// What a verb returns.
pub(crate) enum Reply {
    Object {
        code: u16,
        object: Arc<Object>,
    },
    /// An object that is not stored: a dry run, a Scale, a review, a Status.
    Value {
        code: u16,
        value: Value,
    },
    Page(Page),
    /// Already an answer: watches, logs, upgrades.
    Response(Response<Body>),
}

/// What is needed to render.
pub(crate) struct Render<'a> {
    pub(crate) accept: Accept,
    pub(crate) include: Include,
    pub(crate) definition: &'a dyn Definition,
    pub(crate) now: std::time::SystemTime,
}

impl Render<'_> {
    pub(crate) fn reply(&self, reply: Reply) -> Response<Body> {
        match reply {
            Reply::Object { code, object } => self.object(code, &object),
            Reply::Value { code, value } => self.value(code, value),
            Reply::Page(page) => self.page(&page),
            Reply::Response(response) => response,
        }
    }

    fn object(&self, code: u16, object: &Object) -> Response<Body> {
        if self.accept.shape == Shape::Object && self.accept.format == Format::Json {
            return json_bytes(code, bytes_in_version(self.definition, object));
        }
        self.value(code, value_in_version(self.definition, object))
    }

    fn value(&self, code: u16, value: Value) -> Response<Body> {
        let own = value["kind"] == *self.definition.names().kind;
        let value = match self.accept.shape {
            Shape::Metadata if own => table::metadata(&value),
            Shape::Table if own => {
                let meta = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                table::table(self.definition, &[value], &meta, self.include, self.now)
            }
            _ => value,
        };
        encoded(code, self.accept.format, &value)
    }

    fn page(&self, page: &Page) -> Response<Body> {
        let mut meta = json!({"resourceVersion": page.revision.to_string()});
        if let Some(next) = &page.next {
            meta["continue"] = next.as_str().into();
        }
        if let Some(remaining) = page.remaining {
            meta["remainingItemCount"] = remaining.into();
        }
        let names = self.definition.names();
        if self.accept.shape == Shape::Object && self.accept.format == Format::Json {
            return json_bytes(200, list_bytes(self.definition, page, &meta));
        }
        let items = page.objects.iter().map(|object| value_in_version(self.definition, object));
        let list = match self.accept.shape {
            Shape::Object => json!({
                "kind": &*names.list_kind,
                "apiVersion": names.api_version(),
                "metadata": meta,
                "items": items.collect::<Vec<_>>(),
            }),
            Shape::Metadata => json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": meta,
                "items": items.map(|item| table::metadata(&item)).collect::<Vec<_>>(),
            }),
            Shape::Table => {
                let items: Vec<_> = items.collect();
                table::table(self.definition, &items, &meta, self.include, self.now)
            }
        };
        encoded(200, self.accept.format, &list)
    }
}

/// The list as JSON, put together from stored bytes.
fn list_bytes(definition: &dyn Definition, page: &Page, meta: &Value) -> Bytes {
    let names = definition.names();
    let size: usize = page.objects.iter().map(|object| object.bytes.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 256);
    let head = format!(
        "{{\"kind\":{:?},\"apiVersion\":{:?},\"metadata\":{meta},\"items\":[",
        &*names.list_kind,
        names.api_version()
    );
    out.extend_from_slice(head.as_bytes());
    for (index, object) in page.objects.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&bytes_in_version(definition, object));
    }
    out.extend_from_slice(b"]}");
    out.into()
}

pub(crate) fn value_in_version(definition: &dyn Definition, object: &Object) -> Value {
    definition.from_storage(object.value())
}

pub(crate) fn bytes_in_version(definition: &dyn Definition, object: &Object) -> Bytes {
    let same_version = *object.api_version == *definition.names().api_version();
    if same_version && definition.answers_stored_bytes() {
        return object.bytes.clone();
    }
    let value = value_in_version(definition, object);
    serde_json::to_vec(&value).expect("a value is always encodable").into()
}

fn encoded(code: u16, format: Format, value: &Value) -> Response<Body> {
    match format {
        // Nobody is answered in protobuf: who asks for it also takes JSON.
        Format::Json | Format::Protobuf => json_bytes(code, value.to_string().into()),
        Format::Yaml => {
            let text = serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string());
            response(code, "application/yaml", full(text))
        }
    }
}

pub(crate) fn json(code: u16, value: &Value) -> Response<Body> {
    json_bytes(code, value.to_string().into())
}

pub(crate) fn json_bytes(code: u16, bytes: Bytes) -> Response<Body> {
    response(code, "application/json", full(bytes))
}

pub(crate) fn text(code: u16, text: impl Into<String>) -> Response<Body> {
    response(code, "text/plain; charset=utf-8", full(text.into()))
}

pub(crate) fn response(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A refusal as an answer. Errors are JSON whatever was asked for, unless it was YAML.
pub(crate) fn refusal(status: &Status) -> Response<Body> {
    let mut response = json(status.code, &status.to_json());
    let retry = status.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64());
    if let Some(seconds) = retry {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Room for all warnings of one answer.
const WARNINGS: usize = 4096;

/// Adds `Warning: 299 - "text"` headers, each text once.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    let mut room = WARNINGS;
    for (index, warning) in warnings.iter().enumerate() {
        if warnings[..index].contains(warning) {
            continue;
        }
        let quoted: String = warning
            .chars()
            .filter(|c| !c.is_control())
            .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
            .collect();
        if quoted.len() > room {
            return;
        }
        room -= quoted.len();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}
