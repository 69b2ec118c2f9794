//! Pods as processes: life cycle, volumes, environment, users, probes, limits.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{case, is_root};
use serde_json::{Value, json};

/// A pod that runs a shell script, with more of a pod's spec.
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

fn phase(wanted: &'static str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["phase"] == wanted
}

fn state(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]
}

#[test]
fn a_pod_runs_to_its_end_and_keeps_its_log() {
    case("ends", async |case| {
        case.apply(&script(
            "p",
            "echo out; echo err >&2; exit 0",
            &json!({}),
            &json!({"restartPolicy": "Never"}),
        ))
        .await;
        let pod = case.wait("pod/p", "succeeded", phase("Succeeded")).await;
        assert_eq!(state(&pod)["terminated"]["reason"], "Completed");
        case.log_until("p", "main", |log| log.contains("out") && log.contains("err")).await;
    });
}

#[test]
fn a_failed_pod_tells_its_exit_code() {
    case("fails", async |case| {
        case.apply(&script("p", "exit 7", &json!({}), &json!({"restartPolicy": "Never"}))).await;
        let pod = case.wait("pod/p", "failed", phase("Failed")).await;
        assert_eq!(state(&pod)["terminated"]["exitCode"], 7);
        assert_eq!(state(&pod)["terminated"]["reason"], "Error");
    });
}

#[test]
fn a_crashing_container_backs_off() {
    case("crash", async |case| {
        case.apply(&script("p", "exit 1", &json!({}), &json!({}))).await;
        let pod = case
            .wait("pod/p", "in CrashLoopBackOff", |pod| {
                state(pod)["waiting"]["reason"] == "CrashLoopBackOff"
            })
            .await;
        assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
        let message = state(&pod)["waiting"]["message"].as_str().unwrap();
        assert!(message.starts_with("back-off "), "{message}");
    });
}

#[test]
fn an_unknown_image_says_which_file_to_edit() {
    case("image", async |case| {
        case.apply(&script("p", "true", &json!({"image": "nobody/knows:1"}), &json!({}))).await;
        let pod = case
            .wait("pod/p", "in ErrImagePull", |pod| {
                matches!(
                    state(pod)["waiting"]["reason"].as_str(),
                    Some("ErrImagePull" | "ImagePullBackOff")
                )
            })
            .await;
        let message = state(&pod)["waiting"]["message"].as_str().unwrap();
        assert!(message.contains("images.yaml") && message.contains("nobody/knows:1"), "{message}");
    });
}

#[test]
fn an_unknown_program_is_a_start_error() {
    case("program", async |case| {
        case.apply(&script(
            "p",
            "",
            &json!({"command": ["/no/such/program"]}),
            &json!({"restartPolicy": "Never"}),
        ))
        .await;
        let pod = case.wait("pod/p", "failed", phase("Failed")).await;
        assert_eq!(state(&pod)["terminated"]["reason"], "StartError", "{}", pod["status"]);
        assert!(
            state(&pod)["terminated"]["message"].as_str().unwrap().contains("/no/such/program")
        );
    });
}

#[test]
fn init_containers_run_in_order_before_the_rest() {
    case("init", async |case| {
        let mount = json!([{"name": "shared", "mountPath": "/shared"}]);
        let init = |name: &str| json!({"name": name, "image": "busybox", "command": ["sh", "-c", format!("echo {name} >> /shared/order")], "volumeMounts": mount});
        let spec = json!({"restartPolicy": "Never", "initContainers": [init("one"), init("two")],
            "volumes": [{"name": "shared", "emptyDir": {}}]});
        case.apply(&script("p", "cat /shared/order", &json!({"volumeMounts": mount}), &spec)).await;
        case.wait("pod/p", "succeeded", phase("Succeeded")).await;
        case.log_until("p", "main", |log| log == "one\ntwo\n").await;
    });
}

