//! Whom the mesh trusts, told to every agent that asks, and what the agents say came of it.
//!
//! In: an announcement of the program's, reports of agents; out: the same bytes for all proxies, and
//! who is behind. A proxy counts as trusting a root only after its agent said that the proxy took it.

use std::sync::Arc;

use ironsail_identity::{Announcement, TrustReport};
use ironsail_xds::{Resource, Set};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use crate::Engine;
use crate::connection::Connection;

/// The only resource of its type.
const NAME: &str = "mesh";

/// The announcement, and a counter of everything that may change who is behind.
pub(crate) struct Trust {
    announced: watch::Sender<Arc<Set>>,
    moved: watch::Sender<u64>,
    /// What the program says about the whole, for whoever asks.
    facts: Mutex<serde_json::Value>,
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            announced: watch::Sender::new(Arc::default()),
            moved: watch::Sender::new(0),
            facts: Mutex::default(),
        }
    }
}

impl Trust {
    pub(crate) fn announced(&self) -> watch::Receiver<Arc<Set>> {
        self.announced.subscribe()
    }

    /// Somebody reported, or went.
    pub(crate) fn moved(&self) {
        self.moved.send_modify(|n| *n += 1);
    }
}

impl Engine {
    /// Tells every agent; the same again changes nothing.
    pub fn announce(&self, announcement: &Announcement) {
        let resource = Resource::new(NAME, announcement.encode());
        self.trust.announced.send_if_modified(|known| {
            let now = Set::after(known, [resource.clone()]);
            let changed = now.version() != known.version();
            if changed {
                *known = now;
            }
            changed
        });
    }

    /// What debug pages show of the mesh's trust besides proxies.
    pub fn set_trust_facts(&self, facts: serde_json::Value) {
        *self.trust.facts.lock() = facts;
    }

    pub fn trust_facts(&self) -> serde_json::Value {
        self.trust.facts.lock().clone()
    }

    /// Changes whenever an agent reports or goes.
    pub fn trust_reports(&self) -> watch::Receiver<u64> {
        self.trust.moved.subscribe()
    }

    pub(crate) fn heard_trust(&self, connection: &Connection, text: &str) {
        match TrustReport::read(text) {
            Some(report) => {
                connection.set_trust(report, self.now());
                self.trust.moved();
            }
            None => {
                warn!(target: "ads", "{}: its report about trust cannot be read", connection.id);
            }
        }
    }

    /// Proxies that do not trust a root, as far as they said.
    pub fn not_trusting(&self, root: &str) -> Vec<Arc<Connection>> {
        let behind = |connection: &Arc<Connection>| {
            !connection.trust().is_some_and(|(report, _)| report.trusts(root))
        };
        self.connections.all().into_iter().filter(behind).collect()
    }
}
