//! A podlet with the control plane on it, as `kubectl apply` of `manifests/` makes it.
//!
//! One of it serves all tests of a test binary that ask for it; each has a namespace of its own.

use std::sync::OnceLock;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use crate::case::{Case, case_on, case_within};
use crate::podlet::{Place, Podlet, Shared, repository};
use crate::wait::eventually;

/// Where the control plane lies.
pub const SYSTEM: &str = "istio-system";

/// How long the control plane may take to start on a busy machine.
const PATIENCE: &str = "--timeout=170s";

/// Runs a test on the podlet that has the control plane.
pub fn mesh_case(name: &str, test: impl AsyncFnOnce(&Case)) {
    case_on(mesh(), name, test);
}

/// The same for a test that may take another time than most.
pub fn mesh_case_within(longest: Duration, name: &str, test: impl AsyncFnOnce(&Case)) {
    case_within(longest, mesh(), name, test);
}

/// The podlet with the control plane, ready, that tests of this binary share.
pub fn mesh() -> &'static Podlet {
    static MESH: Shared = Shared::new(|_| vec!["--nodes".to_owned(), "2".to_owned()]);
    mesh_on(&MESH)
}

/// The same with a podlet of other flags.
pub fn mesh_on(shared: &'static Shared) -> &'static Podlet {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    let podlet = shared.podlet();
    INSTALLED.get_or_init(|| {
        install_definitions(podlet);
        install_control_plane(podlet);
    });
    podlet
}

/// Applies our custom resource definitions and waits until they are served.
pub fn install_definitions(place: &Place) {
    let crds = repository().join("manifests/crds").display().to_string();
    kubectl(place, &["apply", "--server-side", "-f", &crds]);
    kubectl(place, &["wait", "--for=condition=Established", "crd", "--all", PATIENCE]);
}

/// Applies the control plane and waits until it is ready, its webhooks trusted and closed.
pub fn install_control_plane(place: &Place) {
    let manifests = repository().join("manifests/control-plane").display().to_string();
    kubectl(place, &["apply", "--server-side", "-f", &manifests]);
    kubectl(place, &["-n", SYSTEM, "rollout", "status", "deployment/istiod", PATIENCE]);
    let trusted = "jsonpath={.webhooks[*].clientConfig.caBundle}";
    let hooks = "mutatingwebhookconfigurations/istio-sidecar-injector";
    until(place, &["get", hooks, "-o", trusted], |said| said.split_whitespace().count() == 4);
    let closed = "jsonpath={.webhooks[*].failurePolicy}";
    let hooks = "validatingwebhookconfigurations/istio-validator-istio-system";
    until(place, &["get", hooks, "-o", closed], |said| said == "Fail Fail");
}

fn kubectl(place: &Place, args: &[&str]) -> String {
    let output = place.kubectl().args(args).output().expect("kubectl can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    if !output.status.success() {
        let pods = place.kubectl().args(["-n", SYSTEM, "describe", "pods"]).output();
        let logs = ["-n", SYSTEM, "logs", "-l", "app=istiod", "--tail", "60"];
        let logs = place.kubectl().args(logs).output();
        let more = [pods, logs].map(|o| o.map(|o| text(&o.stdout)).unwrap_or_default());
        panic!("kubectl {}: {stdout}{stderr}\n{}\n{}", args.join(" "), more[0], more[1]);
    }
    stdout
}

fn until(place: &Place, args: &[&str], wanted: impl Fn(&str) -> bool) {
    let mut said = String::new();
    for _ in 0..1_800 {
        said = kubectl(place, args);
        if wanted(said.trim()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let logs = kubectl(place, &["-n", SYSTEM, "logs", "-l", "app=istiod", "--tail", "60"]);
    panic!("kubectl {} still says {said}\n{logs}", args.join(" "));
}

/// A page of the control plane.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub body: String,
}

impl Page {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        let parsed = serde_json::from_str(&self.body);
        parsed.unwrap_or_else(|e| panic!("no JSON ({e}): {} {}", self.status, self.body))
    }
}

impl Case {
    /// A pod of the control plane that is ready.
    pub async fn istiod(&self) -> String {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        let how = ListParams::default().labels("app=istiod");
        eventually("a ready istiod", async || {
            let pods = pods.list(&how).await.map_err(|e| e.to_string())?;
            let ready = pods.items.into_iter().find(|pod| {
                let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
                pod.metadata.deletion_timestamp.is_none()
                    && conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
            });
            ready.and_then(|pod| pod.metadata.name).ok_or_else(|| "none is ready".to_owned())
        })
        .await
    }

    /// GET of a page of the control plane, over a port-forward: as from its own loopback.
    pub async fn page(&self, port: u16, path: &str) -> Page {
        eventually(&format!("{path} of the control plane"), async || {
            // Another one each time, as the pod may be on its way out.
            let pod = self.istiod().await;
            self.ask(&pod, port, "GET", path, "").await
        })
        .await
    }

    /// One request to a pod of the control plane.
    pub async fn page_of(
        &self,
        pod: &str,
        port: u16,
        method: &str,
        path: &str,
        body: &str,
    ) -> Page {
        let asked = self.ask(pod, port, method, path, body).await;
        asked.unwrap_or_else(|why| panic!("{path}: {why}"))
    }

    async fn ask(
        &self,
        pod: &str,
        port: u16,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Page, String> {
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = self.try_dial(pod, port).await?;
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes())
            .await
            .map_err(|error| format!("writing to {pod}:{port}: {error}"))?;
        let mut chunks = tokio_util::io::ReaderStream::new(stream);
        let mut got = Vec::new();
        while let Some(Ok(chunk)) = chunks.next().await {
            got.extend_from_slice(&chunk);
        }
        let text = String::from_utf8_lossy(&got);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| format!("no answer from {pod}:{port}: {text}"))?;
        Ok(Page { status, body: body.to_owned() })
    }

    /// A stream to a port of a pod of the control plane, by port-forward.
    pub async fn dial(
        &self,
        pod: &str,
        port: u16,
    ) -> impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + use<> {
        self.try_dial(pod, port).await.unwrap_or_else(|why| panic!("{why}"))
    }

    async fn try_dial(
        &self,
        pod: &str,
        port: u16,
    ) -> Result<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + use<>, String>
    {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        let mut forward = pods
            .portforward(pod, &[port])
            .await
            .map_err(|error| format!("a port-forward to {pod}:{port}: {error}"))?;
        Ok(forward.take_stream(port).expect("the port asked for"))
    }
}

impl Case {
    /// Waits until pods of this namespace are given a sidecar that has `text` in it: the injector hears
    /// of the mesh's configuration by itself.
    pub async fn injects(&self, text: &str) {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: tried}, \
                   spec: {containers: [{name: main, image: busybox}]}}";
        eventually(&format!("sidecars with {text}"), async || {
            let args = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
            let output = self.kubectl_output(&args, pod);
            let said =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            if said.contains(text) { Ok(()) } else { Err(said) }
        })
        .await;
    }
}

impl Case {
    /// A Unix socket whose connections lead to a port of a pod of the control plane, for programs
    /// that have a network of their own.
    pub fn relay(&self, socket: &std::path::Path, pod: &str, port: u16) {
        let listener = tokio::net::UnixListener::bind(socket).expect("the socket can be made");
        let (pods, pod) = (Api::<Pod>::namespaced(self.client.clone(), SYSTEM), pod.to_owned());
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                // A pod that is gone refuses; who connects tries again.
                let Ok(mut forward) = pods.portforward(&pod, &[port]).await else { continue };
                let mut far = forward.take_stream(port).expect("the port asked for");
                tokio::spawn(async move {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
    }
}
