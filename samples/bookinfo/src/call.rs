//! Asking the next service: passes trace headers on, waits a bounded time, reads a bounded answer.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// Headers that tie the spans of one request together, or that route it, in every tracing
/// system a mesh may be set up with.
const PASS_ON: &[&str] = &[
    "x-request-id",
    "x-ot-span-context",
    "x-datadog-trace-id",
    "x-datadog-parent-id",
    "x-datadog-sampling-priority",
    "traceparent",
    "tracestate",
    "x-cloud-trace-context",
    "grpc-trace-bin",
    "sw8",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-flags",
    "b3",
    "end-user",
    "user-agent",
    "authorization",
    "cookie",
];

const LIMIT: usize = 1 << 20;

/// A client for JSON services.
#[derive(Clone)]
pub(crate) struct Caller(Client<HttpConnector, Body>);

impl Caller {
    pub(crate) fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }

    /// The answer of `url`, or the status and a reason to show.
    pub(crate) async fn json(
        &self,
        url: &str,
        headers: HeaderMap,
        timeout: Duration,
    ) -> Result<Value, (StatusCode, String)> {
        let unreachable = |why: String| (StatusCode::SERVICE_UNAVAILABLE, why);
        let mut request = Request::get(url)
            .body(Body::empty())
            .map_err(|e| unreachable(format!("{url} is not an address: {e}")))?;
        *request.headers_mut() = headers;
        let answer = tokio::time::timeout(timeout, async {
            let response = self.0.request(request).await.map_err(|e| {
                unreachable(format!(
                    "{url}: {}",
                    std::error::Error::source(&e)
                        .map_or_else(|| e.to_string(), ToString::to_string)
                ))
            })?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LIMIT).collect().await;
            let body = body.map_err(|e| unreachable(format!("{url}: {e}")))?.to_bytes();
            if !status.is_success() {
                return Err((status, format!("{url} answered {status}")));
            }
            serde_json::from_slice(&body)
                .map_err(|e| (StatusCode::BAD_GATEWAY, format!("{url} is not JSON: {e}")))
        });
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err((
                StatusCode::GATEWAY_TIMEOUT,
                format!("{url} did not answer within {} s", timeout.as_secs_f32()),
            )),
        }
    }
}

/// The headers of `incoming` that the next request carries.
pub(crate) fn passed_on(incoming: &HeaderMap) -> HeaderMap {
    let mut out = HeaderMap::new();
    for name in PASS_ON {
        for value in incoming.get_all(*name) {
            out.append(HeaderName::from_static(name), value.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_headers_go_on_and_others_do_not() {
        let mut incoming = HeaderMap::new();
        incoming.insert("x-b3-traceid", "7".parse().unwrap());
        incoming.insert("x-forwarded-client-cert", "secret".parse().unwrap());
        let out = passed_on(&incoming);
        assert_eq!(out.len(), 1);
        assert_eq!(out["x-b3-traceid"], "7");
    }
}
