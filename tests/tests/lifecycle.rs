//! The finer points of a pod's life: gates, probes, hooks, deadlines, order, the node's own end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use ironsail_testkit::{Case, Podlet, case, case_on, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{EvictParams, Patch, PatchParams};
use serde_json::{Value, json};

/// A pod whose first container runs a shell script, with more of a container's and a pod's spec.
fn script(name: &str, text: &str, container: &Value, spec: &Value) -> String {
    let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", text]}]}});
    for (key, value) in container.as_object().unwrap() {
        object["spec"]["containers"][0][key] = value.clone();
    }
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object.to_string()
}

/// Runs until it is told to stop, and then stops at once.
const IDLE: &str = "trap 'exit 0' TERM; sleep 1000 & wait";

/// Waits until a pod's script has come so far; a pod may be ready before its first line.
async fn up(case: &Case, pod: &str) {
    let wait = "until test -e /tmp/up; do sleep 0.1; done";
    case.exec_in(pod, "main", &["sh", "-c", wait]).await;
}

fn phase(wanted: &'static str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["phase"] == wanted
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

fn restarts(pod: &Value) -> u64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(0)
}

/// A folder of the host that a pod of this test may write into, and the volume for it.
fn folder(case: &Case) -> (PathBuf, Value, Value) {
    let path = case.podlet().dir().join(format!("shared-{}", case.namespace));
    std::fs::create_dir_all(&path).unwrap();
    let volume = json!([{"name": "out", "hostPath": {"path": path, "type": "Directory"}}]);
    (path, volume, json!([{"name": "out", "mountPath": "/out"}]))
}

/// Waits for an event of a pod that says all of `words`.
async fn event(case: &Case, pod: &str, words: &[&str]) {
    events(case, pod, words, 1).await;
}

/// Waits until it has been said so many times, or more.
async fn events(case: &Case, pod: &str, words: &[&str], times: u32) {
    eventually(&format!("an event with {words:?}, {times} times"), async || {
        let events = case.kubectl_says(&["events", "--for", &format!("pod/{pod}")]);
        let told = events.lines().any(|line| {
            // As in `2m (x3 over 4m)`.
            let count =
                line.split_once("(x").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
            words.iter().all(|word| line.contains(word)) && count.unwrap_or(1) >= times
        });
        if told { Ok(()) } else { Err(events) }
    })
    .await;
}

#[test]
fn a_readiness_gate_holds_a_pod_back() {
    case("gate", async |case| {
        let gate = json!({"readinessGates": [{"conditionType": "example.com/checked"}]});
        case.apply(&script("p", IDLE, &json!({}), &gate)).await;
        let pod = case
            .wait("pod/p", "ready but for the gate", |p| {
                condition(p, "ContainersReady")["status"] == "True"
            })
            .await;
        let ready = condition(&pod, "Ready");
        assert_eq!(
            (&ready["status"], &ready["reason"]),
            (&json!("False"), &json!("ReadinessGatesNotReady")),
            "{ready}"
        );
        let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
        let set = async |status: &str| {
            let patch = json!({"status": {"conditions": [{"type": "example.com/checked", "status": status}]}});
            pods.patch_status("p", &PatchParams::default(), &Patch::Strategic(patch))
                .await
                .unwrap();
        };
        set("True").await;
        case.ready("pod/p").await;
        set("False").await;
        let pod = case
            .wait("pod/p", "held back again", |p| condition(p, "Ready")["status"] == "False")
            .await;
        assert_eq!(condition(&pod, "ContainersReady")["status"], "True");
    });
}

#[test]
fn a_startup_probe_holds_the_others_back() {
    case("startup", async |case| {
        let probe = |file: &str, threshold: u32| json!({"exec": {"command": ["test", "-e", file]}, "periodSeconds": 1, "failureThreshold": threshold});
        let container = json!({"startupProbe": probe("/tmp/started", 1000), "livenessProbe": probe("/tmp/alive", 1), "readinessProbe": probe("/tmp/started", 1)});
        case.apply(&script("p", IDLE, &container, &json!({}))).await;
        // Three rounds without liveness, which would have failed in the first.
        events(case, "p", &["Startup probe failed"], 3).await;
        let pod = case.wait("pod/p", "running", phase("Running")).await;
        assert_eq!(
            (restarts(&pod), &pod["status"]["containerStatuses"][0]["started"]),
            (0, &json!(false))
        );
        case.exec("pod/p", &["touch", "/tmp/started"]).await;
        event(case, "p", &["Liveness probe failed"]).await;
        case.wait("pod/p", "restarted by liveness", |p| restarts(p) >= 1).await;
    });
}

