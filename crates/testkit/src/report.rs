//! What a failed test prints: pods, events, logs, and podlet's own last words.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::ListParams;

use crate::case::Case;

pub(crate) async fn print(case: &Case) {
    eprintln!("--- namespace {} when the test failed", case.namespace);
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
    match pods.list(&ListParams::default()).await {
        Ok(pods) => {
            for pod in pods {
                print_pod(case, &pod).await;
            }
        }
        Err(error) => eprintln!("pods: {error}"),
    }
    let events: Api<Event> = Api::namespaced(case.client.clone(), &case.namespace);
    if let Ok(events) = events.list(&ListParams::default()).await {
        let skip = events.items.len().saturating_sub(25);
        for event in events.items.iter().skip(skip) {
            eprintln!(
                "event {}/{}: {} {}",
                event.involved_object.kind.as_deref().unwrap_or_default(),
                event.involved_object.name.as_deref().unwrap_or_default(),
                event.reason.as_deref().unwrap_or_default(),
                event.message.as_deref().unwrap_or_default(),
            );
        }
    }
    eprintln!("--- podlet\n{}\n---", case.podlet.log());
}

async fn print_pod(case: &Case, pod: &Pod) {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    eprintln!("pod {name}: {}", status.phase.as_deref().unwrap_or("(no phase)"));
    let init = status.init_container_statuses.unwrap_or_default();
    for container in init.into_iter().chain(status.container_statuses.unwrap_or_default()) {
        let state = container.state.map(|s| serde_json::to_string(&s).unwrap_or_default());
        eprintln!(
            "  {}: ready={} restarts={} {}",
            container.name,
            container.ready,
            container.restart_count,
            state.unwrap_or_default()
        );
        let log = case.logs(name, &container.name).await;
        let lines: Vec<_> = log.lines().collect();
        for line in &lines[lines.len().saturating_sub(15)..] {
            eprintln!("    | {line}");
        }
    }
}
