//! What a pod belongs to: the Deployment behind its ReplicaSet, the CronJob behind its Job.

use serde_json::Value;

use crate::object::{flag, items, text};

/// Kind, name and namespace of the workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

impl Owner {
    /// Only a pod made by a controller has an owner; any other is its own.
    pub fn of_pod(pod: &Value) -> Self {
        let namespace = text(pod, &["metadata", "namespace"]).to_owned();
        let references = items(pod, &["metadata", "ownerReferences"]);
        let controller = references.iter().find(|reference| flag(&reference["controller"]));
        match controller {
            Some(controller) if !text(pod, &["metadata", "generateName"]).is_empty() => {
                let owner = Self {
                    api_version: text(controller, &["apiVersion"]).to_owned(),
                    kind: text(controller, &["kind"]).to_owned(),
                    name: text(controller, &["name"]).to_owned(),
                    namespace,
                };
                owner.behind(pod)
            }
            _ => Self {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                name: text(pod, &["metadata", "name"]).to_owned(),
                namespace,
            },
        }
    }

    /// What made the controller, as far as names tell.
    fn behind(self, pod: &Value) -> Self {
        let label = |name: &str| text(pod, &["metadata", "labels", name]);
        let made_by = |hash: &str| match self.name.strip_suffix(hash)?.strip_suffix('-') {
            Some(name) if !hash.is_empty() => Some(name.to_owned()),
            _ => None,
        };
        match self.kind.as_str() {
            "ReplicaSet" => {
                if let Some(name) = made_by(label("rollouts-pod-template-hash")) {
                    let api_version = "argoproj.io/v1alpha1".to_owned();
                    return Self { name, kind: "Rollout".to_owned(), api_version, ..self };
                }
                match made_by(label("pod-template-hash")) {
                    Some(name) => Self { name, kind: "Deployment".to_owned(), ..self },
                    None => self,
                }
            }
            "ReplicationController" => match label("deploymentconfig") {
                "" => self,
                name => {
                    let name = name.to_owned();
                    Self { name, kind: "DeploymentConfig".to_owned(), ..self }
                }
            },
            "Job" => match cron_job(&self.name) {
                Some(name) => Self { name: name.to_owned(), kind: "CronJob".to_owned(), ..self },
                None => self,
            },
            _ => self,
        }
    }
}

/// A Job that a CronJob made ends in the time it was made at, in minutes.
fn cron_job(name: &str) -> Option<&str> {
    let (name, time) = name.rsplit_once('-')?;
    let is_time = (8..=10).contains(&time.len()) && time.bytes().all(|b| b.is_ascii_digit());
    (is_time && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(kind: &str, name: &str, labels: &Value) -> (String, String) {
        let pod = json!({ "metadata": {
            "generateName": "x-", "namespace": "ns", "labels": labels,
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": kind, "name": name,
                                  "controller": true }],
        } });
        let owner = Owner::of_pod(&pod);
        (owner.kind, owner.name)
    }

    #[test]
    fn pods_are_led_back_to_what_a_user_made() {
        let owner = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
        let hash = json!({ "pod-template-hash": "798dbb9f74" });
        assert_eq!(of("ReplicaSet", "web-798dbb9f74", &hash), owner("Deployment", "web"));
        assert_eq!(of("ReplicaSet", "web", &hash), owner("ReplicaSet", "web"));
        assert_eq!(of("ReplicaSet", "web-1", &json!({})), owner("ReplicaSet", "web-1"));
        assert_eq!(of("Job", "tick-28390321", &json!({})), owner("CronJob", "tick"));
        assert_eq!(of("Job", "tick-1", &json!({})), owner("Job", "tick-1"));
        assert_eq!(of("StatefulSet", "db", &json!({})), owner("StatefulSet", "db"));
        let config = json!({ "deploymentconfig": "web" });
        assert_eq!(of("ReplicationController", "web-1", &config), owner("DeploymentConfig", "web"));
    }

    #[test]
    fn a_pod_that_nothing_made_is_its_own() {
        let pod = json!({ "metadata": { "name": "lone", "namespace": "ns" } });
        let owner = Owner::of_pod(&pod);
        assert_eq!((&*owner.kind, &*owner.api_version, &*owner.name), ("Pod", "v1", "lone"));
        assert_eq!(Owner::of_pod(&json!(3)).name, "");
    }
}
