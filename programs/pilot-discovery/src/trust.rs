//! Whom the mesh trusts, put together: the roots of its own authority, those that the mesh configuration
//! adds (`caCertificates`), those of other trust domains, and what was taken back.
//!
//! In: the authority, the mesh configuration, what bundle endpoints serve. Out: the announcement to
//! every agent, what this program's own ports let in, the texts for namespaces, and a page that says
//! all of it. A root of another trust domain never speaks for the mesh's own.

mod federation;
mod page;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use ironsail_ca::{Authority, Domains, Followers};
use ironsail_daemon::task::Supervisor;
use ironsail_discovery::Engine;
use ironsail_identity::tls::Trusted;
use ironsail_identity::{Anchors, Announcement, RootBundle, TrustBundles};
use ironsail_names::TrustDomain;
use ironsail_source::mesh::Mesh;
use tokio::sync::watch;

pub(crate) use federation::{Fetched, Settings, endpoints};
pub(crate) use page::page;

use wanted::Wanted;

/// What others follow.
#[derive(Clone)]
pub(crate) struct Trust {
    /// Whom members of the mesh's own domain are held against: what namespaces get.
    pub(crate) roots: watch::Receiver<RootBundle>,
    /// Certificates that were taken back, as PEM.
    pub(crate) revoked: watch::Receiver<Arc<str>>,
}

/// What is put together.
pub(crate) struct Parts {
    pub(crate) engine: Arc<Engine>,
    /// None where somebody else signs.
    pub(crate) authority: Option<Arc<Authority>>,
    /// The roots of the mesh, and of the certificate that this program shows.
    pub(crate) own: watch::Receiver<RootBundle>,
    pub(crate) domains: Domains,
    pub(crate) mesh: watch::Receiver<Arc<Mesh>>,
    /// Bundle endpoints of domains whose members may come to this program's ports
    /// (`SPIFFE_BUNDLE_ENDPOINTS`).
    pub(crate) endpoints: BTreeMap<TrustDomain, String>,
    /// What clients' certificates are held against; kept right from here.
    pub(crate) trusted: Trusted,
}

/// Starts to follow everything until the program ends.
pub(crate) fn start(parts: Parts, fetch: Settings, tasks: &mut Supervisor) -> Trust {
    let (urls, wanted_urls) = watch::channel(BTreeSet::new());
    let (found, fetched) = watch::channel(BTreeMap::new());
    let (roots, followed) = watch::channel(parts.own.borrow().clone());
    let (revoked, list) = watch::channel("".into());
    let stop = tasks.stop_token();
    tasks.spawn("bundles of other trust domains", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = federation::run(fetch, wanted_urls, found) => {}
        }
        Ok(())
    });
    if let Some(authority) = &parts.authority {
        authority.set_followers(Arc::new(Proxies(Arc::downgrade(&parts.engine))));
    }
    let stop = tasks.stop_token();
    tasks.spawn("whom the mesh trusts", async move {
        let out = Out { urls, roots, revoked };
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow(parts, fetched, out) => {}
        }
        Ok(())
    });
    Trust { roots: followed, revoked: list }
}

struct Out {
    urls: watch::Sender<BTreeSet<String>>,
    roots: watch::Sender<RootBundle>,
    revoked: watch::Sender<Arc<str>>,
}

async fn follow(mut parts: Parts, mut fetched: watch::Receiver<federation::Found>, out: Out) {
    // Without an authority these never change.
    let (never, nothing) = (watch::Sender::new(0_u64), watch::Sender::new(Arc::from("")));
    let authority = parts.authority.clone();
    let mut generation =
        authority.as_ref().map_or_else(|| never.subscribe(), |one| one.generation());
    let mut list = authority.as_ref().map_or_else(|| nothing.subscribe(), |one| one.revoked());
    loop {
        let own = parts.own.borrow_and_update().clone();
        let mesh = parts.mesh.borrow_and_update().clone();
        let found = fetched.borrow_and_update().clone();
        generation.mark_unchanged();
        let wanted = Wanted::of(&mesh.config.ca_certificates, &parts.domains.current());
        out.urls.send_if_modified(|known| {
            let now = wanted.urls().chain(parts.endpoints.values().cloned()).collect();
            let changed = *known != now;
            *known = now;
            changed
        });
        let told = tell(&parts, &wanted, &own, &found);
        replace(&out.roots, told.own);
        replace(&out.revoked, list.borrow_and_update().clone());
        parts.engine.set_trust_facts(told.facts);
        tokio::select! {
            changed = parts.own.changed() => if changed.is_err() { return },
            changed = parts.mesh.changed() => if changed.is_err() { return },
            changed = fetched.changed() => if changed.is_err() { return },
            _ = generation.changed() => {}
            _ = list.changed() => {}
        }
    }
}

fn replace<T: PartialEq>(sender: &watch::Sender<T>, now: T) {
    sender.send_if_modified(|known| {
        let changed = *known != now;
        *known = now;
        changed
    });
}

struct Told {
    own: RootBundle,
    facts: serde_json::Value,
}

/// Announces what is known now.
fn tell(parts: &Parts, wanted: &Wanted, own: &RootBundle, found: &federation::Found) -> Told {
    let domains = parts.domains.current();
    let own = wanted.of_own(found).iter().fold(own.clone(), |all, more| all.and(more));
    let mut others = wanted.of_others(found);
    for (domain, roots) in &mut others {
        // An old name of the mesh: its own roots vouch for it as well.
        if domains.contains(domain) {
            *roots = own.and(roots);
        }
    }
    let names = domains.iter().filter(|domain| !others.contains_key(*domain)).cloned().collect();
    let mut anchors = vec![Anchors { domains: names, roots: own.clone() }];
    anchors.extend(
        others
            .iter()
            .map(|(domain, roots)| Anchors { domains: vec![domain.clone()], roots: roots.clone() }),
    );
    let signer = parts.authority.as_ref().map(|one| one.signing().anchor().fingerprint());
    parts.engine.announce(&Announcement { anchors, signer });
    let mut by_domain = others;
    for (domain, url) in &parts.endpoints {
        if let Some(Fetched { roots: Some(roots), .. }) = found.get(url) {
            let all = by_domain.get(domain).map_or_else(|| roots.clone(), |one| one.and(roots));
            by_domain.insert(domain.clone(), all);
        }
    }
    let facts = page::facts(parts.authority.as_deref(), &own, &by_domain, found, &wanted.problems);
    parts.trusted.set(TrustBundles { own: own.clone(), by_domain });
    Told { own, facts }
}

/// The proxies that this replica serves.
struct Proxies(std::sync::Weak<Engine>);

impl Followers for Proxies {
    fn all_trust<'a>(&'a self, root: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(engine) = self.0.upgrade() else { return std::future::pending().await };
            let mut reports = engine.trust_reports();
            loop {
                reports.mark_unchanged();
                if engine.not_trusting(root).is_empty() {
                    return;
                }
                if reports.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        })
    }
}
