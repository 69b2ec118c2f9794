//! Whole lives of pods, on fakes and with time that jumps.

use super::*;
use crate::stream::remembered;
use crate::testing::{Bench, Told};
use ironsail_container::ExitStatus;
use parking_lot::Mutex;
use serde_json::{Value, json};

struct Case {
    bench: Bench,
    orders: mpsc::UnboundedSender<Order>,
    task: tokio::task::JoinHandle<()>,
    pod: Value,
}

fn begin_with(bench: Bench, pod: Value) -> Case {
    let mut pod = pod;
    pod["metadata"] = json!({"name": "p", "namespace": "n", "uid": "u"});
    let parsed: Arc<Pod> = Arc::new(serde_json::from_value(pod.clone()).unwrap());
    let shown = Arc::new(Shown {
        uid: "u".into(),
        pod: Mutex::new(parsed.clone()),
        link: Mutex::new(None),
        log_directory: bench.ctx.log_directory("n", "p", "u"),
        containers: Mutex::new(remembered(&parsed)),
    });
    let (orders, received) = mpsc::unbounded_channel();
    let worker = Worker::new(bench.ctx.clone(), parsed, shown);
    let task = tokio::spawn(async move { Box::pin(worker.run(received)).await });
    Case { bench, orders, task, pod }
}

fn begin(spec: Value) -> Case {
    begin_with(Bench::new(), json!({"spec": spec}))
}

impl Case {
    fn update(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.pod);
        let pod = Arc::new(serde_json::from_value(self.pod.clone()).unwrap());
        self.orders.send(Order::Update(pod)).unwrap();
    }

    fn delete(&mut self, grace: i64) {
        self.update(|pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        });
    }

    async fn until(&self, what: &str, fits: impl Fn(&Told) -> bool) -> Told {
        self.bench.api.until(what, fits).await
    }

    async fn ready(&self) -> Told {
        self.until("ready", |t| condition(t, "Ready") == "True").await
    }
}

fn condition(told: &Told, kind: &str) -> String {
    let list = told.status["conditions"].as_array();
    let found =
        list.and_then(|l| l.iter().find(|c| c["type"] == kind)).map(|c| c["status"].clone());
    found.and_then(|s| s.as_str().map(str::to_owned)).unwrap_or_default()
}

fn app(name: &str, kind: &str) -> Value {
    json!({"name": name, "image": "app", "command": [kind, name]})
}

