//! What is wrong with which object: from decoding, the model and the translators, each said once.
//! Sources log what they find themselves; the rest is logged here.

use std::collections::BTreeSet;

use ironsail_api::{Diagnostic, Severity};
use tracing::{error, info, warn};

use crate::Engine;

/// Lines that one publication may add to the log.
const AT_ONCE: usize = 1_000;

impl Engine {
    /// Everything there is to say about objects: each once, in the order of code and object.
    pub fn diagnostics(&self) -> BTreeSet<Diagnostic> {
        let decoded = self.board.findings().objects;
        let publication = self.publication();
        let model = publication.iter().flat_map(|p| p.snapshot.diagnostics());
        let all = decoded.into_values().flatten();
        all.chain(model.cloned()).chain(self.cache.diagnostics()).collect()
    }
}

/// Writes diagnostics to the log, those that are new.
#[derive(Default)]
pub(crate) struct Reporter {
    said: BTreeSet<Diagnostic>,
}

impl Reporter {
    /// What is no longer true is said again when it comes back.
    pub(crate) fn report(&mut self, all: BTreeSet<Diagnostic>) {
        all.difference(&self.said).take(AT_ONCE).for_each(say);
        self.said = all;
    }
}

fn say(diagnostic: &Diagnostic) {
    match diagnostic.severity {
        Severity::Error => error!(target: "validation", "{diagnostic}"),
        Severity::Warning => warn!(target: "validation", "{diagnostic}"),
        Severity::Info => info!(target: "validation", "{diagnostic}"),
    }
}
