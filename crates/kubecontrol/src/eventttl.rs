//! Events do not stay for ever: every few minutes those past their time are deleted. In: the
//! Events as they are listed; out: deletions.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use ironsail_sys::clock::Clock;

const PAGE: u32 = 200;

/// Looks every sixth of `ttl` (at most every 10 minutes) until `stop`.
pub(crate) async fn run(client: Client, clock: Clock, ttl: Duration, stop: CancellationToken) {
    let every = (ttl / 6).clamp(Duration::from_secs(10), Duration::from_secs(600));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let now = Timestamp::try_from(clock.now()).unwrap_or(Timestamp::UNIX_EPOCH);
        if let Err(error) = sweep(&client, now, ttl).await {
            tracing::warn!(%error, "old events could not be removed, trying again later");
        }
    }
}

async fn sweep(client: &Client, now: Timestamp, ttl: Duration) -> Result<(), kube::Error> {
    let api: Api<Event> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        for event in &page.items {
            let Some(name) = event.metadata.name.as_deref().filter(|_| is_over(event, now, ttl))
            else {
                continue;
            };
            let ns = event.metadata.namespace.as_deref().unwrap_or("default");
            let one: Api<Event> = Api::namespaced(client.clone(), ns);
            match one.delete(name, &DeleteParams::background()).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                other => drop(other?),
            }
        }
        match page.metadata.continue_.filter(|c| !c.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

/// Counted from the last time it was told.
fn is_over(event: &Event, now: Timestamp, ttl: Duration) -> bool {
    let told = [
        event.last_timestamp.as_ref().map(|t| t.0),
        event.event_time.as_ref().map(|t| t.0),
        event.series.as_ref().and_then(|s| s.last_observed_time.as_ref()).map(|t| t.0),
        event.metadata.creation_timestamp.as_ref().map(|t| t.0),
    ];
    let Some(last) = told.into_iter().flatten().max() else { return false };
    Duration::try_from(now.duration_since(last)).is_ok_and(|age| age > ttl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_lives_from_the_last_time_it_was_told() {
        let event = |body| serde_json::from_value::<Event>(body).unwrap();
        let now = "2026-01-01T02:00:00Z".parse().unwrap();
        let hour = Duration::from_secs(3600);
        let old = "2026-01-01T00:30:00Z";
        let born = event(json!({"metadata": {"creationTimestamp": old}, "involvedObject": {}}));
        assert!(is_over(&born, now, hour));
        let again = event(json!({"metadata": {"creationTimestamp": old}, "involvedObject": {},
            "lastTimestamp": "2026-01-01T01:30:00Z"}));
        assert!(!is_over(&again, now, hour));
        assert!(!is_over(&event(json!({"metadata": {}, "involvedObject": {}})), now, hour));
    }
}
