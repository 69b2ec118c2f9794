//! A gateway pod of a test's own, credentials for it, and the namespace's part in the mesh.

use serde_json::json;

use crate::case::Case;
use crate::certificate::Issued;
use crate::mesh::SYSTEM;
use crate::podlet::repository;

/// A gateway pod and its Service, both called `name`, with an account of its own.
pub fn gateway_pod(name: &str, account: &str) -> String {
    format!(
        "
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {account}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{istio: {name}, sidecar.istio.io/inject: 'true'}}
  annotations: {{inject.istio.io/templates: gateway}}
spec:
  serviceAccountName: {account}
  terminationGracePeriodSeconds: 0
  containers: [{{name: istio-proxy, image: auto}}]
---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  selector: {{istio: {name}}}
  ports: [{{name: http, port: 80}}, {{name: https, port: 443}}, {{name: tls, port: 15443}}]
---"
    )
}

/// Lets an account read Secrets of the namespace, without which its gateway gets none.
pub fn may_read_secrets(account: &str) -> String {
    format!(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: reads-secrets}}
rules: [{{apiGroups: [''], resources: [secrets], verbs: [get, watch, list]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: reads-secrets}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads-secrets}}
subjects: [{{kind: ServiceAccount, name: {account}}}]
---"
    )
}

impl Case {
    /// Pods of the namespace get sidecars from now on.
    pub async fn join_mesh(&self) {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": self.namespace, "labels": labels}});
        self.try_apply(object).await.expect("the namespace takes a label");
    }

    /// The ingress gateway as its manifests install it, ready.
    pub async fn ingress_gateway(&self) {
        let file = repository().join("manifests/gateways/ingress.yaml");
        let text = std::fs::read_to_string(file).expect("the gateway's manifest");
        self.apply(&text).await;
        self.beside(SYSTEM).ready("deployment/istio-ingressgateway").await;
    }

    /// A Secret with a certificate, or with roots, or with both.
    pub async fn tls_secret(&self, name: &str, issued: Option<&Issued>, root: Option<&str>) {
        let mut data = json!({});
        if let Some(issued) = issued {
            data["tls.crt"] = json!(issued.certificate);
            data["tls.key"] = json!(issued.key);
        }
        if let Some(root) = root {
            data["ca.crt"] = json!(root);
        }
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": data});
        self.try_apply(object).await.expect("the Secret is accepted");
    }

    /// Puts a file into the container `main` of a pod.
    pub async fn put_file(&self, pod: &str, path: &str, text: &str) {
        let line = format!("cat > {path} <<'EOF'\n{text}\nEOF");
        let done = self.exec_in(pod, "main", &["sh", "-c", &line]).await;
        assert_eq!(done.code, 0, "{done:?}");
    }
}