#[test]
fn a_failing_startup_probe_restarts() {
    case("startfail", async |case| {
        let container = json!({"startupProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}});
        case.apply(&script("p", IDLE, &container, &json!({}))).await;
        case.wait("pod/p", "restarted", |p| restarts(p) >= 1).await;
        event(case, "p", &["Killing", "failed startup probe, will be restarted"]).await;
    });
}

#[test]
fn the_grace_period_covers_hook_and_process() {
    case("grace", async |case| {
        let (out, volumes, mounts) = folder(case);
        let hook = json!({"volumeMounts": mounts, "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /out/order"]}}}});
        let spec = json!({"volumes": volumes, "terminationGracePeriodSeconds": 5});
        // Deaf to SIGTERM but for a note, so that only the end of the grace ends it.
        let deaf =
            "trap 'echo term >> /out/order' TERM; touch /tmp/up; while :; do sleep 0.1; done";
        case.apply(&script("deaf", deaf, &hook, &spec)).await;
        let long = json!({"volumeMounts": mounts, "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1000"]}}}});
        case.apply(&script(
            "long",
            "trap 'echo late >> /out/late' TERM; while :; do sleep 0.1; done",
            &long,
            &spec,
        ))
        .await;
        case.ready("pod/deaf").await;
        case.ready("pod/long").await;
        up(case, "deaf").await;
        let start = tokio::time::Instant::now();
        case.kubectl_says(&["delete", "pod", "deaf", "long", "--wait=false"]);
        let pod = case
            .wait("pod/deaf", "going", |p| p["metadata"]["deletionTimestamp"].is_string())
            .await;
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 5);
        case.gone("pod/deaf").await;
        case.gone("pod/long").await;
        // Not before the grace is over, and long before the hook would be.
        let took = start.elapsed().as_secs_f64();
        assert!((4.5..300.0).contains(&took), "{took} s");
        let order = std::fs::read_to_string(out.join("order")).unwrap();
        assert_eq!(order, "hook\nterm\n");
        event(case, "long", &["FailedPreStopHook"]).await;
    });
}

#[test]
fn a_failing_post_start_hook_ends_its_container() {
    case("poststart", async |case| {
        let hook = json!({"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "echo broken; exit 4"]}}}});
        case.apply(&script("p", IDLE, &hook, &json!({}))).await;
        event(case, "p", &["FailedPostStartHook"]).await;
        let pod = case.wait("pod/p", "started again", |p| restarts(p) >= 1).await;
        assert_eq!(condition(&pod, "Ready")["status"], "False");
    });
}

#[test]
fn a_deadline_fails_the_pod() {
    case("deadline", async |case| {
        case.apply(&script("p", IDLE, &json!({}), &json!({"activeDeadlineSeconds": 2}))).await;
        let pod = case.wait("pod/p", "failed", phase("Failed")).await;
        assert_eq!(pod["status"]["reason"], "DeadlineExceeded");
        assert_eq!(
            pod["status"]["message"],
            "Pod was active on the node longer than the specified deadline"
        );
    });
}

#[test]
fn last_words_are_kept() {
    case("words", async |case| {
        let never = json!({"restartPolicy": "Never"});
        case.apply(&script(
            "file",
            "echo all done > /tmp/words",
            &json!({"terminationMessagePath": "/tmp/words"}),
            &never,
        ))
        .await;
        case.apply(&script(
            "log",
            "echo it broke; exit 1",
            &json!({"terminationMessagePolicy": "FallbackToLogsOnError"}),
            &never,
        ))
        .await;
        let words = |pod: &Value| {
            pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"].clone()
        };
        assert_eq!(
            words(&case.wait("pod/file", "succeeded", phase("Succeeded")).await),
            "all done\n"
        );
        assert_eq!(words(&case.wait("pod/log", "failed", phase("Failed")).await), "it broke\n");
    });
}

#[test]
fn on_failure_restarts_until_it_succeeds() {
    case("onfailure", async |case| {
        let mounts = json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]});
        let spec =
            json!({"restartPolicy": "OnFailure", "volumes": [{"name": "v", "emptyDir": {}}]});
        case.apply(&script(
            "p",
            "test -e /v/second && exit 0; touch /v/second; exit 3",
            &mounts,
            &spec,
        ))
        .await;
        let pod = case.wait("pod/p", "succeeded", phase("Succeeded")).await;
        assert_eq!(restarts(&pod), 1);
        assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 3);
    });
}

#[test]
fn sidecars_start_first_and_stop_last_in_reverse() {
    case("order", async |case| {
        let (out, volumes, mounts) = folder(case);
        let text = |name: &str| {
            format!(
                "echo +{name} >> /out/order; trap 'echo -{name} >> /out/order; exit 0' TERM; touch /tmp/up; sleep 1000 & wait"
            )
        };
        let sidecar = |name: &str| {
            json!({"name": name, "image": "busybox", "command": ["sh", "-c", text(name)], "volumeMounts": mounts,
            "restartPolicy": "Always", "startupProbe": {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1}})
        };
        let spec = json!({"volumes": volumes, "terminationGracePeriodSeconds": 20, "initContainers": [sidecar("one"), sidecar("two")]});
        case.apply(&script("p", &text("main"), &json!({"volumeMounts": mounts}), &spec)).await;
        case.ready("pod/p").await;
        up(case, "p").await;
        case.kubectl_says(&["delete", "pod", "p"]);
        let order = std::fs::read_to_string(out.join("order")).unwrap();
        assert_eq!(order.replace('\n', " "), "+one +two +main -main -two -one ");
    });
}

