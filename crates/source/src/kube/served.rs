//! When CRDs come and go: a counter that changes with every CRD of ours.
//!
//! In: the names of CRDs, by a watch of metadata alone. Out: the counter, which wakes whoever waits
//! for a resource that is not served. Without the right to see CRDs, they ask now and then instead.

use std::pin::pin;

use futures::StreamExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::follow::{Follow, Step};
use super::target::Target;

/// CRDs of these groups are of interest.
const GROUPS: [&str; 2] = [".istio.io", ".gateway.networking.k8s.io"];

pub(super) async fn follow(shared: Shared, serving: watch::Sender<u64>, stop: CancellationToken) {
    let target = Target {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        metadata_only: true,
        ..Target::default()
    };
    let steps = Follow {
        client: shared.client.clone(),
        target,
        stream_lists: shared.stream_lists,
        served: None,
    };
    let mut steps = pin!(steps.steps());
    loop {
        let step = tokio::select! {
            () = stop.cancelled() => return,
            () = shared.events.closed() => return,
            Some(step) = steps.next() => step,
        };
        if let Step::Changed(head, _) | Step::Deleted(head) = step
            && GROUPS.iter().any(|group| head.metadata.name.ends_with(group))
        {
            serving.send_modify(|count| *count += 1);
        }
    }
}
