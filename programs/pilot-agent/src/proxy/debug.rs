//! The control plane's debug data for whoever is in the pod: `/debug/syncz` becomes a question over
//! the proxy's own stream.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::relay::Own;

const PATIENCE: Duration = Duration::from_secs(10);
const TYPE: &str = "istio.io/debug";

/// Serves until told to stop.
pub(crate) async fn serve(
    listener: TcpListener,
    own: Arc<Own>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let router = Router::new().route("/debug/{*page}", get(ask)).with_state(own);
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await?;
    Ok(())
}

async fn ask(
    State(own): State<Arc<Own>>,
    Path(mut page): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    if let Some(query) = query {
        page = format!("{page}?{query}");
    }
    let asked = own.debug(TYPE, vec![page]);
    let answers = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Some(answers)) => answers,
        Ok(None) => {
            let text = "there is no stream to the control plane now\n";
            return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        }
        Err(_) => {
            let text = "the control plane did not answer\n";
            return (StatusCode::GATEWAY_TIMEOUT, text).into_response();
        }
    };
    if answers.is_empty() {
        let text = "the control plane has no such page for this workload\n";
        return (StatusCode::NOT_FOUND, text).into_response();
    }
    let mut text = String::new();
    for answer in answers {
        match std::str::from_utf8(&answer.value) {
            Ok(page) => text += page,
            // Pages are text; JSON of other messages needs descriptors, which are larger than all else.
            Err(_) => {
                let text = format!("the answer is a {}, not text\n", answer.type_url);
                return (StatusCode::BAD_GATEWAY, text).into_response();
            }
        }
    }
    text.into_response()
}
