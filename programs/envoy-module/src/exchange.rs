//! The HTTP filter: tells peers who we are, hears who they are, and gathers what only a filter can ask.
//!
//! The application and the world outside never see the headers: requests of clients lose them, and only
//! clusters inside the mesh get ours.

use std::sync::Arc;

use ironsail_telemetry::peer::{HEADER, HEADER_ID};
use ironsail_telemetry::{Direction, Filter, Peer, config};

use crate::abi::{Attribute, Buffer, Headers, Level, Ours, Source, Stream, Theirs, guard, log};
use crate::bootstrap::own;
use crate::{handoff, recall, table};

/// Messages that the filter `grpc_stats` counted, as `REQUEST,RESPONSE`.
const GRPC_STATS: &str = "envoy.filters.http.grpc_stats";
const ISTIO: &str = "istio";

/// One stream.
struct Exchange {
    direction: Direction,
    peer: Option<Arc<Peer>>,
    /// The client sent its own metadata over mTLS, so it gets ours.
    answer: bool,
}

impl Exchange {
    fn request(&mut self, stream: Stream<'_>) {
        match self.direction {
            Direction::Inbound => {
                let said = stream.header(Headers::Request, HEADER);
                self.peer = said.and_then(recall::header);
                self.answer = said.is_some() && stream.flag(Attribute::ConnectionMtls);
                forget(stream, Headers::Request);
            }
            Direction::Outbound => match own().filter(|_| is_in_the_mesh(stream)) {
                Some(own) => {
                    stream.set_header(Headers::Request, HEADER, Some(&own.header));
                    stream.set_header(Headers::Request, HEADER_ID, Some(&own.id));
                }
                // What a client put there is no business of others.
                None => forget(stream, Headers::Request),
            },
        }
    }

    fn response(&mut self, stream: Stream<'_>) {
        match self.direction {
            Direction::Inbound => {
                // The application has no say in who we are.
                forget(stream, Headers::Response);
                if let Some(own) = own().filter(|_| self.answer) {
                    stream.set_header(Headers::Response, HEADER, Some(&own.header));
                    stream.set_header(Headers::Response, HEADER_ID, Some(&own.id));
                }
            }
            Direction::Outbound => {
                let said = stream.header(Headers::Response, HEADER);
                self.peer = said.and_then(recall::header);
                forget(stream, Headers::Response);
            }
        }
    }

    fn complete(&mut self, stream: Stream<'_>) {
        let peer = self.peer.take().or_else(|| match self.direction {
            Direction::Inbound => stream.attribute(Attribute::SourceAddress).and_then(table::find),
            Direction::Outbound => stream
                .metadata(Source::Host, ISTIO, "workload")
                .and_then(recall::endpoint)
                .or_else(|| stream.attribute(Attribute::UpstreamAddress).and_then(table::find)),
        });
        let service =
            stream.metadata(Source::Cluster, ISTIO, config::SERVICE_KEY).and_then(recall::service);
        let messages = stream.filter_state(GRPC_STATS).and_then(|text| {
            let (requests, responses) = text.split_once(',')?;
            Some((requests.parse().ok()?, responses.parse().ok()?))
        });
        handoff::put(handoff::Known {
            connection: stream.number(Attribute::ConnectionId).unwrap_or_default(),
            peer,
            service,
            messages,
            grpc_status: stream.number(Attribute::ResponseGrpcStatus),
        });
    }
}

fn forget(stream: Stream<'_>, headers: Headers) {
    for name in [HEADER, HEADER_ID] {
        if stream.header(headers, name).is_some() {
            stream.set_header(headers, name, None);
        }
    }
}

/// Whether the request goes to a service of the mesh.
fn is_in_the_mesh(stream: Stream<'_>) -> bool {
    let cluster = stream.attribute(Attribute::ClusterName).unwrap_or_default();
    cluster.starts_with("outbound") && !stream.metadata_flag(Source::Cluster, ISTIO, "external")
}

/// # Safety
/// `ours` came from `envoy_dynamic_module_on_http_filter_new` and is not destroyed yet.
unsafe fn exchange<'a>(ours: Ours) -> &'a mut Exchange {
    // SAFETY: Envoy calls the hooks of one stream on one thread, one after the other.
    unsafe { &mut *ours.cast::<Exchange>().cast_mut() }
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    _config: Theirs,
    _name: Buffer,
    text: Buffer,
) -> Ours {
    guard(std::ptr::null(), || {
        // SAFETY: the text is valid during the hook.
        let text = unsafe { text.text() }.unwrap_or_default();
        match serde_json::from_str::<Filter>(text) {
            Ok(filter) => Box::into_raw(Box::new(filter)).cast_const().cast(),
            Err(error) => {
                log(Level::Error, &format!("telemetry: the filter's configuration: {error}"));
                std::ptr::null()
            }
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(config: Ours) {
    // SAFETY: made by `config_new`, destroyed once.
    guard((), || unsafe { drop(Box::from_raw(config.cast::<Filter>().cast_mut())) });
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_new(config: Ours, _filter: Theirs) -> Ours {
    guard(std::ptr::null(), || {
        // SAFETY: made by `config_new`, not destroyed while filters are made of it.
        let Filter { direction } = unsafe { *config.cast::<Filter>() };
        let exchange = Exchange { direction, peer: None, answer: false };
        Box::into_raw(Box::new(exchange)).cast_const().cast()
    })
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_destroy(ours: Ours) {
    // SAFETY: made by `new`, destroyed once.
    guard((), || unsafe { drop(Box::from_raw(ours.cast::<Exchange>().cast_mut())) });
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    filter: Theirs,
    ours: Ours,
    _end: bool,
) -> u32 {
    // SAFETY: both are of the stream whose hook this is.
    guard((), || unsafe { exchange(ours).request(Stream::new(filter)) });
    0
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_response_headers(
    filter: Theirs,
    ours: Ours,
    _end: bool,
) -> u32 {
    // SAFETY: both are of the stream whose hook this is.
    guard((), || unsafe { exchange(ours).response(Stream::new(filter)) });
    0
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(filter: Theirs, ours: Ours) {
    // SAFETY: both are of the stream whose hook this is.
    guard((), || unsafe { exchange(ours).complete(Stream::new(filter)) });
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_request_body() -> u32 {
    0
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_request_trailers() -> u32 {
    0
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_response_body() -> u32 {
    0
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_response_trailers() -> u32 {
    0
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_http_callout_done() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_headers() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_data() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_trailers() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_complete() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_reset() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_scheduled() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark() {}
