//! Whom the proxy trusts, by what the control plane announced, and what the proxy has taken of it.
//!
//! In: announcements over discovery, the workload's newest certificate, and acknowledgements of the
//! proxy. Out: roots for the proxy and for the way to the control plane, and a report for the control
//! plane that says only what the proxy acknowledged.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_identity::{
    Anchors, Announcement, Certificate, HeldLeaf, RootBundle, TrustReport, verify_chain,
};
use ironsail_names::TrustDomain;
use ironsail_sys::clock::Clock;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{info, warn};

use super::secret::Bundle;

/// Shared by everything that trusts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Trust(Arc<Inner>);

struct Inner {
    domain: TrustDomain,
    clock: Clock,
    announced: watch::Sender<Option<Arc<Announcement>>>,
    state: Mutex<State>,
    report: watch::Sender<Option<TrustReport>>,
}

#[derive(Default)]
struct State {
    /// What each stream of the proxy has acknowledged.
    taken: BTreeMap<u64, Taken>,
    /// What lies ready for whoever comes.
    ready: Taken,
    last: u64,
}

/// What somebody has: roots, a certificate, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) roots: Option<Vec<String>>,
    pub(crate) leaf: Option<HeldLeaf>,
}

/// Whom to trust now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roots {
    /// For the mesh's own domain and its other names.
    pub(crate) own: RootBundle,
    pub(crate) names: Vec<TrustDomain>,
    /// For other domains.
    pub(crate) others: Vec<Anchors>,
}

impl Trust {
    pub(crate) fn new(domain: TrustDomain, clock: Clock) -> Self {
        let (announced, report) = (watch::Sender::new(None), watch::Sender::new(None));
        Self(Arc::new(Inner { domain, clock, announced, state: Mutex::default(), report }))
    }

    /// The last announcement, as it changes.
    pub(crate) fn announced(&self) -> watch::Receiver<Option<Arc<Announcement>>> {
        self.0.announced.subscribe()
    }

    /// What to tell the control plane; None while it did not ask.
    pub(crate) fn reports(&self) -> watch::Receiver<Option<TrustReport>> {
        self.0.report.subscribe()
    }

    /// Takes an announcement; an error says why it is refused.
    pub(crate) fn hear(&self, body: &[u8]) -> Result<(), String> {
        let heard = Announcement::decode(body).map_err(|error| {
            warn!(target: "ca", "what the control plane announced cannot be read: {error}");
            error.to_string()
        })?;
        self.0.announced.send_if_modified(|known| {
            let changed = known.as_deref() != Some(&heard);
            if changed {
                let roots = heard.own_roots(&self.0.domain);
                info!(target: "ca", roots = roots.map_or(0, |r| r.certificates().len()),
                    "the control plane announced whom to trust");
                *known = Some(Arc::new(heard));
            }
            changed
        });
        self.refresh();
        Ok(())
    }

    /// Whom to trust, for somebody whose certificate came with `roots`. A control plane that says which
    /// root signs knows all of them; what another one announces is trusted besides.
    pub(crate) fn roots(&self, roots: &RootBundle) -> Roots {
        let announced = self.0.announced.borrow().clone();
        let domain = &self.0.domain;
        let Some(announced) = announced else {
            return Roots { own: roots.clone(), names: vec![domain.clone()], others: Vec::new() };
        };
        let own = match (announced.own_roots(domain), &announced.signer) {
            (Some(all), Some(_)) => all,
            (Some(more), None) => roots.and(&more),
            (None, _) => roots.clone(),
        };
        let mut names = vec![domain.clone()];
        names.extend(announced.aliases(domain));
        Roots { own, names, others: announced.others(domain).cloned().collect() }
    }

    /// The certificate in words, with the root that it leads to.
    pub(crate) fn leaf(&self, bundle: &Bundle) -> HeldLeaf {
        let (chain, roots) = (bundle.credential.chain(), self.roots(&bundle.roots).own);
        // The one that it came with may not be trusted any more.
        let known = roots.and(&bundle.roots);
        let root = verify_chain(&chain[0], &chain[1..], known.certificates(), self.0.clock.now());
        let until = chain[0].not_after().duration_since(std::time::SystemTime::UNIX_EPOCH);
        HeldLeaf {
            root: root.map(Certificate::fingerprint).unwrap_or_default(),
            fingerprint: chain[0].fingerprint(),
            not_after: until.unwrap_or_default().as_secs(),
        }
    }

    /// Whether the control plane signs with another root than that of the certificate.
    pub(crate) fn is_superseded(&self, bundle: &Bundle) -> bool {
        let announced = self.0.announced.borrow().clone();
        let signer = announced.and_then(|announced| announced.signer.clone());
        signer.is_some_and(|signer| self.leaf(bundle).root != signer)
    }

    /// A certificate lies ready.
    pub(crate) fn ready(&self, bundle: &Bundle) {
        let roots = fingerprints(&self.roots(&bundle.roots).own);
        let ready = Taken { roots: Some(roots), leaf: Some(self.leaf(bundle)) };
        self.0.state.lock().ready = ready;
        self.refresh();
    }

    /// A stream of the proxy; the number is for the others.
    pub(crate) fn enter(&self) -> u64 {
        let mut state = self.0.state.lock();
        state.last += 1;
        state.last
    }

    /// The proxy acknowledged.
    pub(crate) fn took(&self, stream: u64, taken: Taken) {
        self.0.state.lock().taken.insert(stream, taken);
        self.refresh();
    }

    pub(crate) fn leave(&self, stream: u64) {
        self.0.state.lock().taken.remove(&stream);
        self.refresh();
    }

    /// Says it to whoever reports, if the control plane is one that wants to know.
    fn refresh(&self) {
        let wanted = self.0.announced.borrow().as_ref().is_some_and(|announced| {
            announced.anchors.iter().any(|anchors| !anchors.domains.is_empty())
        });
        let now = wanted.then(|| self.0.state.lock().report());
        self.0.report.send_if_modified(|known| {
            let changed = *known != now;
            *known = now;
            changed
        });
    }
}

pub(crate) fn fingerprints(roots: &RootBundle) -> Vec<String> {
    roots.certificates().iter().map(Certificate::fingerprint).collect()
}

impl State {
    /// Of several streams the one that is behind counts.
    fn report(&self) -> TrustReport {
        let mut roots: Option<Vec<String>> = None;
        let mut leaf: Option<HeldLeaf> = None;
        for taken in self.taken.values() {
            if let Some(own) = &taken.roots {
                roots = Some(match roots {
                    None => own.clone(),
                    Some(all) => all.into_iter().filter(|root| own.contains(root)).collect(),
                });
            }
            if let Some(own) = &taken.leaf {
                let older = leaf.as_ref().is_none_or(|leaf| own.not_after < leaf.not_after);
                leaf = if older { Some(own.clone()) } else { leaf };
            }
        }
        let in_use = roots.is_some() || leaf.is_some();
        let ready = &self.ready;
        TrustReport {
            roots: roots.or_else(|| ready.roots.clone()).unwrap_or_default(),
            leaf: leaf.or_else(|| ready.leaf.clone()),
            in_use,
        }
    }
}
