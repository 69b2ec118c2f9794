//! What differs between two snapshots.

use std::collections::BTreeSet;
use std::sync::Arc;

use ironsail_api::ObjectKey;

use crate::{ServiceKey, Snapshot};

/// A snapshot and how it differs from the one before.
#[derive(Clone, Debug)]
pub struct Update {
    pub snapshot: Arc<Snapshot>,
    pub changes: ChangeSet,
}

/// What changed. Each set stands for itself: a new service with endpoints is in `services` and in
/// `endpoints`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Everything may have changed: the first snapshot, or the mesh configuration.
    pub full: bool,
    /// Configuration, Secrets and ConfigMaps.
    pub objects: BTreeSet<ObjectKey>,
    /// Services whose definition came, went or changed.
    pub services: BTreeSet<ServiceKey>,
    /// Services whose endpoints changed: the fast lane, if nothing else is in the set.
    pub endpoints: BTreeSet<ServiceKey>,
    /// Services among `endpoints` whose set of identities changed: their clusters name them.
    pub identities: BTreeSet<ServiceKey>,
    /// ServiceEntries and WorkloadEntries. What they mean for proxies is in the sets above.
    pub entries: BTreeSet<ObjectKey>,
    /// Pods and WorkloadEntries that came, went or changed what a proxy on them depends on.
    pub workloads: BTreeSet<ObjectKey>,
    /// `Snapshot::diagnostics` differ; no proxy depends on them.
    pub diagnostics: bool,
}

impl ChangeSet {
    pub fn is_empty(&self) -> bool {
        !self.full
            && self.objects.is_empty()
            && self.services.is_empty()
            && self.endpoints.is_empty()
            && self.entries.is_empty()
            && self.workloads.is_empty()
            && !self.diagnostics
    }

    /// Whether load assignments are all that needs a look.
    pub fn is_endpoints_only(&self) -> bool {
        !self.full
            && self.objects.is_empty()
            && self.services.is_empty()
            && self.identities.is_empty()
    }

    /// Adds what `later` says.
    pub fn merge(&mut self, later: Self) {
        self.full |= later.full;
        self.objects.extend(later.objects);
        self.services.extend(later.services);
        self.endpoints.extend(later.endpoints);
        self.identities.extend(later.identities);
        self.entries.extend(later.entries);
        self.workloads.extend(later.workloads);
        self.diagnostics |= later.diagnostics;
    }
}
