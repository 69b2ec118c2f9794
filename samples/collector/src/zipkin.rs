//! Zipkin's API: `POST /api/v2/spans` with a list of spans in JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;

use crate::store::{Span, Store};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reported {
    trace_id: String,
    id: String,
    #[serde(default)]
    parent_id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    local_endpoint: Endpoint,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Endpoint {
    service_name: String,
}

pub(crate) async fn spans(
    State(store): State<Arc<Store>>,
    Json(spans): Json<Vec<Reported>>,
) -> StatusCode {
    store.add_spans(spans.into_iter().map(|span| Span {
        protocol: "zipkin",
        trace: span.trace_id,
        id: span.id,
        parent: span.parent_id,
        name: span.name,
        kind: span.kind,
        service: span.local_endpoint.service_name,
        tags: span.tags,
    }));
    StatusCode::ACCEPTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_report_of_zipkin_s_api_is_understood() {
        let store = Arc::new(Store::default());
        let text = r#"[{"traceId": "1", "id": "2", "parentId": "1", "name": "a", "kind": "CLIENT",
            "localEndpoint": {"serviceName": "s", "ipv4": "1.2.3.4"}, "tags": {"k": "v"}},
            {"traceId": "1", "id": "1"}]"#;
        let spans: Vec<Reported> = serde_json::from_str(text).unwrap();
        super::spans(State(store.clone()), Json(spans)).await;
        let kept = store.spans();
        assert_eq!((kept.len(), kept[0].service.as_str()), (2, "s"));
        assert_eq!(kept[1].parent, "");
    }
}
