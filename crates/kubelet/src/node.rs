//! The node's own object and its heartbeat.
//!
//! In come settings and addresses; out go a Node, a Lease that is renewed, and conditions that say
//! the node is ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::context::Context;

/// The version that the node says it is.
pub const KUBELET_VERSION: &str = concat!("v1.36.0+podlet-", env!("CARGO_PKG_VERSION"));
const LEASE_SECONDS: i32 = 40;
const RENEW: Duration = Duration::from_secs(10);
/// The status is written anew this often even if nothing changed.
const STATUS: Duration = Duration::from_secs(300);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("registering node {node}")]
    Register { node: String, source: Box<kube::Error> },
}

/// Makes the Node object, or brings the one that is there up to date.
pub async fn register(ctx: &Context) -> Result<Node, Error> {
    let name = &ctx.config.node.name;
    let api: Api<Node> = Api::all(ctx.client.clone());
    let failed = |e: kube::Error| Error::Register { node: name.clone(), source: Box::new(e) };
    let object: Node =
        serde_json::from_value(object(ctx)).expect("the object is made here, of known fields");
    let created = api.create(&PostParams::default(), &object).await;
    match created {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let mut patch = json!({"metadata": {"labels": object.metadata.labels}});
            if let Some(spec) = &object.spec {
                patch["spec"] = json!({"podCIDR": spec.pod_cidr, "podCIDRs": spec.pod_cidrs});
            }
            if let Err(error) =
                api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await
            {
                // Ranges of a node that is there already cannot change; the rest can.
                tracing::debug!(%error, node = name, "cannot set the pod ranges of the node");
                let labels = json!({"metadata": {"labels": object.metadata.labels}});
                api.patch(name, &PatchParams::default(), &Patch::Merge(&labels))
                    .await
                    .map_err(failed)?;
            }
        }
        Err(error) => return Err(failed(error)),
    }
    write_status(ctx, true).await.map_err(failed)?;
    api.get(name).await.map_err(failed)
}

fn labels(ctx: &Context) -> BTreeMap<String, String> {
    let node = &ctx.config.node;
    let mut labels = node.labels.clone();
    for (key, value) in [
        ("kubernetes.io/hostname", node.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", architecture()),
    ] {
        labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    labels
}

/// The machine's architecture by Go's name, which is what Kubernetes uses.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn object(ctx: &Context) -> Value {
    let node = &ctx.config.node;
    json!({
        "metadata": {
            "name": node.name,
            "labels": labels(ctx),
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": node.pod_cidrs.first(), "podCIDRs": node.pod_cidrs, "providerID": format!("podlet://{}", node.name)},
    })
}

/// The status of the node; `ready` is false when it goes down.
fn status(ctx: &Context, ready: bool) -> Value {
    let node = &ctx.config.node;
    let now = Time(ctx.now());
    let resources = json!({
        "cpu": node.cpus.to_string(),
        "memory": format!("{}Ki", node.memory_bytes / 1024),
        "pods": node.max_pods.to_string(),
        "ephemeral-storage": "0",
    });
    let condition = |kind: &str, status: bool, reason: &str, message: &str| {
        let status = if status { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": reason, "message": message,
               "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let readiness = if ready {
        condition("Ready", true, "KubeletReady", "kubelet is posting ready status")
    } else {
        condition("Ready", false, "KubeletNotReady", "node is shutting down")
    };
    let mut addresses: Vec<Value> = ctx
        .host_ips
        .iter()
        .map(|ip| json!({"type": "InternalIP", "address": ip.to_string()}))
        .collect();
    addresses.push(json!({"type": "Hostname", "address": node.name}));
    json!({
        "capacity": resources,
        "allocatable": resources,
        "addresses": addresses,
        "conditions": [
            condition("MemoryPressure", false, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            readiness,
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": node.machine_id, "systemUUID": node.machine_id, "bootID": node.boot_id,
            "kernelVersion": node.kernel_version, "osImage": node.os_image,
            "containerRuntimeVersion": concat!("podlet://", env!("CARGO_PKG_VERSION")),
            "kubeletVersion": KUBELET_VERSION, "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": architecture(),
        },
    })
}

/// Writes the status, keeping the transition times of conditions that did not change.
pub async fn write_status(ctx: &Context, ready: bool) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(ctx.client.clone());
    let name = &ctx.config.node.name;
    let current = api.get(name).await?;
    let mut status = status(ctx, ready);
    let old = current.status.and_then(|s| s.conditions).unwrap_or_default();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let same =
            old.iter().find(|o| condition["type"] == o.type_ && condition["status"] == o.status);
        if let Some(time) = same.and_then(|o| o.last_transition_time.as_ref()) {
            condition["lastTransitionTime"] = json!(time);
        }
    }
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&json!({"status": status})))
        .await?;
    Ok(())
}

/// Renews the lease and, now and then, the status, until dropped.
pub async fn heartbeat(ctx: Arc<Context>, node: Node) {
    let uid = node.metadata.uid.unwrap_or_default();
    let mut since_status = Duration::ZERO;
    loop {
        if let Err(error) = renew(&ctx.client, &ctx, &uid).await {
            tracing::warn!(%error, node = ctx.config.node.name, "cannot renew the lease of the node");
        }
        tokio::time::sleep(RENEW).await;
        since_status += RENEW;
        if since_status >= STATUS {
            since_status = Duration::ZERO;
            if let Err(error) = write_status(&ctx, true).await {
                tracing::warn!(%error, node = ctx.config.node.name, "cannot write the status of the node");
            }
        }
    }
}

async fn renew(client: &Client, ctx: &Context, uid: &str) -> Result<(), kube::Error> {
    let name = &ctx.config.node.name;
    let api: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let now = MicroTime(ctx.now());
    let patch = json!({"spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}});
    match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let owner = OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.clone(),
                uid: uid.to_owned(),
                ..OwnerReference::default()
            };
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(name.clone()),
                    namespace: Some("kube-node-lease".to_owned()),
                    owner_references: Some(vec![owner]),
                    ..ObjectMeta::default()
                },
                spec: Some(LeaseSpec {
                    holder_identity: Some(name.clone()),
                    lease_duration_seconds: Some(LEASE_SECONDS),
                    renew_time: Some(now),
                    ..LeaseSpec::default()
                }),
            };
            api.create(&PostParams::default(), &lease).await.map(drop)
        }
        Err(error) => Err(error),
    }
}
