//! Commands and requests from inside a pod.

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{AttachParams, ListParams};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncReadExt;

use crate::case::Case;
use crate::wait::eventually;

/// How a command in a pod ended.
#[derive(Debug)]
pub struct Executed {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// What a request sent by the echo client got back.
#[derive(Debug, Deserialize)]
pub struct Answer {
    /// HTTP status or gRPC code; none for plain TCP and where nothing answered.
    pub status: Option<u16>,
    #[serde(default)]
    pub headers: std::collections::BTreeMap<String, Vec<String>>,
    /// The echo server's report, where one answered.
    pub body: Value,
    /// Why nothing answered.
    pub error: Option<String>,
    /// How long it took.
    #[serde(default)]
    pub millis: u64,
}

impl Case {
    /// Runs `command` in the first container of `from` (`pod/name` or `deployment/name`).
    pub async fn exec(&self, from: &str, command: &[&str]) -> Executed {
        let pod = self.pod_of(from).await;
        let container = pod.spec.as_ref().map(|s| s.containers[0].name.clone());
        let name = pod.metadata.name.expect("a pod has a name");
        self.exec_in(&name, container.as_deref().expect("a pod has a container"), command).await
    }

    /// Runs `command` in one container of a pod.
    pub async fn exec_in(&self, pod: &str, container: &str, command: &[&str]) -> Executed {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let how = AttachParams::default().container(container).stdout(true).stderr(true);
        let mut process = pods
            .exec(pod, command.iter().copied(), &how)
            .await
            .unwrap_or_else(|e| panic!("exec in {pod}: {e}"));
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let mut out = process.stdout().expect("asked for stdout");
        let mut err = process.stderr().expect("asked for stderr");
        let status = process.take_status().expect("asked once");
        let (read_out, read_err, status) =
            tokio::join!(out.read_to_string(&mut stdout), err.read_to_string(&mut stderr), status);
        read_out.expect("stdout is text");
        read_err.expect("stderr is text");
        Executed { code: exit_code(status), stdout, stderr }
    }

    /// A request from `from`, a pod with the echo program, by `echo call`.
    pub async fn call(&self, from: &str, url: &str) -> Answer {
        self.call_with(from, url, &[]).await.pop().expect("one request, one answer")
    }

    /// Requests with more arguments of `echo call`, such as `-n 10` or `-H 'a: b'`.
    pub async fn call_with(&self, from: &str, url: &str, args: &[&str]) -> Vec<Answer> {
        let mut command = vec!["echo", "call", url];
        command.extend_from_slice(args);
        // `echo` is a shell builtin and a program of the host; ours comes first in the image's PATH.
        let run = self.exec(from, &command).await;
        run.stdout
            .lines()
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|e| panic!("echo call printed {line:?} ({e}); {}", run.stderr))
            })
            .collect()
    }

    async fn pod_of(&self, from: &str) -> Pod {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let (kind, name) = from.split_once('/').expect("kind/name");
        if kind == "pod" {
            return pods.get(name).await.unwrap_or_else(|e| panic!("{from}: {e}"));
        }
        let (api, name) = self.api(from);
        let owner = api.get(name).await.unwrap_or_else(|e| panic!("{from}: {e}"));
        let labels = &owner.data["spec"]["selector"]["matchLabels"];
        let selector: Vec<_> = labels
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
            .collect();
        let found = pods
            .list(&ListParams::default().labels(&selector.join(",")))
            .await
            .unwrap_or_else(|e| panic!("pods of {from}: {e}"));
        let alive = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
        found.items.into_iter().find(alive).unwrap_or_else(|| panic!("{from} has no pod"))
    }

    /// Waits for an event about `kind/name` with this reason, and returns its message.
    pub async fn event(&self, about: &str, reason: &str) -> String {
        let (kind, name) = about.split_once('/').expect("kind/name");
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let fields = format!("involvedObject.name={name},reason={reason}");
        eventually(&format!("an event {reason} about {about}"), async || {
            let found = events.list(&ListParams::default().fields(&fields)).await;
            let found = found.map_err(|e| e.to_string())?.items;
            let of_kind = |event: &Event| {
                event.involved_object.kind.as_deref().is_some_and(|k| k.eq_ignore_ascii_case(kind))
            };
            let event = found.into_iter().find(of_kind).ok_or_else(|| "none yet".to_owned())?;
            Ok(event.message.unwrap_or_default())
        })
        .await
    }

    /// What a container has written, once that is as wanted: what a process writes is read by others
    /// than those who see it end.
    pub async fn log_until(
        &self,
        pod: &str,
        container: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> String {
        eventually(&format!("the log of {container} in {pod}"), async || {
            let log = self.logs(pod, container).await;
            if wanted(&log) { Ok(log) } else { Err(log) }
        })
        .await
    }

    /// What a container has written so far.
    pub async fn logs(&self, pod: &str, container: &str) -> String {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let how =
            kube::api::LogParams { container: Some(container.to_owned()), ..Default::default() };
        pods.logs(pod, &how).await.unwrap_or_else(|e| format!("(no log: {e})"))
    }

    /// Sends `text` through a port-forward and reads until the other side closes.
    pub async fn forward(&self, pod: &str, port: u16, text: &str) -> String {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut forward = pods.portforward(pod, &[port]).await.expect("port-forward opens");
        let mut stream = forward.take_stream(port).expect("the port asked for");
        tokio::io::AsyncWriteExt::write_all(&mut stream, text.as_bytes())
            .await
            .expect("the port takes text");
        let mut chunks = tokio_util::io::ReaderStream::new(stream);
        let mut got = Vec::new();
        while let Some(Ok(chunk)) = chunks.next().await {
            got.extend_from_slice(&chunk);
        }
        String::from_utf8_lossy(&got).into_owned()
    }
}

/// The exit code in the status that ends an exec.
fn exit_code(status: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Status>) -> i32 {
    let Some(status) = status else { return -1 };
    if status.status.as_deref() == Some("Success") {
        return 0;
    }
    let causes = status.details.and_then(|d| d.causes).unwrap_or_default();
    let code = causes.into_iter().find(|c| c.reason.as_deref() == Some("ExitCode"));
    code.and_then(|c| c.message?.parse().ok()).unwrap_or(-1)
}
