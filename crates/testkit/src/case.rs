//! One test: a namespace of its own, YAML into it, and waiting for what must become true.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};

use crate::podlet::{Place, Podlet, repository};
use crate::report;
use crate::wait::webhook_is_away;

/// How long a test may take before it counts as hanging.
const LONGEST: Duration = Duration::from_secs(900);
/// How long one condition may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// What a test works with.
pub struct Case {
    pub(crate) podlet: Place,
    pub client: kube::Client,
    pub namespace: String,
}

/// Runs a test on the shared podlet; `name` makes its namespace. Fails with a report of the
/// namespace when the test panics or does not end.
pub fn case(name: &str, test: impl AsyncFnOnce(&Case)) {
    case_on(Podlet::shared(), name, test);
}

/// The same on a podlet that was started with flags of its own.
pub fn case_on(podlet: &Place, name: &str, test: impl AsyncFnOnce(&Case)) {
    case_within(LONGEST, podlet, name, test);
}

/// The same for a test that may take another time than most.
pub fn case_within(longest: Duration, podlet: &Place, name: &str, test: impl AsyncFnOnce(&Case)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime for the test");
    runtime.block_on(async {
        let case = Case::new(podlet, name).await;
        let run = AssertUnwindSafe(test(&case)).catch_unwind();
        let failure = match tokio::time::timeout(longest, run).await {
            Ok(Ok(())) => None,
            Ok(Err(panic)) => Some(panic),
            Err(_) => Some(Box::new(format!("{name} did not end within {longest:?}")) as _),
        };
        if let Some(panic) = failure {
            // The report must not hang where the test did.
            let _ = tokio::time::timeout(Duration::from_secs(20), report::print(&case)).await;
            case.delete().await;
            std::panic::resume_unwind(panic);
        }
        case.delete().await;
    });
}

impl Case {
    async fn new(podlet: &Place, name: &str) -> Self {
        let client = podlet.client().await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = json!({"metadata": {"generateName": format!("{name}-")}});
        let object = serde_json::from_value(object).expect("a namespace");
        let made = namespaces
            .create(&PostParams::default(), &object)
            .await
            .expect("a namespace for the test");
        let namespace = made.metadata.name.expect("the API names what it makes");
        Self { podlet: podlet.clone(), client, namespace }
    }

    /// Deleting is asked for and not waited for: the next test need not wait.
    async fn delete(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let _ = namespaces.delete(&self.namespace, &DeleteParams::background()).await;
    }

    /// The same test seen from another namespace, which the test has made.
    #[must_use]
    pub fn beside(&self, namespace: &str) -> Self {
        let (podlet, client) = (self.podlet.clone(), self.client.clone());
        Self { podlet, client, namespace: namespace.to_owned() }
    }

    /// The podlet below this test.
    pub fn podlet(&self) -> &Place {
        &self.podlet
    }

    /// Applies every document of `yaml`, into this namespace unless it names another.
    pub async fn apply(&self, yaml: &str) {
        for document in ironsail_yaml::documents(yaml).expect("the test's YAML can be read") {
            self.try_apply(document).await.expect("the test's YAML is accepted");
        }
    }

