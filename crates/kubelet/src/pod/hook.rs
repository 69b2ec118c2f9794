//! postStart and preStop: runs one life-cycle handler to its end.

use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;

use crate::probe::{Subject, http};

use super::exec;

/// How hooks name themselves.
const AGENT: &str = "kube-lifecycle/1.36";

/// Runs `handler`; the caller bounds the time. `Err` says why it failed.
pub async fn run(handler: &LifecycleHandler, subject: &Subject) -> Result<(), String> {
    if let Some(action) = &handler.exec {
        let command = action.command.as_deref().unwrap_or_default();
        let (code, output) = exec::output(&*subject.process, command, Duration::MAX).await?;
        if code != 0 {
            let command = command.join(" ");
            return Err(format!("command '{command}' exited with {code}: {output}"));
        }
        return Ok(());
    }
    if let Some(action) = &handler.http_get {
        let answer =
            http::get(action, &subject.container, subject.ip, AGENT, &*subject.dial).await?;
        if answer.status >= 400 {
            return Err(format!("HTTP hook failed with statuscode: {}", answer.status));
        }
        return Ok(());
    }
    if let Some(action) = &handler.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    Err("invalid handler: only exec, httpGet and sleep are supported".to_owned())
}
