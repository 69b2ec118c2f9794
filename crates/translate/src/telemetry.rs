//! What a proxy tells about its traffic: Telemetry objects over the mesh's configuration.
//!
//! Of the root namespace, of the workload's namespace and of the workload itself the oldest object
//! counts, in this order; what a later one says stands. In: a snapshot and a class; out: the parts of
//! `Settings` that are about logs, traces and metrics. What an object asks for and cannot have is told to
//! its owner, and nothing that Envoy would refuse leaves here.

mod logging;
mod metrics;
mod provider;
mod tracing;

use std::sync::Arc;

use ironsail_api::istio::telemetry::{Telemetry, WorkloadMode};
use ironsail_api::{Diagnostic, Kind, Resource};
use ironsail_model::config::{Selected, Target};
use ironsail_model::{ProxyClass, Scope, Snapshot};

use crate::filter::settings::{Settings, Side};
use crate::problem::Problems;

/// Everything that the parts look at.
struct Context<'a> {
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    /// From the widest to the narrowest.
    objects: Vec<&'a Arc<Resource<Telemetry>>>,
}

impl<'a> Context<'a> {
    fn new(snapshot: &'a Snapshot, scope: &'a Scope, class: &'a ProxyClass) -> Self {
        Self { snapshot, scope, class, objects: objects(snapshot, class) }
    }

    /// Of what the objects say about one part, in order; with the object for complaints.
    fn parts<T: 'a>(
        &self,
        list: fn(&Telemetry) -> &[T],
    ) -> impl Iterator<Item = (&'a Arc<Resource<Telemetry>>, usize, &'a T)> + use<'a, T> {
        let objects = self.objects.clone();
        objects.into_iter().flat_map(move |object| {
            list(&object.spec).iter().enumerate().map(move |(i, part)| (object, i, part))
        })
    }
}

/// What telemetry changes about the settings of a class; complaints go to `found`.
pub(crate) fn apply(
    settings: &mut Settings,
    snapshot: &Snapshot,
    scope: &Scope,
    class: &ProxyClass,
    found: &mut Vec<Diagnostic>,
) {
    let context = Context::new(snapshot, scope, class);
    logging::apply(settings, &context, found);
    tracing::apply(settings, &context, found);
    metrics::apply(settings, &context, found);
}

/// What the owners of the objects are told.
pub(crate) fn told(
    snapshot: &Snapshot,
    scope: &Scope,
    class: &ProxyClass,
    found: &mut Vec<Diagnostic>,
) {
    apply(&mut Settings::default(), snapshot, scope, class, found);
}

fn objects<'a>(snapshot: &'a Snapshot, class: &ProxyClass) -> Vec<&'a Arc<Resource<Telemetry>>> {
    let root = snapshot.root_namespace();
    let all = snapshot.config.telemetries.for_workload(root, Target::from(class));
    let is_narrow = |object: &Arc<Resource<Telemetry>>| {
        !object.spec.targets().is_empty()
            || object.spec.selector().is_some_and(|labels| !labels.is_empty())
    };
    let (mut of_root, mut of_namespace, mut own) = (None, None, None);
    for object in all {
        let place = match (object.meta.namespace == root.as_str(), is_narrow(object)) {
            (true, false) => &mut of_root,
            (false, false) => &mut of_namespace,
            (_, true) => &mut own,
        };
        place.get_or_insert(object);
    }
    [of_root, of_namespace, own].into_iter().flatten().collect()
}

/// Whether what is said for `mode` is said for `side`.
fn concerns(mode: WorkloadMode, side: Side) -> bool {
    match mode {
        WorkloadMode::ClientAndServer => true,
        WorkloadMode::Client => side == Side::Client,
        WorkloadMode::Server => side == Side::Server,
    }
}

fn problems<'a>(object: &'a Resource<Telemetry>, found: &'a mut Vec<Diagnostic>) -> Problems<'a> {
    Problems::new(Kind::Telemetry, &object.meta, found)
}