    /// Applies one object by server-side apply; the API's answer or refusal.
    pub async fn try_apply(&self, object: Value) -> kube::Result<DynamicObject> {
        let object: DynamicObject =
            serde_json::from_value(object).expect("the test's object has apiVersion and kind");
        let name = object.metadata.name.clone().expect("the test's object has a name");
        let api = self.api_of(&object).await?;
        let how = PatchParams::apply("testkit").force();
        // A control plane that has just been replaced, or a busy one, may not answer at once.
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            match api.patch(&name, &how, &Patch::Apply(&object)).await {
                Err(error)
                    if webhook_is_away(&error.to_string()) && tokio::time::Instant::now() < end =>
                {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn api_of(&self, object: &DynamicObject) -> kube::Result<Api<DynamicObject>> {
        let types = object.types.as_ref().expect("the test's object has apiVersion and kind");
        let gvk = GroupVersionKind::try_from(types).expect("the test's apiVersion can be read");
        let (resource, capabilities) = kube::discovery::pinned_kind(&self.client, &gvk).await?;
        Ok(if capabilities.scope == kube::discovery::Scope::Cluster {
            Api::all_with(self.client.clone(), &resource)
        } else {
            let namespace = object.metadata.namespace.as_deref().unwrap_or(&self.namespace);
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        })
    }

    /// Applies a file below `samples/`.
    pub async fn sample(&self, path: &str) {
        let path = repository().join("samples").join(path);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|e| panic!("reading {}: {e}", path.display()));
        self.apply(&text).await;
    }

    /// Sets the number of replicas of `kind/name`.
    pub async fn scale(&self, what: &str, replicas: u32) {
        let (api, name) = self.api(what);
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let patched = api.patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|e| panic!("scaling {what}: {e}"));
    }

    /// Waits until `kind/name` is ready: a Deployment available in its newest form, a pod ready, a
    /// Job complete.
    pub async fn ready(&self, what: &str) {
        self.wait(what, "ready", is_ready).await;
    }

    /// Waits until `kind/name` is gone.
    pub async fn gone(&self, what: &str) {
        self.wait_option(what, "gone", |object| object.is_none()).await;
    }

    /// Waits until `condition` holds for `kind/name`; `wanted` says it in a failure.
    pub async fn wait(
        &self,
        what: &str,
        wanted: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        let found = self.wait_option(what, wanted, |object| object.is_some_and(&condition)).await;
        found.expect("the condition held for an object")
    }

    async fn wait_option(
        &self,
        what: &str,
        wanted: &str,
        condition: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        let (api, name) = self.api(what);
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = watcher::watcher(api, config).boxed();
        let mut last = None;
        let waited = tokio::time::timeout(PATIENCE, async {
            // Until the first list is complete, "not there" means "not seen yet".
            let (mut next, mut listed) = (None, false);
            loop {
                match events.next().await.expect("a watch does not end") {
                    Ok(Event::Init) => (next, listed) = (None, false),
                    Ok(Event::InitApply(object) | Event::Apply(object)) => {
                        next = serde_json::to_value(object).ok();
                        last.clone_from(&next);
                    }
                    Ok(Event::Delete(_)) => next = None,
                    Ok(Event::InitDone) => listed = true,
                    // The watch recovers by itself.
                    Err(_) => continue,
                }
                if listed && condition(next.as_ref()) {
                    return next;
                }
            }
        });
        match waited.await {
            Ok(found) => found,
            Err(_) => {
                let status = last.map(|o| o["status"].to_string());
                panic!(
                    "{what} was not {wanted} within {PATIENCE:?}; last seen with status {}",
                    status.as_deref().unwrap_or("(not there)")
                )
            }
        }
    }

    /// The API for the kinds that tests wait on most, and the name after the slash.
    pub(crate) fn api<'a>(&self, what: &'a str) -> (Api<DynamicObject>, &'a str) {
        let (kind, name) = what.split_once('/').expect("kind/name");
        let (group, version, kind) = match kind {
            "deployment" => ("apps", "v1", "Deployment"),
            "replicaset" => ("apps", "v1", "ReplicaSet"),
            "statefulset" => ("apps", "v1", "StatefulSet"),
            "daemonset" => ("apps", "v1", "DaemonSet"),
            "job" => ("batch", "v1", "Job"),
            "pod" => ("", "v1", "Pod"),
            "service" => ("", "v1", "Service"),
            "configmap" => ("", "v1", "ConfigMap"),
            "secret" => ("", "v1", "Secret"),
            "serviceaccount" => ("", "v1", "ServiceAccount"),
            "namespace" => ("", "v1", "Namespace"),
            "node" => ("", "v1", "Node"),
            other => panic!("testkit cannot wait on a {other}"),
        };
        let resource =
            kube::core::ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let client = self.client.clone();
        match kind {
            "Namespace" | "Node" => (Api::all_with(client, &resource), name),
            _ => (Api::namespaced_with(client, &self.namespace, &resource), name),
        }
    }

    /// The real kubectl, in this test's namespace.
    pub fn kubectl(&self) -> std::process::Command {
        let mut command = self.podlet.kubectl();
        command.args(["-n", &self.namespace]);
        command
    }
}

/// Whether an object of a kind that runs something does so, in its newest form.
fn is_ready(object: &Value) -> bool {
    let status = &object["status"];
    let current =
        status["observedGeneration"].as_i64() >= object["metadata"]["generation"].as_i64();
    let wanted = object["spec"]["replicas"].as_i64();
    match object["kind"].as_str().unwrap_or_default() {
        "Deployment" => {
            current
                && status["updatedReplicas"].as_i64().unwrap_or(0) == wanted.unwrap_or(1)
                && status["availableReplicas"].as_i64().unwrap_or(0) == wanted.unwrap_or(1)
                && status["replicas"].as_i64().unwrap_or(0) == wanted.unwrap_or(1)
        }
        "ReplicaSet" | "StatefulSet" => {
            current && status["readyReplicas"].as_i64().unwrap_or(0) == wanted.unwrap_or(1)
        }
        "DaemonSet" => {
            current
                && status["desiredNumberScheduled"].as_i64().unwrap_or(0) > 0
                && status["numberReady"] == status["desiredNumberScheduled"]
        }
        "Job" => has_condition(status, "Complete"),
        "Pod" | "Node" => has_condition(status, "Ready"),
        kind => panic!("a {kind} is never ready"),
    }
}

fn has_condition(status: &Value, kind: &str) -> bool {
    let conditions = status["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_status_does_not_make_a_deployment_ready() {
        let full = json!({"updatedReplicas": 2, "availableReplicas": 2, "replicas": 2, "observedGeneration": 1});
        let object = |generation: i64| {
            json!({"kind": "Deployment", "metadata": {"generation": generation},
                "spec": {"replicas": 2}, "status": full})
        };
        assert!(is_ready(&object(1)));
        assert!(!is_ready(&object(2)));
    }

    #[test]
    fn surplus_pods_of_a_rollout_count_as_not_ready() {
        let status = json!({"updatedReplicas": 1, "availableReplicas": 1, "replicas": 2, "observedGeneration": 1});
        let object = json!({"kind": "Deployment", "metadata": {"generation": 1}, "spec": {}, "status": status});
        assert!(!is_ready(&object));
    }
}
