//! The real Envoy accepts the listeners and routes of every case, without a word of deprecation but for
//! what Istio itself uses.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "traffic/bootstrap.rs"]
mod bootstrap;
#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;

use case::Case;
use ironsail_proto::to_json;
use ironsail_translate::{cluster, listener, route};

#[test]
fn envoy_takes_every_listener_and_route() {
    let files = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for folder in case::folders() {
        let case = Case::load(&folder);
        let (snapshot, scope, class) = (&*case.snapshot, &case.scope, &case.class);
        let clusters = cluster::views(snapshot, scope, class);
        let clusters =
            clusters.iter().map(|view| to_json(&cluster::translate(view).value).unwrap());
        let listeners = listener::views(snapshot, scope, class);
        let mut listeners: Vec<_> = listeners
            .iter()
            .map(|view| to_json(&listener::translate(view).value).unwrap())
            .collect();
        // Validation does not fetch routes, so each gets a listener of its own.
        for (i, view) in route::views(snapshot, scope, class).iter().enumerate() {
            let routes = to_json(&route::translate(view).value).unwrap();
            listeners.push(bootstrap::serving(i, &routes));
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let file = files.path().join(format!("{name}.json"));
        std::fs::write(&file, bootstrap::of(clusters.collect(), &listeners).to_string()).unwrap();
        if let Err(said) = bootstrap::validate(&file) {
            wrong.push(format!("{name}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