#[test]
fn a_native_sidecar_outlives_the_job_and_lets_it_complete() {
    case("sidecar", async |case| {
        case.apply(
            r#"
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 5
      initContainers:
      - name: proxy
        image: echo
        args: [serve, --http, "18080"]
        restartPolicy: Always
        startupProbe: {httpGet: {path: /, port: 18080}, periodSeconds: 1}
      - name: after
        image: busybox
        command: [sh, -c, "curl -sf http://127.0.0.1:18080/from-init"]
      containers:
      - name: main
        image: busybox
        command: [sh, -c, "curl -sf http://127.0.0.1:18080/from-main"]
"#,
        )
        .await;
        case.ready("job/j").await;
    });
}

#[test]
fn environment_comes_from_everywhere() {
    case("env", async |case| {
        case.apply(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {one: '1', two: '2'}}",
        )
        .await;
        case.apply("{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {pass: word}}")
            .await;
        let container = json!({
            "env": [
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "NS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "SA", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
                {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
                {"name": "PASS", "valueFrom": {"secretKeyRef": {"name": "s", "key": "pass"}}},
                {"name": "BOTH", "value": "$(POD)-$(PASS)-$$(POD)"}],
            "envFrom": [{"prefix": "C_", "configMapRef": {"name": "c"}}],
            "resources": {"limits": {"memory": "64Mi"}},
            "args": ["$(POD)"]});
        let text = "echo $POD $NS $APP $SA $MEM $PASS $BOTH $C_one$C_two $0; test -n \"$IP\" && test -n \"$KUBERNETES_SERVICE_HOST\"";
        case.apply(&script("p", text, &container, &json!({"restartPolicy": "Never"}))).await;
        case.wait("pod/p", "succeeded", phase("Succeeded")).await;
        let wanted = format!("p {} p default 64 word p-word-$(POD) 12 p\n", case.namespace);
        case.log_until("p", "main", |log| log == wanted).await;
    });
}

#[test]
fn volumes_hold_what_they_name_and_follow_changes() {
    case("volumes", async |case| {
        case.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {file: one}}")
            .await;
        case.apply(
            "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {key: hidden}}",
        )
        .await;
        let spec = json!({"volumes": [
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 256}},
            {"name": "d", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"name": "t", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "audience": "istio-ca", "expirationSeconds": 3600}},
                {"configMap": {"name": "c", "items": [{"key": "file", "path": "sub/renamed"}]}}]}},
            {"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]});
        let mounts: Vec<_> = ["c", "s", "d", "t", "e"]
            .iter()
            .map(|n| json!({"name": n, "mountPath": format!("/v/{n}")}))
            .collect();
        case.apply(&script("p", "sleep 1000", &json!({"volumeMounts": mounts}), &spec)).await;
        case.ready("pod/p").await;
        let read = async |path: &str| case.exec("pod/p", &["cat", path]).await.stdout;
        assert_eq!(read("/v/c/file").await, "one");
        assert_eq!(read("/v/s/key").await, "hidden");
        assert_eq!(
            case.exec("pod/p", &["stat", "-L", "-c", "%a", "/v/s/key"]).await.stdout,
            "400\n"
        );
        assert_eq!(read("/v/d/labels").await, "app=\"p\"");
        assert_eq!(read("/v/t/sub/renamed").await, "one");
        assert_eq!(read("/v/t/token").await.split('.').count(), 3);
        let full =
            case.exec("pod/p", &["dd", "if=/dev/zero", "of=/v/e/x", "bs=1M", "count=3"]).await;
        assert_ne!(full.code, 0, "{full:?}");
        case.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {file: two}}")
            .await;
        let mut tries = 0;
        while read("/v/c/file").await != "two" {
            tries += 1;
            assert!(tries < 600, "the volume does not follow the config map");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    });
}