#[test]
fn a_sub_path_keeps_its_file_while_the_folder_follows() {
    case("subpath", async |case| {
        let map = |text: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"key": text}}).to_string()
        };
        case.apply(&map("old")).await;
        let mounts = json!({"volumeMounts": [{"name": "m", "mountPath": "/etc/one-key", "subPath": "key"}, {"name": "m", "mountPath": "/folder"}]});
        case.apply(&script(
            "p",
            IDLE,
            &mounts,
            &json!({"volumes": [{"name": "m", "configMap": {"name": "m"}}]}),
        ))
        .await;
        case.ready("pod/p").await;
        let read = async |file: &str| case.exec("pod/p", &["cat", file]).await.stdout;
        assert_eq!(
            (read("/etc/one-key").await, read("/folder/key").await),
            ("old".to_owned(), "old".to_owned())
        );
        case.apply(&map("new")).await;
        eventually("the folder follows", async || {
            let text = read("/folder/key").await;
            if text == "new" { Ok(()) } else { Err(text) }
        })
        .await;
        assert_eq!(read("/etc/one-key").await, "old");
    });
}

#[test]
fn an_eviction_ends_a_pod_though_a_budget_is_stored() {
    case("evict", async |case| {
        case.apply(&script("p", IDLE, &json!({}), &json!({}))).await;
        case.apply("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {minAvailable: 1, selector: {matchLabels: {app: p}}}}").await;
        case.ready("pod/p").await;
        let table = case.kubectl_says(&["get", "pdb"]);
        assert!(table.contains("MIN AVAILABLE"), "{table}");
        let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
        pods.evict("p", &EvictParams::default()).await.unwrap();
        case.gone("pod/p").await;
    });
}

#[test]
fn an_image_that_is_added_to_the_map_is_used() {
    // A map of its own: other tests do not see half a file.
    let podlet = Podlet::start("images", &[]);
    case_on(&podlet, "images", async |case| {
        case.apply(&script("p", IDLE, &json!({"image": "example.com/later:1"}), &json!({}))).await;
        let waiting =
            |p: &Value| p["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
        case.wait("pod/p", "backing off", |p| waiting(p) == "ImagePullBackOff").await;
        let file = case.podlet().dir().join("images.yaml");
        let text = std::fs::read_to_string(&file).unwrap() + "  later: {root: host}\n";
        std::fs::write(case.podlet().dir().join("images.new"), text).unwrap();
        std::fs::rename(case.podlet().dir().join("images.new"), &file).unwrap();
        case.ready("pod/p").await;
    });
}

#[test]
fn podlet_stops_its_pods_gracefully_and_brings_them_back() {
    let mut podlet = Podlet::start("sigterm", &["--nodes", "2"]);
    let out = podlet.dir().join("out");
    std::fs::create_dir_all(&out).unwrap();
    let pod = |name: &str| {
        let hook = json!({"volumeMounts": [{"name": "out", "mountPath": "/out"}],
            "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", format!("echo hook >> /out/{name}")]}}}});
        let text = format!(
            "trap 'echo term >> /out/{name}; exit 0' TERM; echo start >> /out/{name}; sleep 1000 & wait"
        );
        script(
            name,
            &text,
            &hook,
            &json!({"volumes": [{"name": "out", "hostPath": {"path": out}}], "terminationGracePeriodSeconds": 20}),
        )
    };
    let kubectl = |podlet: &Podlet, args: &[&str]| {
        let output = podlet.kubectl().args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    kubectl(&podlet, &["wait", "--for=create", "serviceaccount/default", "--timeout=170s"]);
    let file = podlet.dir().join("pods.json");
    for name in ["a", "b"] {
        std::fs::write(&file, pod(name)).unwrap();
        kubectl(&podlet, &["apply", "-f", file.to_str().unwrap()]);
    }
    kubectl(&podlet, &["wait", "--for=condition=Ready", "pod/a", "pod/b", "--timeout=170s"]);
    let written = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    for _ in 0..1_800 {
        if ["a", "b"].iter().all(|name| written(name) == "start\n") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(podlet.stop(), "podlet ended well");
    for name in ["a", "b"] {
        assert_eq!(written(name), "start\nhook\nterm\n");
    }
    podlet.restart(&["--nodes", "2"]);
    let again = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1";
    kubectl(&podlet, &["wait", again, "pod/a", "pod/b", "--timeout=170s"]);
    kubectl(&podlet, &["wait", "--for=condition=Ready", "pod/a", "pod/b", "--timeout=170s"]);
}
