//! What a user names on the command line: `deploy/sleep`, `pod/x.ns`, `svc/reviews`, `sleep.ns`.
//!
//! In: that text; out: the pods that it stands for.

use std::collections::BTreeMap;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};

use super::Cluster;
use super::pod::is_ready;

/// A kind by the names that kubectl takes for it.
const KINDS: [(&str, &str, &str, &[&str]); 7] = [
    ("", "v1", "Pod", &["pod", "pods", "po"]),
    ("", "v1", "Service", &["service", "services", "svc"]),
    ("apps", "v1", "Deployment", &["deployment", "deployments", "deploy"]),
    ("apps", "v1", "StatefulSet", &["statefulset", "statefulsets", "sts"]),
    ("apps", "v1", "DaemonSet", &["daemonset", "daemonsets", "ds"]),
    ("apps", "v1", "ReplicaSet", &["replicaset", "replicasets", "rs"]),
    ("batch", "v1", "Job", &["job", "jobs"]),
];

/// A workload as it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Kubernetes' kind, if one was given.
    pub(crate) kind: Option<&'static str>,
    pub(crate) name: String,
    pub(crate) namespace: String,
}

impl Named {
    /// Reads `[KIND/]NAME[.NAMESPACE]`.
    pub(crate) fn parse(text: &str, default_namespace: &str) -> anyhow::Result<Self> {
        let (kind, rest) = match text.split_once('/') {
            None => (None, text),
            Some((kind, rest)) => {
                let known = KINDS
                    .iter()
                    .find(|(.., names)| names.iter().any(|name| name.eq_ignore_ascii_case(kind)));
                let known = known.with_context(|| {
                    format!("{text}: {kind:?} is no kind of workload: pod, deploy, sts, ds, rs, job or svc")
                })?;
                (Some(known.2), rest)
            }
        };
        let (name, namespace) = rest.split_once('.').unwrap_or((rest, default_namespace));
        anyhow::ensure!(!name.is_empty(), "{text:?} names no workload");
        anyhow::ensure!(
            !namespace.is_empty() && !namespace.contains('.'),
            "{text:?} is not [KIND/]NAME[.NAMESPACE]"
        );
        Ok(Self { kind, name: name.to_owned(), namespace: namespace.to_owned() })
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind.map(|kind| kind.to_lowercase() + "/").unwrap_or_default();
        write!(f, "{kind}{}.{}", self.name, self.namespace)
    }
}

impl Cluster {
    /// The pods that `text` stands for, those that are ready first. Never empty.
    pub(crate) async fn pods_of(&self, text: &str) -> anyhow::Result<Vec<Pod>> {
        let named = Named::parse(text, &self.namespace)?;
        if matches!(named.kind, None | Some("Pod")) {
            let pod = self.pods(&named.namespace).get_opt(&named.name).await;
            match pod.with_context(|| format!("looking for {named}"))? {
                Some(pod) => return Ok(vec![pod]),
                None if named.kind.is_some() => anyhow::bail!("there is no {named}"),
                None => {}
            }
        }
        let labels = self.selector(&named).await?;
        let selector: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let how = ListParams::default().labels(&selector.join(","));
        let found = self.pods(&named.namespace).list(&how).await;
        let mut pods = found.with_context(|| format!("listing the pods of {named}"))?.items;
        pods.sort_by_key(|pod| (!is_ready(pod), pod.name_any()));
        anyhow::ensure!(!pods.is_empty(), "{named} has no pods");
        Ok(pods)
    }

    /// The labels of its pods; a name without kind is the first workload of that name.
    async fn selector(&self, named: &Named) -> anyhow::Result<BTreeMap<String, String>> {
        for (group, version, kind, _) in KINDS.iter().skip(1) {
            let wanted = match named.kind {
                Some(asked) => asked == *kind,
                // A service is not a workload unless one says so.
                None => *kind != "Service",
            };
            if !wanted {
                continue;
            }
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &named.namespace, &resource);
            let found = api.get_opt(&named.name).await;
            let Some(found) = found.with_context(|| format!("looking for {named}"))? else {
                continue;
            };
            let selector = match *kind {
                "Service" => &found.data["spec"]["selector"],
                _ => &found.data["spec"]["selector"]["matchLabels"],
            };
            let labels: BTreeMap<String, String> =
                serde_json::from_value(selector.clone()).unwrap_or_default();
            anyhow::ensure!(!labels.is_empty(), "{named} selects no pods by labels");
            return Ok(labels);
        }
        match named.kind {
            Some(_) => anyhow::bail!("there is no {named}"),
            None => anyhow::bail!("there is no pod or workload {named}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Named;

    fn parsed(text: &str) -> (Option<&'static str>, String, String) {
        let named = Named::parse(text, "here").unwrap();
        (named.kind, named.name, named.namespace)
    }

    #[test]
    fn workloads_are_named_as_with_kubectl() {
        assert_eq!(parsed("sleep"), (None, "sleep".into(), "here".into()));
        assert_eq!(parsed("sleep.foo"), (None, "sleep".into(), "foo".into()));
        assert_eq!(parsed("deploy/sleep"), (Some("Deployment"), "sleep".into(), "here".into()));
        assert_eq!(parsed("Pod/x-1.foo"), (Some("Pod"), "x-1".into(), "foo".into()));
    }

    #[test]
    fn what_is_no_workload_is_told() {
        for text in ["", "/x", "cm/x", "deploy/", ".ns", "a.b.c", "a."] {
            assert!(Named::parse(text, "here").is_err(), "{text}");
        }
    }
}
