//! What people also ask a cluster for: events, explanations, custom resources, leases, metrics that
//! are not there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Case, case, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: busybox, command: [sleep, '1000']}]}}";

#[test]
fn events_tell_a_pods_story() {
    case("events", async |case| {
        case.apply(POD).await;
        case.ready("pod/p").await;
        eventually("the whole story", async || {
            let table =
                case.kubectl_says(&["get", "events", "--sort-by=.metadata.creationTimestamp"]);
            let whole =
                ["Scheduled", "Pulled", "Created", "Started"].iter().all(|r| table.contains(r));
            if whole { Ok(()) } else { Err(table) }
        })
        .await;
        let table = case.kubectl_says(&[
            "get",
            "events",
            "--field-selector",
            "involvedObject.name=p,reason=Scheduled",
        ]);
        let rows: Vec<_> = table.lines().skip(1).collect();
        assert_eq!(rows.len(), 1, "{table}");
        assert!(rows[0].contains("Normal") && rows[0].contains("pod/p"), "{table}");
        assert!(
            rows[0].contains(&format!("Successfully assigned {}/p to node-", case.namespace)),
            "{table}"
        );
        let json = case.kubectl_says(&["get", "events.v1.events.k8s.io", "-o", "json"]);
        let list: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(
            list["items"].as_array().unwrap().iter().any(|e| e["regarding"]["name"] == "p"),
            "{json}"
        );
    });
}

#[test]
fn metrics_are_refused_in_plain_words() {
    case("top", async |case| {
        for what in ["pods", "nodes"] {
            let said = case.kubectl_refuses(&["top", what]);
            assert!(said.contains("Metrics API not available"), "{said}");
        }
        let said = case.kubectl_refuses(&["get", "podmetrics"]);
        assert!(said.contains("the server doesn't have a resource type \"podmetrics\""), "{said}");
    });
}

#[test]
fn fields_are_explained() {
    case("explain", async |case| {
        let said = case.kubectl_says(&["explain", "deployment.spec.replicas"]);
        assert!(
            said.contains("GROUP:      apps") && said.contains("FIELD: replicas <integer>"),
            "{said}"
        );
        let said = case.kubectl_says(&["explain", "pod.spec.containers", "--recursive"]);
        assert!(said.contains("livenessProbe") && said.contains("httpGet"), "{said}");
        let said = case.kubectl_refuses(&["explain", "pod.spec.nonsense"]);
        assert!(said.contains("field \"nonsense\" does not exist"), "{said}");
    });
}

#[test]
fn the_old_openapi_document_can_be_asked_for() {
    case("openapi", async |case| {
        let text = case.kubectl_says(&["get", "--raw", "/openapi/v2"]);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["swagger"], "2.0");
        // kubectl reads it before it sends a review.
        let review = r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}"#;
        let output =
            case.kubectl_output(&["create", "-o", "jsonpath={.status.allowed}", "-f", "-"], review);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "true");
    });
}

fn definition(group: &str) -> String {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("widgets.{group}")}, "spec": {
        "group": group, "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wdg"], "categories": ["all"]},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "additionalPrinterColumns": [
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
            "schema": {"openAPIV3Schema": {"type": "object", "description": "A thing of the shop.", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer", "description": "How large it is.", "maximum": 9}, "colour": {"type": "string", "default": "red"}}},
                "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}}}]}})
    .to_string()
}

/// Removes the definition when the test ends, however it ends.
struct Defined<'a>(&'a Case, String);

impl Drop for Defined<'_> {
    fn drop(&mut self) {
        self.0
            .kubectl_output(&["delete", "crd", &format!("widgets.{}", self.1), "--wait=false"], "");
    }
}

