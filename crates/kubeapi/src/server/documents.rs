//! Paths that are no resource: discovery, OpenAPI, health, version and the OIDC documents.

use http::header::{CACHE_CONTROL, EXPIRES, HeaderValue};
use http::request::Parts;
use http::{Method, Response};

use super::Shared;
use crate::accept::wants_aggregated_discovery;
use crate::body::{Body, full};
use crate::discovery;
use crate::reply;
use crate::status::Status;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Asked for with an `@`, which is no media type, and so answered without it.
const OPENAPI_V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const OPENAPI_V2_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

pub(super) fn answer(shared: &Shared, parts: &Parts, path: &str) -> Response<Body> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return reply::refusal(&Status::method_not_allowed());
    }
    let registry = &shared.registry;
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let found = match segments.as_slice() {
        [] => Some(root()),
        ["healthz" | "livez" | "readyz", ..] => return reply::text(200, "ok"),
        ["version"] => Some(discovery::version()),
        ["api" | "apis"] if wants_aggregated_discovery(&parts.headers) => {
            let document = discovery::aggregated(registry, segments == ["api"]);
            return reply::response(200, AGGREGATED, full(document.to_string()));
        }
        ["api"] => Some(discovery::core_versions()),
        ["apis"] => Some(discovery::group_list(registry)),
        ["api", version] => discovery::resource_list(registry, "", version),
        ["apis", group] => discovery::group(registry, group),
        ["apis", group, version] => discovery::resource_list(registry, group, version),
        ["openapi", "v2"] => return openapi_v2(parts),
        ["openapi", "v3"] => return reply::json(200, &discovery::index(registry)),
        ["openapi", "v3", "api", version] => return openapi_v3(shared, parts, "", version),
        ["openapi", "v3", "apis", group, version] => {
            return openapi_v3(shared, parts, group, version);
        }
        [".well-known", "openid-configuration"] => Some(shared.tokens.discovery()),
        ["openid", "v1", "jwks"] => {
            let keys = shared.tokens.key_set().to_string();
            return reply::response(200, "application/jwk-set+json", full(keys));
        }
        _ => None,
    };
    match found {
        Some(document) => reply::json(200, &document),
        None => reply::text(404, "404 page not found\n"),
    }
}

/// One document. Asked for by its hash it never changes, so that `kubectl` need not ask again.
fn openapi_v3(shared: &Shared, parts: &Parts, group: &str, version: &str) -> Response<Body> {
    const YEAR: i64 = 365 * 24 * 3600;
    let Some(document) = discovery::document(&shared.registry, group, version) else {
        return reply::text(404, "404 page not found\n");
    };
    let mut response = reply::json(200, &document);
    let index = discovery::index(&shared.registry);
    let path = parts.uri.path().trim_start_matches("/openapi/v3/");
    let asked = parts.uri.path_and_query().map(http::uri::PathAndQuery::as_str);
    if index["paths"][path]["serverRelativeURL"].as_str() == asked {
        let now = i64::try_from(shared.clock.since_epoch().as_secs()).unwrap_or_default();
        let until = jiff::Timestamp::from_second(now + YEAR).unwrap_or(jiff::Timestamp::MAX);
        let until = until.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        headers.extend(HeaderValue::try_from(until).ok().map(|until| (EXPIRES, until)));
    }
    response
}

/// The older document without any kind in it. `kubectl` asks for it about kinds that cannot be
/// patched (reviews, which version 3 leaves open) and takes a missing one for a failure; what it
/// does not find there it sends as it is, and it is checked here.
fn openapi_v2(parts: &Parts) -> Response<Body> {
    let accept = parts.headers.get(http::header::ACCEPT).and_then(|value| value.to_str().ok());
    if accept.is_some_and(|accept| accept.contains(OPENAPI_V2_PROTOBUF)) {
        // Field 1, the version "2.0".
        return reply::response(200, OPENAPI_V2_ANSWER, full(&b"\x0a\x032.0"[..]));
    }
    let info = serde_json::json!({"title": "Kubernetes", "version": "v1.36.0"});
    reply::json(200, &serde_json::json!({"swagger": "2.0", "info": info, "paths": {}}))
}

fn root() -> serde_json::Value {
    serde_json::json!({"paths": [
        "/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/healthz", "/livez",
        "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/readyz", "/version",
    ]})
}
