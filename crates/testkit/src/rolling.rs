//! Pods that are replaced while somebody sends to them, and what the sender's proxy knows of it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::Instant;

use crate::case::Case;
use crate::wait::eventually;

impl Case {
    /// Makes the pods of `deployment/APP` serve on for as long as their clients may need to hear that they
    /// go, as those of careful users do: Kubernetes stops an application and tells its clients at the same
    /// time.
    pub fn stop_late(&self, app: &str) {
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": app,
            "lifecycle": {"preStop": {"sleep": {"seconds": 12}}}}]}}}});
        let deployment = format!("deployment/{app}");
        self.kubectl_says(&["patch", &deployment, "--patch", &patch.to_string()]);
    }

    /// Replaces the pods of `deployment/APP`. Not by `kubectl rollout restart`, which refuses a second time
    /// within a second.
    pub async fn roll(&self, app: &str) {
        let annotations = json!({"rolled": format!("{:?}", Instant::now())});
        let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        let deployment = format!("deployment/{app}");
        self.kubectl_says(&["patch", &deployment, "--patch", &patch.to_string()]);
        self.ready(&deployment).await;
    }

    /// The pods of `APP` that are not being stopped.
    pub async fn alive(&self, app: &str) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let how = ListParams::default().labels(&format!("app={app}"));
        let found = pods.list(&how).await.expect("pods can be listed");
        let stays = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
        found.items.into_iter().filter(stays).collect()
    }

    /// Waits until the proxy of `client` knows the one pod of `APP` that stays and none that goes, at a port
    /// of its service and of its pods: without a control plane it would not hear of it any more.
    pub async fn settled(&self, client: &str, app: &str, port: u16, target: u16) {
        eventually("the client knows the last pod only", async || {
            let pods = self.alive(app).await;
            let address = |pod: &Pod| pod.status.as_ref()?.pod_ip.clone();
            let addresses: Vec<_> = pods.iter().map(address).collect();
            let [Some(address)] = &addresses[..] else { return Err(format!("{addresses:?}")) };
            let wanted = format!("{address}:{target}");
            let seen = self.exec(client, &["curl", "-s", "localhost:15000/clusters"]).await;
            let (of, at) = (format!("outbound|{port}||{app}."), format!(":{target}"));
            let hosts: BTreeSet<&str> = seen
                .stdout
                .lines()
                .filter(|line| line.starts_with(&of))
                .filter_map(|line| line.split("::").nth(1).filter(|host| host.ends_with(&at)))
                .collect();
            if hosts.iter().eq([&wanted.as_str()]) { Ok(()) } else { Err(format!("{hosts:?}")) }
        })
        .await;
    }
}
