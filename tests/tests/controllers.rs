//! Deployments, StatefulSets, DaemonSets, Jobs, garbage collection, namespaces.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use ironsail_testkit::{Case, case, eventually};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

fn deployment(replicas: u32, version: &str) -> String {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}},
                "spec": {"terminationGracePeriodSeconds": 2, "containers": [{"name": "e", "image": "echo", "args": ["serve", "--http", "8080"],
                    "env": [{"name": "VERSION", "value": version}],
                    // A busy machine answers late, and is ready all the same.
                    "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1, "timeoutSeconds": 30, "failureThreshold": 30}}]}}}})
    .to_string()
}

async fn pods(case: &Case, selector: &str) -> Vec<Pod> {
    let api: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
    api.list(&ListParams::default().labels(selector)).await.unwrap().items
}

#[test]
fn a_rollout_replaces_every_pod_and_never_drops_below() {
    case("rollout", async |case| {
        case.apply(&deployment(3, "v1")).await;
        case.ready("deployment/d").await;
        let before: BTreeSet<_> =
            pods(case, "app=d").await.into_iter().map(|p| p.metadata.name.unwrap()).collect();
        case.apply(&deployment(3, "v2")).await;
        let watch = async {
            // maxUnavailable 25 % of 3 rounds down to none.
            let api: Api<Deployment> = Api::namespaced(case.client.clone(), &case.namespace);
            loop {
                let status = api.get("d").await.unwrap().status.unwrap();
                assert!(status.available_replicas.unwrap_or(0) >= 3, "{status:?}");
                assert!(status.replicas.unwrap_or(0) <= 4, "{status:?}");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = case.ready("deployment/d") => {}
            () = watch => unreachable!("the loop never ends"),
        }
        let after: BTreeSet<_> = pods(case, "app=d")
            .await
            .into_iter()
            .filter(|p| p.metadata.deletion_timestamp.is_none())
            .map(|p| p.metadata.name.unwrap())
            .collect();
        assert!(before.is_disjoint(&after), "{before:?} {after:?}");
        let sets: Api<ReplicaSet> = Api::namespaced(case.client.clone(), &case.namespace);
        assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 2);
    });
}

#[test]
fn a_deleted_pod_is_replaced() {
    case("replace", async |case| {
        case.apply(&deployment(2, "v1")).await;
        case.ready("deployment/d").await;
        let victim = pods(case, "app=d").await[0].metadata.name.clone().unwrap();
        let api: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
        api.delete(&victim, &DeleteParams::default()).await.unwrap();
        case.gone(&format!("pod/{victim}")).await;
        // The Deployment may be told of it later, and say until then that it is ready.
        eventually("two pods", async || {
            let count = pods(case, "app=d").await.len();
            if count == 2 { Ok(()) } else { Err(format!("{count} pods")) }
        })
        .await;
        case.ready("deployment/d").await;
        assert_eq!(pods(case, "app=d").await.len(), 2);
    });
}

#[test]
fn a_stateful_set_names_and_orders_its_pods() {
    case("stateful", async |case| {
        case.apply(
            r#"
{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: None, selector: {app: s}, ports: [{port: 80}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s}
spec:
  serviceName: s
  replicas: 3
  selector: {matchLabels: {app: s}}
  template:
    metadata: {labels: {app: s}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: e, image: echo, args: [serve, --http, "80"]}]}
"#,
        )
        .await;
        case.ready("statefulset/s").await;
        let mut found = pods(case, "app=s").await;
        found.sort_by_key(|p| p.metadata.creation_timestamp.clone().map(|t| t.0));
        let names: Vec<_> = found.iter().map(|p| p.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["s-0", "s-1", "s-2"]);
        assert_eq!(case.exec("pod/s-1", &["hostname"]).await.stdout, "s-1\n");
        let api: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
        let old = api.get("s-1").await.unwrap().metadata.uid;
        api.delete("s-1", &DeleteParams::default()).await.unwrap();
        case.wait("pod/s-1", "made anew", |p| {
            p["metadata"]["uid"].as_str().map(str::to_owned) != old
                && p["status"]["phase"] == "Running"
        })
        .await;
    });
}

#[test]
fn a_daemon_set_is_on_every_node() {
    case("daemon", async |case| {
        case.apply("{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: e, image: echo, args: [serve, --http, '8080']}]}}}}").await;
        case.wait("daemonset/a", "ready twice", |set| set["status"]["numberReady"] == 2).await;
        let nodes: BTreeSet<_> = pods(case, "app=a")
            .await
            .into_iter()
            .map(|p| p.spec.unwrap().node_name.unwrap())
            .collect();
        assert_eq!(nodes.len(), 2, "{nodes:?}");
    });
}

#[test]
fn a_job_retries_and_completes() {
    case("job", async |case| {
        let text = "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {completions: 3, parallelism: 2, template: {spec: {restartPolicy: Never, containers: [{name: m, image: busybox, command: [sh, -c, 'exit 0']}]}}}}";
        case.apply(text).await;
        case.ready("job/j").await;
        let job = case.wait("job/j", "counted", |j| j["status"]["succeeded"] == 3).await;
        assert!(job["status"]["completionTime"].is_string());
        let bad = "{apiVersion: batch/v1, kind: Job, metadata: {name: k}, spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: m, image: busybox, command: [sh, -c, 'exit 1']}]}}}}";
        case.apply(bad).await;
        let failed = |j: &Value| {
            let all = j["status"]["conditions"].as_array();
            all.into_iter().flatten().any(|c| {
                c["type"] == "Failed"
                    && c["status"] == "True"
                    && c["reason"] == "BackoffLimitExceeded"
            })
        };
        case.wait("job/k", "failed", failed).await;
    });
}

#[test]
fn dependents_go_with_their_owner_or_stay_as_orphans() {
    case("gc", async |case| {
        let maps: Api<ConfigMap> = Api::namespaced(case.client.clone(), &case.namespace);
        let make = async |name: &str, owner: Option<&ConfigMap>| -> ConfigMap {
            let mut object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            if let Some(owner) = owner {
                object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": owner.metadata.uid, "blockOwnerDeletion": true}]);
            }
            let made = maps.patch(name, &PatchParams::apply("t"), &Patch::Apply(&object)).await;
            made.unwrap()
        };
        let a = make("a", None).await;
        make("a-child", Some(&a)).await;
        maps.delete("a", &DeleteParams::background()).await.unwrap();
        case.gone("configmap/a-child").await;
        let b = make("b", None).await;
        make("b-child", Some(&b)).await;
        maps.delete("b", &DeleteParams::foreground()).await.unwrap();
        case.gone("configmap/b").await;
        assert!(maps.get_opt("b-child").await.unwrap().is_none());
        let c = make("c", None).await;
        make("c-child", Some(&c)).await;
        maps.delete("c", &DeleteParams::orphan()).await.unwrap();
        case.gone("configmap/c").await;
        case.wait("configmap/c-child", "an orphan", |o| {
            o["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty)
        })
        .await;
    });
}

#[test]
fn a_namespace_takes_everything_along() {
    case("namespace", async |case| {
        let name = format!("{}-x", case.namespace);
        case.apply(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
                .to_string(),
        )
        .await;
        let mut object: Value = serde_json::from_str(&deployment(1, "v1")).unwrap();
        object["metadata"]["namespace"] = json!(name);
        case.apply(&object.to_string()).await;
        let deployments: Api<Deployment> = Api::namespaced(case.client.clone(), &name);
        loop {
            let status = deployments.get("d").await.unwrap().status;
            if status.and_then(|s| s.available_replicas) == Some(1) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let namespaces: Api<Namespace> = Api::all(case.client.clone());
        namespaces.delete(&name, &DeleteParams::default()).await.unwrap();
        case.gone(&format!("namespace/{name}")).await;
        let left: Api<Pod> = Api::namespaced(case.client.clone(), &name);
        assert!(left.list(&ListParams::default()).await.unwrap().items.is_empty());
    });
}

#[test]
fn every_namespace_has_an_account_and_the_root_certificate() {
    case("defaults", async |case| {
        case.wait("serviceaccount/default", "there", |_| true).await;
        case.wait("configmap/kube-root-ca.crt", "there", |c| {
            c["data"]["ca.crt"].as_str().is_some_and(|t| t.contains("BEGIN CERTIFICATE"))
        })
        .await;
    });
}

#[test]
fn a_webhook_behind_a_service_is_asked() {
    case("hook", async |case| {
        // The echo sample is no webhook: its answer is refused, which shows that it was asked.
        case.sample("echo/echo.yaml").await;
        case.ready("deployment/echo").await;
        let name = format!("{}-hook", case.namespace);
        let hook = |policy: &str| {
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
                "webhooks": [{"name": "hook.example.com", "failurePolicy": policy, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                    "clientConfig": {"service": {"name": "echo", "namespace": case.namespace, "path": "/hook"}},
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": case.namespace}},
                    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}]})
        };
        case.apply(&hook("Fail").to_string()).await;
        let object = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let mut tries = 0;
        let refused = eventually("the webhook is asked", async || {
            tries += 1;
            match case.try_apply(object(&format!("early-{tries}"))).await {
                Ok(_) => Err("not asked yet".to_owned()),
                Err(refused) => Ok(refused.to_string()),
            }
        })
        .await;
        let url = format!("https://echo.{}.svc:443/hook?timeout=10s", case.namespace);
        assert!(
            refused.contains("failed calling webhook \"hook.example.com\"")
                && refused.contains(&url),
            "{refused}"
        );
        case.apply(&hook("Ignore").to_string()).await;
        eventually("a webhook that fails is ignored", async || {
            case.try_apply(object("x")).await.map_err(|refused| refused.to_string())
        })
        .await;
        let hooks: Api<
            k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration,
        > = Api::all(case.client.clone());
        hooks.delete(&name, &DeleteParams::default()).await.unwrap();
    });
}
