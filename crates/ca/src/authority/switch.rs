//! From one root to another without a moment in which somebody shows what others do not trust.
//!
//! In: material that was found, and word of who trusts which root; out: roots announced at once, and
//! signing switched when everybody trusts the new root, or when the patience is over. A root that was
//! announced before signs at once.

use std::sync::Arc;

use futures::future::BoxFuture;
use ironsail_identity::{RootBundle, TrustBundles};
use tokio::time::Instant;
use tracing::{info, warn};

use super::Authority;
use crate::material::Signing;

/// Knows what those who were told of roots made of it.
pub trait Followers: Send + Sync + 'static {
    /// Waits until everybody trusts the root of that fingerprint.
    fn all_trust<'a>(&'a self, root: &'a str) -> BoxFuture<'a, ()>;
}

/// Material whose root is not trusted everywhere yet.
pub(super) struct Next {
    signing: Signing,
    since: Instant,
}

impl Authority {
    /// Who says when a new root is trusted; without it every new root signs at once. Counts once.
    pub fn set_followers(&self, followers: Arc<dyn Followers>) {
        let _ = self.followers.set(followers);
    }

    /// The fingerprint of the root that will sign once it is trusted everywhere.
    pub fn next_root(&self) -> Option<String> {
        self.next.lock().as_ref().map(|next| next.signing.anchor().fingerprint())
    }

    /// Takes over what was found: what is to be trusted now, what signs now or later.
    pub(super) fn take(&self, found: Signing) {
        let current = self.signing.load();
        if current.is_same(&found) {
            if self.next.lock().take().is_some() {
                info!("the change of the CA was taken back before it signed");
                self.trust(found.roots().clone());
            }
            return;
        }
        if self.next.lock().as_ref().is_some_and(|next| next.signing.is_same(&found)) {
            return;
        }
        self.revoked.send_if_modified(|known| {
            let changed = known != found.revoked();
            known.clone_from(found.revoked());
            changed
        });
        let old = self.roots.borrow().clone();
        let is_old = |root| old.certificates().contains(root);
        let shared = found.roots().certificates().iter().any(is_old);
        let known = is_old(found.anchor());
        let roots = match shared {
            true => found.roots().clone(),
            false => self.with_old(&found, &old),
        };
        if known || self.followers.get().is_none() {
            self.next.lock().take();
            self.trust(roots);
            self.sign_with(found);
            return;
        }
        info!(origin = %found.origin(), root = ?found.anchor(),
            "a new root is announced; it signs when every proxy trusts it");
        // What signs until then must be trusted until then.
        self.trust(roots.and(&RootBundle::new([current.anchor().clone()])));
        *self.next.lock() = Some(Next { signing: found, since: Instant::now() });
    }

    /// The roots of `found` and those of old leaves, which live on.
    fn with_old(&self, found: &Signing, old: &RootBundle) -> RootBundle {
        warn!(
            origin = %found.origin(),
            "the CA changed to a root that nobody trusts yet; the old ones stay trusted until \
             this program restarts. Put old and new roots into root-cert.pem to rotate them"
        );
        let now = self.clock.now();
        let live = old.certificates().iter().filter(|root| root.check_time(now).is_ok());
        found.roots().and(&RootBundle::new(live.cloned()))
    }

    fn trust(&self, roots: RootBundle) {
        self.roots.send_if_modified(|current| {
            let changed = *current != roots;
            let others = self.trusted.current().map(|trusted| trusted.by_domain.clone());
            let by_domain = others.unwrap_or_default();
            self.trusted.set(TrustBundles { own: roots.clone(), by_domain });
            *current = roots;
            changed
        });
    }

    fn sign_with(&self, signing: Signing) {
        info!(origin = %signing.origin(), certificate = ?signing.certificate(), "CA changed");
        self.metrics.record_expiry(&signing);
        self.signing.store(Arc::new(signing));
        self.generation.send_modify(|n| *n += 1);
    }

    /// Waits until the next root may sign; for ever if there is none.
    pub(super) async fn due(&self) {
        let waiting =
            self.next.lock().as_ref().map(|next| {
                (next.signing.anchor().fingerprint(), next.since + self.settings.patience)
            });
        let (Some((root, end)), Some(followers)) = (waiting, self.followers.get()) else {
            return std::future::pending().await;
        };
        tokio::select! {
            () = followers.all_trust(&root) => {}
            () = tokio::time::sleep_until(end) => {
                warn!("not every proxy said that it trusts the new root {root}; it signs all the same");
            }
        }
    }

    pub(super) fn switch(&self) {
        let next = self.next.lock().take();
        if let Some(next) = next {
            self.sign_with(next.signing);
        }
    }
}
