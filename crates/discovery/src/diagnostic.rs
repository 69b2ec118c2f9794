//! What is wrong with which object: from decoding, the model and the translators, each said once.
//! Sources log what they find themselves; the rest is logged here.

use std::collections::BTreeSet;

use ironsail_api::{Diagnostic, Object, Severity, validate};
use ironsail_translate::patch::check_object;
use tracing::{error, info, warn};

use crate::Engine;

/// Everything that is wrong with an object by itself, also as Envoy would see it.
pub fn judge(object: &Object) -> Vec<Diagnostic> {
    let mut found = validate(object);
    if let Object::EnvoyFilter(filter) = object {
        found.extend(check_object(filter));
    }
    found
}

/// Lines that one publication may add to the log.
const AT_ONCE: usize = 1_000;

impl Engine {
    /// Everything there is to say about objects: each once, in the order of code and object.
    pub fn diagnostics(&self) -> BTreeSet<Diagnostic> {
        let mut all = self.own_diagnostics();
        all.extend(self.board.findings().objects.into_values().flat_map(|f| f.diagnostics));
        all
    }

    /// Without what sources found and said already.
    pub(crate) fn own_diagnostics(&self) -> BTreeSet<Diagnostic> {
        let classes = self.classes();
        let said = classes.iter().flat_map(|class| class.diagnostics());
        let mut all = BTreeSet::new();
        for one in said {
            all.extend(one.iter().cloned());
        }
        all.extend(self.findings.lock().values().flatten().cloned());
        if let Some(publication) = self.publication() {
            all.extend(publication.snapshot.diagnostics().cloned());
        }
        all
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