fn with(mut container: Value, key: &str, value: Value) -> Value {
    container[key] = value;
    container
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_becomes_ready_and_is_deleted_gracefully() {
    let mut case = begin(json!({"containers": [app("a", "run")]}));
    let told = case.ready().await;
    assert_eq!(
        (&told.status["phase"], &told.status["podIP"]),
        (&json!("Running"), &json!("127.0.0.1"))
    );
    let id = told.status["containerStatuses"][0]["containerID"].as_str().unwrap();
    assert!(id.starts_with("podlet://") && id.len() == 73, "{id}");
    assert_eq!(*case.bench.network.attached.borrow(), ["u"]);
    case.delete(30);
    let told = case.until("deleted", |t| !t.deletes.is_empty()).await;
    assert_eq!(told.deletes, ["/api/v1/namespaces/n/pods/p 0"]);
    assert_eq!(told.status["phase"], "Failed");
    assert_eq!(told.status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    case.task.await.unwrap();
    case.bench.network.empty().await;
    assert!(!case.bench.dir.path().join("data/pods/u").exists());
    assert!(!case.bench.dir.path().join("data/logs/n_p_u").exists());
    let events = case.bench.events();
    let want = [
        "Pulled: Container image \"app\" already present on machine",
        "Created: Container created",
        "Started: Container started",
        "Killing: Stopping container a",
    ];
    assert_eq!(events, want);
}

#[tokio::test(start_paused = true)]
async fn a_stubborn_program_is_killed_when_the_grace_is_over() {
    let mut case = begin(json!({"containers": [app("a", "stubborn")]}));
    case.ready().await;
    let start = Instant::now();
    case.delete(10);
    case.until("deleted", |t| !t.deletes.is_empty()).await;
    assert_eq!(start.elapsed().as_secs(), 10);
    assert_eq!(case.bench.runtime.trace.borrow()[1..], ["signal a 15", "kill a"]);
}

#[tokio::test(start_paused = true)]
async fn a_second_delete_shortens_the_grace() {
    let mut case = begin(json!({"containers": [app("a", "stubborn")]}));
    case.ready().await;
    let start = Instant::now();
    case.delete(3600);
    case.bench.runtime.saw("signal a 15").await;
    case.delete(1);
    case.until("deleted", |t| !t.deletes.is_empty()).await;
    assert!(start.elapsed().as_secs() < 5);
}

#[tokio::test(start_paused = true)]
async fn pre_stop_comes_before_the_signal() {
    let hooked = with(
        app("a", "run"),
        "lifecycle",
        json!({"preStop": {"exec": {"command": ["true", "bye"]}}}),
    );
    let mut case = begin(json!({"containers": [hooked]}));
    case.ready().await;
    case.delete(30);
    case.until("deleted", |t| !t.deletes.is_empty()).await;
    assert_eq!(case.bench.runtime.trace.borrow()[1..], ["exec a true bye", "signal a 15"]);
}

#[tokio::test(start_paused = true)]
async fn a_post_start_hook_holds_up_the_next_container_and_kills_its_own_on_failure() {
    let hook = |command: &str| json!({"postStart": {"exec": {"command": [command]}}});
    let first = with(app("a", "run"), "lifecycle", hook("hang"));
    let mut case = begin(json!({"containers": [first, app("b", "run")]}));
    case.bench.runtime.saw("exec a hang").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(case.bench.runtime.count("start b"), 0);
    case.delete(1);
    case.until("deleted", |t| !t.deletes.is_empty()).await;

    let failing = with(app("a", "run"), "lifecycle", hook("false"));
    let mut case = begin(json!({"restartPolicy": "Never", "containers": [failing]}));
    let told = case.until("failed", |t| t.status["phase"] == "Failed").await;
    assert_eq!(told.status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    let events = case.bench.events();
    assert!(events.contains(&"FailedPostStartHook: PostStartHook failed".to_owned()), "{events:?}");
    assert!(events.contains(&"Killing: FailedPostStartHook".to_owned()), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn crashes_are_told_and_held_back() {
    let mut case = begin(json!({"containers": [app("a", "exit7")]}));
    let told = case
        .until("in a crash loop", |t| {
            t.status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await;
    let a = &told.status["containerStatuses"][0];
    assert_eq!(
        (&a["lastState"]["terminated"]["exitCode"], &a["restartCount"]),
        (&json!(7), &json!(1))
    );
    let start = Instant::now();
    case.until("restarted five times", |t| t.status["containerStatuses"][0]["restartCount"] == 5)
        .await;
    assert!(start.elapsed() >= Duration::from_secs(10 + 20 + 40 + 80));
    let events = case.bench.events();
    assert!(
        events
            .contains(&"BackOff: Back-off restarting failed container a in pod p_n(u)".to_owned()),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_image_names_the_file_to_edit_and_is_found_once_it_is_there() {
    let mut case =
        begin(json!({"containers": [{"name": "a", "image": "ghost:1", "command": ["run", "a"]}]}));
    let map = case.bench.dir.path().join("images.yaml");
    let waiting = |t: &Told| t.status["containerStatuses"][0]["state"]["waiting"].clone();
    let told = case.until("ErrImagePull", |t| waiting(t)["reason"] == "ErrImagePull").await;
    assert!(waiting(&told)["message"].as_str().unwrap().contains(&map.display().to_string()));
    case.until("ImagePullBackOff", |t| waiting(t)["reason"] == "ImagePullBackOff").await;
    std::fs::write(&map, "images: {ghost: {root: host}, more: {}}").unwrap();
    case.ready().await;
    let events = case.bench.events();
    assert!(
        events.iter().any(|e| e.starts_with("Failed: Failed to pull image \"ghost:1\"")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_not_there_is_a_start_error() {
    let case = begin(json!({"restartPolicy": "Never", "containers": [app("a", "missing")]}));
    let told = case.until("failed", |t| t.status["phase"] == "Failed").await;
    let end = &told.status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&end["reason"], &end["exitCode"]), (&json!("StartError"), &json!(128)));
    assert!(end["message"].as_str().unwrap().contains("executable file not found in $PATH"));
}

#[tokio::test(start_paused = true)]
async fn a_failing_liveness_probe_restarts_the_container() {
    let probe = json!({"exec": {"command": ["false"]}, "periodSeconds": 5, "failureThreshold": 2});
    let mut case = begin(json!({"containers": [with(app("a", "run"), "livenessProbe", probe)]}));
    let start = Instant::now();
    let told =
        case.until("restarted", |t| t.status["containerStatuses"][0]["restartCount"] == 1).await;
    assert_eq!(start.elapsed().as_secs(), 6);
    assert_eq!(told.status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 143);
    let events = case.bench.events();
    assert!(
        events
            .contains(&"Killing: Container a failed liveness probe, will be restarted".to_owned()),
        "{events:?}"
    );
    assert!(events.contains(&"Unhealthy: Liveness probe failed: ".to_owned()), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_readiness_probe_decides_on_ready() {
    let probe = json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1});
    let mut case = begin(json!({"containers": [with(app("a", "run"), "readinessProbe", probe)]}));
    let told = case.until("running", |t| t.status["phase"] == "Running").await;
    assert_eq!(condition(&told, "Ready"), "False");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(condition(&case.bench.api.0.borrow().clone(), "Ready"), "False");
    assert!(case.bench.events().contains(&"Unhealthy: Readiness probe failed: ".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_sidecar_completes_and_its_sidecar_is_stopped_last() {
    let sidecar = with(app("s", "run"), "restartPolicy", json!("Always"));
    let spec = json!({"restartPolicy": "Never", "initContainers": [sidecar, app("i", "exit0")], "containers": [app("a", "run")]});
    let case = begin(spec);
    case.ready().await;
    case.bench.runtime.exit("a", ExitStatus::exited(0));
    let told = case.until("succeeded", |t| t.status["phase"] == "Succeeded").await;
    assert_eq!(
        case.bench.runtime.trace.borrow()[..],
        ["start s", "start i", "start a", "signal s 15"]
    );
    assert_eq!(told.status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    assert_eq!(
        told.status["initContainerStatuses"][1]["state"]["terminated"]["reason"],
        "Completed"
    );
    case.until("off the network", |t| condition(t, "PodReadyToStartContainers") == "False").await;
    case.bench.network.empty().await;
    assert!(case.bench.dir.path().join("data/logs/n_p_u/a/0.log").exists());
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_deadline_fails() {
    let case = begin(json!({"activeDeadlineSeconds": 0, "containers": [app("a", "run")]}));
    let told = case.until("failed", |t| t.status["phase"] == "Failed").await;
    assert_eq!(told.status["reason"], "DeadlineExceeded");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_stops_the_pod_and_leaves_its_object_alone() {
    let case = begin(json!({"containers": [app("a", "run")]}));
    let before = case.ready().await;
    case.orders.send(Order::Shutdown).unwrap();
    case.task.await.unwrap();
    let after = case.bench.api.0.borrow().clone();
    assert!(after.deletes.is_empty());
    assert_eq!(after.status, before.status);
    assert_eq!(case.bench.runtime.count("signal a 15"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_object_is_gone_is_killed_at_once() {
    let case = begin(json!({"containers": [app("a", "stubborn")]}));
    case.ready().await;
    let start = Instant::now();
    case.orders.send(Order::Gone).unwrap();
    case.task.await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));
    assert!(case.bench.api.0.borrow().deletes.is_empty());
    assert_eq!(case.bench.runtime.trace.borrow()[1..], ["kill a"]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_config_map_holds_the_pod_up_with_an_event() {
    let spec = json!({"containers": [app("a", "run")], "volumes": [{"name": "v", "configMap": {"name": "m"}}]});
    let mut case = begin(spec);
    case.until("pending", |t| t.status["phase"] == "Pending").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let events = case.bench.events();
    let want = "FailedMount: MountVolume.SetUp failed for volume \"v\" : configmap \"m\" not found";
    assert!(events.iter().all(|e| e == want) && !events.is_empty(), "{events:?}");
    assert_eq!(case.bench.runtime.trace.borrow().len(), 0);
    case.delete(30);
    case.until("deleted", |t| !t.deletes.is_empty()).await;
    case.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_an_earlier_run_is_started_anew() {
    let status = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [
        {"name": "a", "image": "app", "imageID": "", "ready": true, "restartCount": 4, "state": {"running": {}}}]});
    let case = begin_with(
        Bench::new(),
        json!({"spec": {"containers": [app("a", "run")]}, "status": status}),
    );
    let told =
        case.until("restarted", |t| t.status["containerStatuses"][0]["restartCount"] == 5).await;
    assert_eq!(
        told.status["containerStatuses"][0]["lastState"]["terminated"]["reason"],
        "ContainerStatusUnknown"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_over_is_only_deleted() {
    let status = json!({"phase": "Succeeded", "containerStatuses": [
        {"name": "a", "image": "app", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}]});
    let mut case = begin_with(
        Bench::new(),
        json!({"spec": {"restartPolicy": "Never", "containers": [app("a", "run")]}, "status": status}),
    );
    case.delete(30);
    case.until("deleted", |t| !t.deletes.is_empty()).await;
    case.task.await.unwrap();
    assert!(case.bench.runtime.trace.borrow().is_empty());
}