#[test]
fn custom_resources_are_at_home_in_kubectl() {
    case("custom", async |case| {
        // A group of its own: definitions belong to the whole cluster.
        let group = format!("{}.example.com", case.namespace);
        let _defined = Defined(case, group.clone());
        let applied = case.kubectl_output(&["apply", "-f", "-"], &definition(&group));
        assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        case.kubectl_says(&[
            "wait",
            "--for=condition=Established",
            &format!("crd/widgets.{group}"),
            "--timeout=170s",
        ]);
        let widget = |size: u32| {
            json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": size}}).to_string()
        };
        let applied = case.kubectl_output(&["apply", "-f", "-"], &widget(3));
        assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        let kind = format!("widgets.{group}");
        let words = |table: &str| -> Vec<Vec<String>> {
            table.lines().map(|l| l.split_whitespace().map(str::to_owned).collect()).collect()
        };
        let table = words(&case.kubectl_says(&["get", &kind]));
        assert_eq!(table[0], ["NAME", "SIZE", "PHASE", "AGE"]);
        assert_eq!(table[1][..2], ["w", "3"]);
        let wide = words(&case.kubectl_says(&["get", &format!("wdg.{group}"), "-o", "wide"]));
        assert_eq!(wide[0], ["NAME", "SIZE", "PHASE", "COLOUR", "AGE"]);
        assert!(wide[1].contains(&"red".to_owned()), "{wide:?}");
        // Somebody waits for the status that somebody else writes.
        let waiting = case
            .kubectl()
            .args([
                "wait",
                "--for=jsonpath={.status.phase}=Done",
                &format!("{kind}/w"),
                "--timeout=170s",
            ])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        case.kubectl_says(&[
            "patch",
            &kind,
            "w",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"phase":"Done"}}"#,
        ]);
        let waited = waiting.wait_with_output().unwrap();
        assert!(waited.status.success());
        assert!(String::from_utf8_lossy(&waited.stdout).contains("/w condition met"));
        let refused = case.kubectl_output(&["apply", "-f", "-"], &widget(99));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            said.contains("spec.size") && said.contains("should be less than or equal to 9"),
            "{said}"
        );
        let said = eventually("the schema is published", async || {
            let output = case.kubectl_output(&["explain", &format!("{kind}.spec.size")], "");
            if output.status.success() {
                Ok(String::from_utf8(output.stdout).unwrap())
            } else {
                Err(String::from_utf8(output.stderr).unwrap())
            }
        })
        .await;
        assert!(said.contains("How large it is."), "{said}");
        eventually("it is one of all", async || {
            // Reads anew what there is: kubectl keeps a list, which another test may have written.
            case.kubectl_says(&["api-resources"]);
            let all = case.kubectl_says(&["get", "all"]);
            if all.contains(&format!("widget.{group}/w")) { Ok(()) } else { Err(all) }
        })
        .await;
    });
}

/// One contender of a leader election, as client libraries do it: who finds the lease free or stale
/// writes itself in, with the version it has seen.
async fn contend(leases: &Api<Lease>, who: &str, now: &str, stale: bool) -> bool {
    let spec = |transitions: i64| json!({"holderIdentity": who, "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now, "leaseTransitions": transitions});
    let made = |value| serde_json::from_value(value).unwrap();
    let outcome = match leases.get_opt("leader").await.unwrap() {
        None => {
            let lease: Lease = made(json!({"metadata": {"name": "leader"}, "spec": spec(0)}));
            leases.create(&PostParams::default(), &lease).await
        }
        Some(held) if stale => {
            let transitions = held.spec.as_ref().and_then(|s| s.lease_transitions).unwrap_or(0);
            let lease: Lease =
                made(json!({"metadata": held.metadata, "spec": spec(i64::from(transitions) + 1)}));
            leases.replace("leader", &PostParams::default(), &lease).await
        }
        Some(held) => return held.spec.unwrap().holder_identity.as_deref() == Some(who),
    };
    match outcome {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 409 => false,
        Err(error) => panic!("{who}: {error}"),
    }
}

#[test]
fn a_lease_elects_one_leader() {
    case("lease", async |case| {
        let leases: Api<Lease> = Api::namespaced(case.client.clone(), &case.namespace);
        let first = "2026-01-02T03:04:05.000001Z";
        let names: Vec<String> = (0..8).map(|i| format!("contender-{i}")).collect();
        let won =
            futures::future::join_all(names.iter().map(|n| contend(&leases, n, first, false)))
                .await;
        assert_eq!(won.iter().filter(|w| **w).count(), 1, "{won:?}");
        // It falls silent: of all who saw the same version, one takes over.
        let later = "2026-01-02T03:05:05.000002Z";
        let versions =
            futures::future::join_all(names.iter().map(|n| contend(&leases, n, later, true))).await;
        assert!(versions.iter().any(|w| *w), "{versions:?}");
        let lease = leases.get("leader").await.unwrap().spec.unwrap();
        let winners = i32::try_from(versions.iter().filter(|w| **w).count()).unwrap();
        assert_eq!(lease.lease_transitions, Some(winners), "each change of hands is counted once");
        assert_eq!(serde_json::to_value(lease.renew_time).unwrap(), later, "microseconds are kept");
        let table = case.kubectl_says(&["get", "lease", "leader"]);
        assert!(table.contains("HOLDER") && table.contains("contender-"), "{table}");
    });
}

#[test]
fn ingresses_and_other_bystanders_are_kept() {
    case("kept", async |case| {
        case.apply(r#"
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: {ingressClassName: nobody, rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: closed}, spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 1, maxReplicas: 3}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}}}
"#).await;
        let table = case.kubectl_says(&["get", "ingress"]);
        assert!(table.contains("nobody") && table.contains("shop.example.com"), "{table}");
        let described = case.kubectl_says(&["describe", "ingress", "web"]);
        assert!(described.contains("web:80"), "{described}");
        let table = case.kubectl_says(&["get", "cronjob,hpa,networkpolicy"]);
        for name in [
            "cronjob.batch/nightly",
            "horizontalpodautoscaler.autoscaling/web",
            "networkpolicy.networking.k8s.io/closed",
        ] {
            assert!(table.contains(name), "{table}");
        }
        let said = case.kubectl_output(&["apply", "-f", "-"], "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: bad}, spec: {rules: [{http: {paths: [{path: no-slash, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}}");
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains("must be an absolute path"), "{said}");
    });
}
