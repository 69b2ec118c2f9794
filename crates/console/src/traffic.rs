//! The traffic of the last minutes: collected from the proxies, or asked of a Prometheus.
//!
//! Proxies are asked every few seconds while somebody looks at the page, and once a minute otherwise,
//! so that there is something to see at once.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fetch::{Error, Fetcher};
use crate::flow::Flows;
use crate::map::{self, Map};
use crate::ring::Ring;
use crate::world::{Certificate, World};
use crate::{prometheus, scrape};

const LOOKED_AT: Duration = Duration::from_secs(5);
const ALONE: Duration = Duration::from_secs(60);
/// Somebody who asked so long ago has gone.
const GONE: Duration = Duration::from_secs(30);
/// Certificates last for hours.
const CERTIFICATES: Duration = Duration::from_secs(30);

/// Where the numbers come from, and how that went the last time.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// `proxies` or `prometheus`
    pub name: String,
    /// Proxies that were asked, and those that did not answer.
    pub asked: usize,
    pub failed: usize,
    /// Why the last one that did not answer did not.
    pub fault: Option<String>,
}

#[derive(Default)]
struct State {
    ring: Ring,
    source: Source,
    /// By `NAMESPACE/POD`: seconds left, and when that was said.
    certificates: FxHashMap<String, (f64, Instant)>,
    looked: Option<Instant>,
    asked_certificates: Option<Instant>,
}

pub struct Traffic {
    state: Mutex<State>,
    fetcher: Fetcher,
    prometheus: Option<String>,
    begin: Instant,
    wake: Notify,
}

impl Traffic {
    /// `prometheus`: its address, if there is one to ask.
    pub fn new(prometheus: Option<String>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            fetcher: Fetcher::new(),
            prometheus,
            begin: Instant::now(),
            wake: Notify::new(),
        })
    }

    /// Collects until told to stop.
    pub async fn run(&self, world: Arc<dyn World>, stop: CancellationToken) {
        loop {
            let begin = Instant::now();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.collect(&*world) => {}
            }
            loop {
                let pause = if self.is_looked_at() { LOOKED_AT } else { ALONE };
                let left = pause.saturating_sub(begin.elapsed());
                if left.is_zero() {
                    break;
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(left) => break,
                    // Somebody came: what is due is another now.
                    () = self.wake.notified() => {}
                }
            }
        }
    }

    async fn collect(&self, world: &dyn World) {
        // Before the list is made, which is whole only then.
        let ready = world.is_ready();
        let proxies = world.scrapeable();
        if self.prometheus.is_none() {
            self.state.lock().ring.keep_proxies(|name| proxies.iter().any(|p| p.name == name));
            let mut source = Source { name: "proxies".to_owned(), ..Source::default() };
            scrape::flows(&self.fetcher, &proxies, |name, answer| {
                source.asked += 1;
                match answer {
                    Ok(flows) => self.state.lock().ring.enter(self.begin.elapsed(), name, flows),
                    Err(error) => {
                        tracing::debug!(target: "console", "metrics of {name}: {error}");
                        source.failed += 1;
                        source.fault = Some(format!("{name}: {error}"));
                    }
                }
            })
            .await;
            let mut state = self.state.lock();
            state.source = source;
            if ready {
                state.ring.complete(self.begin.elapsed());
            }
        }
        let old = |at: Option<Instant>| at.is_none_or(|at| at.elapsed() >= CERTIFICATES);
        if self.is_looked_at() && old(self.state.lock().asked_certificates) {
            let mut found = FxHashMap::default();
            scrape::expiries(&self.fetcher, &proxies, |name, seconds| {
                found.insert(name.to_owned(), (seconds, Instant::now()));
            })
            .await;
            let mut state = self.state.lock();
            state.certificates = found;
            state.asked_certificates = Some(Instant::now());
        }
    }

    fn is_looked_at(&self) -> bool {
        self.state.lock().looked.is_some_and(|at| at.elapsed() < GONE)
    }

    /// Somebody looks.
    pub(crate) fn look(&self) {
        self.state.lock().looked = Some(Instant::now());
        self.wake.notify_one();
    }

    pub(crate) fn certificate(&self, proxy: &str) -> Option<Certificate> {
        let state = self.state.lock();
        let (expires_in, at) = *state.certificates.get(proxy)?;
        let asked = at.elapsed().as_secs_f64();
        Some(Certificate { expires_in: expires_in - asked, asked })
    }

    /// The map of the last `window`.
    pub(crate) async fn map(&self, window: Duration) -> Result<Map, Error> {
        let (flows, seconds, source) = self.flows(window).await?;
        Ok(map::draw(&flows, seconds, source))
    }

    async fn flows(&self, window: Duration) -> Result<(Flows, f64, Source), Error> {
        if let Some(url) = &self.prometheus {
            let flows = prometheus::flows(&self.fetcher, url, window).await?;
            let source = Source { name: "prometheus".to_owned(), ..Source::default() };
            return Ok((flows, window.as_secs_f64(), source));
        }
        let state = self.state.lock();
        let (flows, seconds) = state.ring.within(self.begin.elapsed(), window);
        Ok((flows, seconds, state.source.clone()))
    }
}
