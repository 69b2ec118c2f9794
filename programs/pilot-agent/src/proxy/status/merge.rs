//! Metrics of the agent, the proxy and the application as one text.
//!
//! The three texts are passed on piece by piece, none is held as a whole. The application sees who asks,
//! and how long it may take.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use http_body_util::BodyDataStream;
use ironsail_daemon::metrics::CONTENT_TYPE;
use serde::Deserialize;

use super::Status;
use crate::proxy::admin::Admin;

/// Longest text of the application that is passed on.
const MAX_APPLICATION: usize = 128 << 20;
/// Silence after which a part is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the application has its metrics: what its pod's annotations said.
pub(crate) struct Application {
    admin: Admin,
    path: String,
}

/// `ISTIO_PROMETHEUS_ANNOTATIONS`, as injection writes it.
#[derive(Debug, Deserialize)]
struct Annotations {
    #[serde(default)]
    scrape: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    port: String,
}

impl Application {
    /// None if there is nothing to scrape. `agent_port` is not scraped: it would ask itself.
    pub(crate) fn parse(text: &str, agent_port: u16) -> anyhow::Result<Option<Self>> {
        let annotations: Annotations = serde_json::from_str(text)?;
        if annotations.scrape != "true" {
            return Ok(None);
        }
        let port = match annotations.port.as_str() {
            "" => 80,
            port => port.parse::<u16>()?,
        };
        let path = match annotations.path.as_str() {
            "" => "/metrics".to_owned(),
            path if path.starts_with('/') => path.to_owned(),
            path => format!("/{path}"),
        };
        anyhow::ensure!(port != agent_port, "port {port} is the agent's own");
        Ok(Some(Self { admin: Admin::new(([127, 0, 0, 1], port).into()), path }))
    }
}

pub(super) async fn answer(status: &Status, asked: &HeaderMap) -> Response {
    let own = stream::once(std::future::ready(Bytes::from(status.metrics.text())));
    let proxy = match status.has_proxy {
        true => fetch(&status.proxy_metrics, "/stats/prometheus", &HeaderMap::new(), "proxy").await,
        false => stream::empty().boxed(),
    };
    let application = match &status.application {
        Some(application) => {
            let asked = passed_on(asked);
            fetch(&application.admin, &application.path, &asked, "application").await
        }
        None => stream::empty().boxed(),
    };
    let body = own.chain(proxy).chain(application).map(Ok::<_, std::convert::Infallible>);
    let mut response = Response::new(Body::from_stream(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}

/// What of a scraper's headers the application sees; not the formats it takes, for all parts have one.
fn passed_on(asked: &HeaderMap) -> HeaderMap {
    let names = ["user-agent", "x-prometheus-scrape-timeout-seconds"];
    let found = names.into_iter().filter_map(|name| {
        Some((axum::http::HeaderName::from_static(name), asked.get(name)?.clone()))
    });
    found.collect()
}

/// A part of the whole. One that fails is left out, and said in the log.
async fn fetch(
    from: &Admin,
    path: &str,
    headers: &HeaderMap,
    what: &'static str,
) -> BoxStream<'static, Bytes> {
    let response = match from.send("GET", path, headers).await {
        Ok(response) if response.status().is_success() => response,
        Ok(response) => {
            tracing::warn!(target: "agent", "metrics of the {what}: {}", response.status());
            return stream::empty().boxed();
        }
        Err(error) => {
            tracing::warn!(target: "agent", "metrics of the {what}: {error:#}");
            return stream::empty().boxed();
        }
    };
    let pieces = BodyDataStream::new(response.into_body());
    let begin = (pieces, EndMark::default(), 0_usize);
    stream::unfold(begin, move |(mut pieces, mut mark, mut sent)| async move {
        loop {
            let piece = match tokio::time::timeout(PATIENCE, pieces.next()).await {
                Ok(Some(Ok(piece))) => piece,
                Ok(None) => {
                    let rest = mark.finish()?;
                    return Some((rest, (pieces, EndMark::over(), sent)));
                }
                Ok(Some(Err(_))) | Err(_) => {
                    tracing::warn!(target: "agent", "metrics of the {what} broke off");
                    return None;
                }
            };
            sent += piece.len();
            if sent > MAX_APPLICATION {
                tracing::warn!(target: "agent", "metrics of the {what} are too long, the rest is left out");
                return None;
            }
            let piece = mark.pass(&piece);
            if !piece.is_empty() {
                return Some((piece, (pieces, mark, sent)));
            }
        }
    })
    .boxed()
}

/// Holds back the end mark of OpenMetrics, after which a reader would stop.
#[derive(Default)]
struct EndMark {
    held: Vec<u8>,
    over: bool,
}

const MARK: &[u8] = b"# EOF\n";

impl EndMark {
    fn over() -> Self {
        Self { held: Vec::new(), over: true }
    }

    /// All but what may be the mark.
    fn pass(&mut self, piece: &[u8]) -> Bytes {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(piece);
        let keep = all.len().min(MARK.len());
        self.held = all.split_off(all.len() - keep);
        all.into()
    }

    /// The end, without the mark and with a line's end.
    fn finish(&mut self) -> Option<Bytes> {
        if std::mem::replace(&mut self.over, true) {
            return None;
        }
        let mut rest = std::mem::take(&mut self.held);
        if rest.ends_with(MARK) || rest.ends_with(&MARK[..MARK.len() - 1]) {
            let cut = rest.iter().rposition(|byte| *byte == b'#').unwrap_or(0);
            rest.truncate(cut);
        } else if !rest.is_empty() && !rest.ends_with(b"\n") {
            rest.push(b'\n');
        }
        Some(rest.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(pieces: &[&str]) -> String {
        let mut mark = EndMark::default();
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| out.extend(mark.pass(piece.as_bytes())));
        out.extend(mark.finish().unwrap());
        assert!(mark.finish().is_none());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_end_mark_of_a_part_is_not_the_end_of_the_whole() {
        assert_eq!(through(&["a 1\n# EO", "F\n"]), "a 1\n");
        assert_eq!(through(&["a 1\n# EOF"]), "a 1\n");
        assert_eq!(through(&["a 1"]), "a 1\n");
        assert_eq!(through(&["a 1\n", "b 2\n"]), "a 1\nb 2\n");
        assert_eq!(through(&[]), "");
    }

    #[test]
    fn annotations_say_where_the_application_is() {
        let parse = |text| Application::parse(text, 15020);
        let found = parse(r#"{"scrape":"true","path":"m","port":"9090"}"#).unwrap().unwrap();
        assert_eq!(found.path, "/m");
        assert!(parse(r#"{"scrape":"false"}"#).unwrap().is_none());
        assert!(parse(r#"{"scrape":"true","port":"15020"}"#).is_err());
        assert!(parse("x").is_err());
    }
}
