//! Bundles of other trust domains, kept fresh: fetched over HTTPS with bounds, again when they say so,
//! and sooner after a failure. What was fetched once stays until something newer is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use ironsail_ca::FederatedBundle;
use ironsail_identity::RootBundle;
use ironsail_jwks::{Fetcher, Trust};
use ironsail_names::TrustDomain;
use ironsail_sys::clock::Clock;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

const WITHIN: Duration = Duration::from_secs(5);
/// How old a bundle may get that does not say it, and the bounds of those that do.
const REFRESH: Duration = Duration::from_secs(5 * 60);
const OFTEN: Duration = Duration::from_secs(10);
const SELDOM: Duration = Duration::from_secs(60 * 60);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// More than any mesh is federated with.
const MOST: usize = 64;

pub(crate) struct Settings {
    /// Whom the endpoints' own certificates must lead to.
    pub(crate) trust: Trust,
    pub(crate) clock: Clock,
}

/// What came of asking one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// The last ones that were good.
    pub(crate) roots: Option<RootBundle>,
    /// When they were fetched.
    pub(crate) at: Option<SystemTime>,
    /// Why there is nothing newer.
    pub(crate) error: Option<String>,
}

/// By address.
pub(crate) type Found = BTreeMap<String, Fetched>;

/// `DOMAIN|URL`, with `||` between them, as Istio has it.
pub(crate) fn endpoints(text: &str, faults: &mut Vec<String>) -> BTreeMap<TrustDomain, String> {
    let mut all = BTreeMap::new();
    for one in text.split("||").filter(|one| !one.trim().is_empty()) {
        let parsed = one.trim().split_once('|').map(|(domain, url)| (domain.parse(), url));
        match parsed {
            Some((Ok(domain), url)) if url.starts_with("https://") => {
                all.insert(domain, url.to_owned());
            }
            _ => faults.push(format!(
                "SPIFFE_BUNDLE_ENDPOINTS: {one:?} is not TRUST_DOMAIN|https://ADDRESS"
            )),
        }
    }
    all
}

struct Due {
    at: Instant,
    retry: Duration,
}

/// Runs until nobody listens any more.
pub(super) async fn run(
    settings: Settings,
    mut wanted: watch::Receiver<BTreeSet<String>>,
    out: watch::Sender<Found>,
) {
    let fetcher = Fetcher::new(&settings.trust);
    let mut due: BTreeMap<String, Due> = BTreeMap::new();
    loop {
        let now = wanted.borrow_and_update().clone();
        due.retain(|url, _| now.contains(url));
        for url in now.iter().take(MOST) {
            due.entry(url.clone()).or_insert(Due { at: Instant::now(), retry: FIRST_RETRY });
        }
        out.send_if_modified(|found| {
            let before = found.len();
            found.retain(|url, _| now.contains(url));
            for url in now.iter().skip(MOST) {
                let error = Some(format!("the mesh names more than {MOST} bundle endpoints"));
                found.entry(url.clone()).or_default().error = error;
            }
            before != found.len()
        });
        ask(&fetcher, &settings.clock, &mut due, &out).await;
        let next = due.values().map(|due| due.at).min();
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            () = sleep(next) => {}
            () = out.closed() => return,
        }
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Asks those whose time has come, all at once.
async fn ask(
    fetcher: &Fetcher,
    clock: &Clock,
    due: &mut BTreeMap<String, Due>,
    out: &watch::Sender<Found>,
) {
    let now = Instant::now();
    let asked = due.iter().filter(|(_, due)| due.at <= now).map(|(url, _)| async move {
        let document = fetcher.get(url, WITHIN).await.map_err(|error| error.line());
        let bundle = document.and_then(|document| {
            FederatedBundle::parse(&document).map_err(|error| format!("{url}: {error}"))
        });
        (url.clone(), bundle)
    });
    for (url, bundle) in futures::future::join_all(asked).await {
        let Some(next) = due.get_mut(&url) else { continue };
        match bundle {
            Ok(bundle) => {
                let refresh = bundle.refresh.unwrap_or(REFRESH).clamp(OFTEN, SELDOM);
                *next = Due { at: Instant::now() + refresh, retry: FIRST_RETRY };
                let (roots, at) = (Some(bundle.roots), Some(clock.now()));
                out.send_if_modified(|found| {
                    let known = found.entry(url.clone()).or_default();
                    if known.roots != roots {
                        info!(target: "ca", "{url}: a new bundle of roots");
                    }
                    *known = Fetched { roots, at, error: None };
                    true
                });
            }
            Err(why) => {
                warn!(target: "ca", "fetching a bundle of roots: {why}; trying again");
                *next = Due {
                    at: Instant::now() + next.retry,
                    retry: (next.retry * 2).min(LAST_RETRY),
                };
                out.send_modify(|found| found.entry(url).or_default().error = Some(why));
            }
        }
    }
}

#[cfg(test)]
mod tests;
