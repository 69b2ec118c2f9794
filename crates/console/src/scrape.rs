//! Asks proxies for their metrics: a few at a time, each for little and not for long.

use std::time::Duration;

use futures::StreamExt;

use crate::exposition::samples;
use crate::fetch::{Error, Fetcher, Longer};
use crate::flow::{Flows, totals};
use crate::world::Scrapeable;

/// Proxies that are asked at the same time.
const AT_ONCE: usize = 24;
const PATIENCE: Duration = Duration::from_secs(3);
/// A busy proxy's metrics are far shorter.
const LONGEST: usize = 16 << 20;
/// The agent's own metrics come first, before those of the proxy and the application.
const AGENT_BEGINNING: usize = 32 << 10;

/// Only what the map shows: a proxy has some thousand numbers more.
const PATH: &str = "/stats/prometheus?usedonly&filter=istio_%28requests_total%7C\
    request_duration_milliseconds%7Ctcp_sent_bytes_total%7Ctcp_received_bytes_total%29";
const EXPIRY: &str = "istio_agent_cert_expiry_seconds";

/// Asks every proxy and hands over what each says, in the order in which they answer.
pub(crate) async fn flows(
    fetcher: &Fetcher,
    proxies: &[Scrapeable],
    mut enter: impl FnMut(&str, Result<Flows, Error>),
) {
    let ask = |proxy: &Scrapeable| {
        let (name, uri) = (proxy.name.clone(), format!("http://{}{PATH}", proxy.metrics));
        async move {
            let text = fetcher.get(&uri, PATIENCE, (LONGEST, Longer::Refuse)).await;
            (name, text.map(|text| totals(&String::from_utf8_lossy(&text))))
        }
    };
    let mut answers = futures::stream::iter(proxies.iter().map(ask)).buffer_unordered(AT_ONCE);
    while let Some((name, answer)) = answers.next().await {
        enter(&name, answer);
    }
}

/// Asks every agent how long its certificate lasts, in seconds.
pub(crate) async fn expiries(
    fetcher: &Fetcher,
    proxies: &[Scrapeable],
    mut enter: impl FnMut(&str, f64),
) {
    let ask = |proxy: &Scrapeable| {
        let (name, uri) = (proxy.name.clone(), format!("http://{}/stats/prometheus", proxy.agent));
        async move {
            let text = fetcher.get(&uri, PATIENCE, (AGENT_BEGINNING, Longer::Cut)).await.ok()?;
            let text = String::from_utf8_lossy(&text);
            let seconds = samples(&text, |name| name == EXPIRY).next().map(|s| s.value)?;
            Some((name, seconds))
        }
    };
    let mut answers = futures::stream::iter(proxies.iter().map(ask)).buffer_unordered(AT_ONCE);
    while let Some(answer) = answers.next().await {
        if let Some((name, seconds)) = answer {
            enter(&name, seconds);
        }
    }
}