#[test]
fn users_groups_and_capabilities_are_as_asked() {
    case("users", async |case| {
        let spec = json!({"securityContext": {"runAsUser": 1337, "runAsGroup": 1337, "fsGroup": 2000, "supplementalGroups": [3000]},
            "volumes": [{"name": "v", "emptyDir": {}}]});
        let container = json!({"securityContext": {"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
        case.apply(&script("p", "sleep 1000", &container, &spec)).await;
        case.ready("pod/p").await;
        let run = async |text: &str| case.exec("pod/p", &["sh", "-c", text]).await;
        assert_eq!(run("id -u; id -g; id -G").await.stdout, "1337\n1337\n1337 2000 3000\n");
        assert_eq!(run("touch /v/x && stat -c %g /v/x").await.stdout, "2000\n");
        assert_ne!(run("touch /usr/x").await.code, 0);
        assert!(run("grep CapEff /proc/self/status").await.stdout.contains("0000000000000000"));
        assert!(run("grep NoNewPrivs /proc/self/status").await.stdout.contains('1'));
    });
}

#[test]
fn a_container_over_its_memory_is_killed_and_said() {
    case("oom", async |case| {
        let container = json!({"resources": {"limits": {"memory": "16Mi"}}});
        // Each round doubles the shell's own memory, up to a size that every machine has.
        let text = "a=0123456789abcdef; while [ ${#a} -lt 100000000 ]; do a=$a$a; done";
        case.apply(&script("p", text, &container, &json!({"restartPolicy": "Never"}))).await;
        let pod = case
            .wait("pod/p", "ended", |pod| {
                pod["status"]["phase"] == "Failed" || pod["status"]["phase"] == "Succeeded"
            })
            .await;
        let reason = &state(&pod)["terminated"]["reason"];
        if !is_root() && reason != "OOMKilled" {
            // Whoever may not make cgroups is told that limits are not kept.
            let told = case.event("pod/p", "LimitsNotKept").await;
            assert!(told.contains("memory"), "{told}");
            return;
        }
        assert_eq!(reason, "OOMKilled", "{}", pod["status"]);
    });
}

#[test]
fn probes_decide_readiness_and_restarts() {
    case("probes", async |case| {
        let container = json!({
            "readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1},
            "livenessProbe": {"exec": {"command": ["test", "!", "-e", "/tmp/sick"]}, "periodSeconds": 1, "timeoutSeconds": 60, "failureThreshold": 1}});
        case.apply(&script(
            "p",
            "trap 'exit 0' TERM; while :; do sleep 0.1; done",
            &container,
            &json!({}),
        ))
        .await;
        case.wait("pod/p", "running", phase("Running")).await;
        case.wait("pod/p", "not ready", |pod| {
            pod["status"]["containerStatuses"][0]["ready"] == false
        })
        .await;
        case.exec("pod/p", &["touch", "/tmp/ready"]).await;
        case.ready("pod/p").await;
        case.exec("pod/p", &["touch", "/tmp/sick"]).await;
        case.wait("pod/p", "restarted", |pod| {
            pod["status"]["containerStatuses"][0]["restartCount"].as_u64() >= Some(1)
        })
        .await;
    });
}

#[test]
fn every_kind_of_probe_is_asked() {
    case("kinds", async |case| {
        let probe = |probe: Value| json!({"image": "echo", "args": ["serve", "--http", "8080", "--https", "8443", "--tcp", "9000"], "command": null, "readinessProbe": probe});
        for (name, handler) in [
            (
                "http",
                json!({"httpGet": {"path": "/x", "port": 8080, "httpHeaders": [{"name": "a", "value": "b"}]}, "periodSeconds": 1}),
            ),
            (
                "https",
                json!({"httpGet": {"path": "/x", "port": 8443, "scheme": "HTTPS"}, "periodSeconds": 1}),
            ),
            ("tcp", json!({"tcpSocket": {"port": 9000}, "periodSeconds": 1})),
            ("grpc", json!({"grpc": {"port": 8080}, "periodSeconds": 1})),
        ] {
            let mut object: Value =
                serde_json::from_str(&script(name, "", &probe(handler), &json!({}))).unwrap();
            object["spec"]["containers"][0].as_object_mut().unwrap().remove("command");
            case.apply(&object.to_string()).await;
        }
        for name in ["http", "https", "tcp", "grpc"] {
            case.ready(&format!("pod/{name}")).await;
        }
    });
}

#[test]
fn hooks_run_after_start_and_before_stop() {
    case("hooks", async |case| {
        let container = json!({"lifecycle": {
            "postStart": {"exec": {"command": ["sh", "-c", "echo started > /tmp/hook"]}},
            "preStop": {"exec": {"command": ["sh", "-c", "echo stopping > /proc/1/fd/1; echo stopping >> /host/trace"]}}},
            "volumeMounts": [{"name": "host", "mountPath": "/host"}]});
        let dir = case.podlet().dir().join(format!("hooks-{}", case.namespace));
        std::fs::create_dir_all(&dir).unwrap();
        let spec =
            json!({"volumes": [{"name": "host", "hostPath": {"path": dir, "type": "Directory"}}]});
        case.apply(&script(
            "p",
            "trap 'echo term >> /host/trace; exit 0' TERM; touch /tmp/up; while :; do sleep 0.05; done",
            &container,
            &spec,
        ))
        .await;
        case.ready("pod/p").await;
        // The pod may be ready before the first line of its script.
        let wait = "until test -e /tmp/up; do sleep 0.1; done; cat /tmp/hook";
        assert_eq!(case.exec("pod/p", &["sh", "-c", wait]).await.stdout, "started\n");
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::namespaced(case.client.clone(), &case.namespace);
        pods.delete("p", &kube::api::DeleteParams::default()).await.unwrap();
        case.gone("pod/p").await;
        assert_eq!(std::fs::read_to_string(dir.join("trace")).unwrap(), "stopping\nterm\n");
        std::fs::remove_dir_all(dir).unwrap();
    });
}

#[test]
fn exec_passes_codes_and_streams() {
    case("exec", async |case| {
        case.apply(&script("p", "sleep 1000", &json!({}), &json!({}))).await;
        case.ready("pod/p").await;
        let run = case.exec("pod/p", &["sh", "-c", "echo a; echo b >&2; exit 3"]).await;
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (3, "a\n", "b\n"));
        let large =
            case.exec("pod/p", &["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"]).await;
        assert_eq!(large.stdout.len(), 3_000_000);
    });
}

#[test]
fn a_port_is_forwarded() {
    case("forward", async |case| {
        case.apply("{apiVersion: v1, kind: Pod, metadata: {name: e}, spec: {containers: [{name: e, image: echo, args: [serve, --http, '8080'], readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}}]}}").await;
        case.ready("pod/e").await;
        let got = case
            .forward("e", 8080, "GET /x HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
            .await;
        assert!(got.starts_with("HTTP/1.1 200") && got.contains("\"path\":\"/x\""), "{got}");
    });
}

#[test]
fn names_and_hosts_are_set_up() {
    case("names", async |case| {
        let spec = json!({"hostname": "web-0", "subdomain": "web", "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["somewhere"]}],
            "dnsConfig": {"options": [{"name": "ndots", "value": "3"}], "searches": ["extra.example"]}, "restartPolicy": "Never"});
        case.apply(&script("p", "hostname; cat /etc/hosts /etc/resolv.conf", &json!({}), &spec))
            .await;
        case.wait("pod/p", "succeeded", phase("Succeeded")).await;
        // The last line of /etc/resolv.conf.
        let log = case.log_until("p", "main", |log| log.contains("ndots:3")).await;
        assert!(log.starts_with("web-0\n"), "{log}");
        assert!(log.contains("10.1.2.3\tsomewhere"), "{log}");
        assert!(
            log.contains(&format!(
                "search {}.svc.cluster.local svc.cluster.local cluster.local extra.example",
                case.namespace
            )),
            "{log}"
        );
        assert!(log.contains("ndots:3") && log.contains("nameserver 10.96.0.10"), "{log}");
    });
}

#[test]
fn processes_are_alone_in_their_namespace() {
    case("alone", async |case| {
        case.apply(&script("p", "sleep 1000", &json!({}), &json!({}))).await;
        case.ready("pod/p").await;
        let listed = case.exec("pod/p", &["ps", "-e", "-o", "comm"]).await.stdout;
        assert!(listed.lines().count() < 8, "{listed}");
        let links = case.exec("pod/p", &["ls", "/sys/class/net"]).await.stdout;
        let mut links: Vec<_> = links.split_whitespace().collect();
        links.sort_unstable();
        assert_eq!(links, ["eth0", "lo"]);
    });
}
