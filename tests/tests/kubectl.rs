//! The real kubectl drives podlet: the commands that people type every day.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use ironsail_testkit::{Case, case, eventually, repository};

const APP: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: web, image: echo, args: [serve, --http, "8080"]}]
"#;

/// Runs kubectl with `args`, `input` on its standard input; must succeed. What it printed.
#[track_caller]
fn kubectl(case: &Case, args: &[&str], input: &str) -> String {
    let output = run(case, args, input);
    assert!(
        output.status.success(),
        "kubectl {}: {}{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn run(case: &Case, args: &[&str], input: &str) -> Output {
    let mut child = case
        .kubectl()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Waits until kubectl prints all parts: events and endpoints come after a rollout is done.
async fn shows(case: &Case, args: &[&str], parts: &[&str]) {
    eventually(&format!("kubectl {} shows {parts:?}", args.join(" ")), async || {
        let text = kubectl(case, args, "");
        if parts.iter().all(|part| text.contains(part)) { Ok(()) } else { Err(text) }
    })
    .await;
}

/// A kubectl that goes on by itself, ended with the test.
struct Running(Child);

impl Running {
    fn start(case: &Case, args: &[&str]) -> Self {
        let child = case.kubectl().args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Self(child.unwrap())
    }

    fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        BufReader::new(self.0.stdout.take().unwrap()).lines().map_while(Result::ok)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn deploy(case: &Case) {
    kubectl(case, &["apply", "-f", "-"], APP);
    kubectl(case, &["rollout", "status", "deployment/web", "--timeout=170s"], "");
}

#[test]
fn apply_in_both_ways_says_what_changed() {
    case("apply", async |case| {
        let first = kubectl(case, &["apply", "-f", "-"], APP);
        assert_eq!(first, "service/web created\ndeployment.apps/web created\n");
        let again = kubectl(case, &["apply", "-f", "-"], APP);
        assert_eq!(again, "service/web unchanged\ndeployment.apps/web unchanged\n");
        let changed =
            kubectl(case, &["apply", "-f", "-"], &APP.replace("replicas: 1", "replicas: 2"));
        assert_eq!(changed, "service/web unchanged\ndeployment.apps/web configured\n");
        let server =
            kubectl(case, &["apply", "--server-side", "--force-conflicts", "-f", "-"], APP);
        assert_eq!(
            server,
            "service/web serverside-applied\ndeployment.apps/web serverside-applied\n"
        );
        assert_eq!(
            kubectl(case, &["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"], ""),
            "1"
        );
        let diff = run(case, &["diff", "-f", "-"], &APP.replace("port: 80,", "port: 81,"));
        assert_eq!(diff.status.code(), Some(1), "{}", String::from_utf8_lossy(&diff.stderr));
        assert!(String::from_utf8_lossy(&diff.stdout).contains("+  - port: 81"));
    });
}

#[test]
fn mistakes_are_refused_in_words_people_know() {
    case("mistakes", async |case| {
        let bad = run(case, &["apply", "-f", "-"], &APP.replace("replicas: 1", "replicass: 1"));
        let text = String::from_utf8_lossy(&bad.stderr).into_owned();
        assert!(
            !bad.status.success() && text.contains("unknown field \"spec.replicass\""),
            "{text}"
        );
        let bad = run(
            case,
            &["apply", "-f", "-"],
            &APP.replace("matchLabels: {app: web}", "matchLabels: {app: other}"),
        );
        let text = String::from_utf8_lossy(&bad.stderr).into_owned();
        assert!(text.contains("`selector` does not match template `labels`"), "{text}");
        let bad = run(case, &["get", "gizmos"], "");
        let text = String::from_utf8_lossy(&bad.stderr).into_owned();
        assert!(text.contains("the server doesn't have a resource type \"gizmos\""), "{text}");
        let bad = run(case, &["get", "pod", "nobody"], "");
        assert!(
            String::from_utf8_lossy(&bad.stderr)
                .contains("Error from server (NotFound): pods \"nobody\" not found")
        );
    });
}

#[test]
fn get_shows_tables_and_documents() {
    case("get", async |case| {
        deploy(case);
        let wide = kubectl(case, &["get", "pods", "-o", "wide"], "");
        let mut lines = wide.lines();
        let header: Vec<_> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(header[..7], ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]);
        let row: Vec<_> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(row[1..4], ["1/1", "Running", "0"]);
        let parts = [
            "deployment.apps/web",
            "service/web",
            "replicaset.apps/web-",
            "endpointslice.discovery.k8s.io/web-",
        ];
        shows(case, &["get", "deploy,svc,rs,endpointslices"], &parts).await;
        let yaml = kubectl(case, &["get", "svc", "web", "-o", "yaml"], "");
        assert!(yaml.contains("kind: Service") && yaml.contains("clusterIP: 10.96."), "{yaml}");
        assert!(kubectl(case, &["get", "nodes"], "").contains("Ready"));
        assert!(kubectl(case, &["api-resources"], "").contains("deployments"));
        assert!(kubectl(case, &["version"], "").contains("Server Version: v1."));
        assert!(kubectl(case, &["explain", "deployment.spec.replicas"], "").contains("replicas"));
    });
}

#[test]
fn describe_tells_state_and_events() {
    case("describe", async |case| {
        deploy(case);
        let parts = ["Status:", "Running", "Node:", "Image:", "Events:", "Scheduled", "Started"];
        shows(case, &["describe", "pods", "-l", "app=web"], &parts).await;
        let parts = ["ScalingReplicaSet", "RollingUpdate"];
        shows(case, &["describe", "deployment", "web"], &parts).await;
        shows(case, &["describe", "service", "web"], &["Endpoints:", ":8080"]).await;
        assert!(kubectl(case, &["describe", "nodes"], "").contains("Allocatable"));
    });
}

#[test]
fn watch_prints_changes_as_they_come() {
    case("watch", async |case| {
        deploy(case);
        let mut watch = Running::start(
            case,
            &["get", "deployment", "web", "-w", "-o", "jsonpath={.spec.replicas}{'\\n'}"],
        );
        let mut lines = watch.lines();
        assert_eq!(lines.next().unwrap(), "1");
        kubectl(case, &["scale", "deployment/web", "--replicas=2"], "");
        assert!(lines.any(|line| line == "2"));
    });
}

#[test]
fn logs_follow_a_container() {
    case("logs", async |case| {
        let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "t"}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "a", "image": "busybox", "command": ["sh", "-c", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.1; done"]}]}}"#;
        kubectl(case, &["apply", "-f", "-"], pod);
        kubectl(case, &["wait", "--for=condition=Ready", "pod/t", "--timeout=170s"], "");
        let mut follow = Running::start(case, &["logs", "-f", "t"]);
        let lines: Vec<_> = follow.lines().take(5).collect();
        assert_eq!(lines, ["line 1", "line 2", "line 3", "line 4", "line 5"]);
        let tail = kubectl(case, &["logs", "t", "--tail=1", "--timestamps"], "");
        // The container goes on writing: lines may have come while kubectl read.
        assert!(!tail.contains("Z line 1\n"), "not the end of the log: {tail}");
        assert!(tail.starts_with("20") && tail.contains("Z line "), "{tail}");
    });
}

#[test]
fn exec_runs_with_and_without_a_terminal() {
    case("exec", async |case| {
        deploy(case);
        let help = kubectl(case, &["exec", "deploy/web", "--", "echo", "serve", "--help"], "");
        assert!(help.lines().count() > 3, "{help}");
        assert_eq!(
            kubectl(case, &["exec", "-i", "deploy/web", "--", "cat"], "through and back\n"),
            "through and back\n"
        );
        let failed = run(case, &["exec", "deploy/web", "--", "sh", "-c", "exit 5"], "");
        assert_eq!(failed.status.code(), Some(5));
        // `script` gives kubectl a terminal of its own, as a person has.
        let line = format!(
            "kubectl -n {} exec -it deploy/web -- sh -c 'tty; stty size; echo done'",
            case.namespace
        );
        let output = ironsail_sys::exec::command("script")
            .args(["-qec", &line, "/dev/null"])
            .env("KUBECONFIG", case.podlet().kubeconfig())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("/dev/pts/") && text.contains("done"), "{text}");
        let copied =
            kubectl(case, &["exec", "deploy/web", "--", "sh", "-c", "echo moved > /tmp/file"], "");
        assert_eq!(copied, "");
        let name = kubectl(case, &["get", "pods", "-l", "app=web", "-o", "name"], "");
        let from = format!("{}:/tmp/file", name.trim().trim_start_matches("pod/"));
        let to = case.podlet().dir().join(format!("{}-file", case.namespace));
        kubectl(case, &["cp", &from, to.to_str().unwrap()], "");
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "moved\n");
        std::fs::remove_file(to).unwrap();
    });
}

#[test]
fn port_forward_carries_several_connections() {
    case("forward", async |case| {
        deploy(case);
        let mut forward = Running::start(case, &["port-forward", "service/web", ":80"]);
        // Held until the end: kubectl does not survive a closed standard output.
        let mut lines = forward.lines();
        let line = lines.next().unwrap();
        let port: u16 = line.split(':').nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        for i in 0..3 {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            write!(stream, "GET /{i} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.contains(&format!("\"path\":\"/{i}\"")), "{text}");
        }
    });
}

#[test]
fn objects_are_changed_in_place() {
    case("change", async |case| {
        deploy(case);
        kubectl(case, &["label", "deployment", "web", "tier=front"], "");
        kubectl(case, &["annotate", "deployment", "web", "note=hello"], "");
        assert_eq!(
            kubectl(case, &["get", "deploy", "-l", "tier=front", "-o", "name"], ""),
            "deployment.apps/web\n"
        );
        kubectl(
            case,
            &["patch", "deployment", "web", "-p", r#"{"spec":{"minReadySeconds":1}}"#],
            "",
        );
        kubectl(
            case,
            &[
                "patch",
                "deployment",
                "web",
                "--type=json",
                "-p",
                r#"[{"op":"remove","path":"/spec/minReadySeconds"}]"#,
            ],
            "",
        );
        kubectl(case, &["scale", "deployment", "web", "--replicas=2"], "");
        kubectl(
            case,
            &[
                "wait",
                "--for=jsonpath={.status.readyReplicas}=2",
                "deployment/web",
                "--timeout=170s",
            ],
            "",
        );
        kubectl(case, &["set", "env", "deployment/web", "VERSION=v9"], "");
        kubectl(case, &["rollout", "status", "deployment/web", "--timeout=170s"], "");
        assert!(kubectl(case, &["rollout", "history", "deployment/web"], "").contains('2'));
        kubectl(case, &["rollout", "undo", "deployment/web"], "");
        kubectl(case, &["rollout", "restart", "deployment/web"], "");
        kubectl(case, &["rollout", "status", "deployment/web", "--timeout=170s"], "");
        // An editor that changes one word, as `kubectl edit` users do.
        let editor = case.podlet().dir().join(format!("{}-edit", case.namespace));
        std::fs::write(&editor, "#!/bin/sh\nsed -i 's/tier: front/tier: back/' \"$1\"\n").unwrap();
        std::os::unix::fs::chown(&editor, None, None).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&editor, mode).unwrap();
        let edited = case
            .kubectl()
            .args(["edit", "deployment", "web"])
            .env("KUBE_EDITOR", &editor)
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&edited.stdout).contains("edited"), "{edited:?}");
        assert_eq!(
            kubectl(case, &["get", "deploy", "-l", "tier=back", "-o", "name"], ""),
            "deployment.apps/web\n"
        );
        std::fs::remove_file(editor).unwrap();
    });
}

#[test]
fn delete_waits_until_it_is_gone() {
    case("delete", async |case| {
        deploy(case);
        let text = kubectl(case, &["delete", "-f", "-", "--timeout=170s"], APP);
        assert!(
            text.contains("service \"web\" deleted")
                && text.contains("deployment.apps \"web\" deleted"),
            "{text}"
        );
        kubectl(case, &["wait", "--for=delete", "pod", "-l", "app=web", "--timeout=170s"], "");
        eventually("nothing is left", async || {
            let left = kubectl(case, &["get", "all"], "");
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
    });
}

#[test]
fn rights_can_be_asked_for() {
    case("rights", async |case| {
        assert_eq!(kubectl(case, &["auth", "can-i", "delete", "pods"], ""), "yes\n");
        kubectl(case, &["create", "serviceaccount", "viewer"], "");
        kubectl(case, &["create", "role", "look", "--verb=get,list", "--resource=pods"], "");
        kubectl(
            case,
            &[
                "create",
                "rolebinding",
                "look",
                "--role=look",
                &format!("--serviceaccount={}:viewer", case.namespace),
            ],
            "",
        );
        let who = format!("system:serviceaccount:{}:viewer", case.namespace);
        eventually("the role counts", async || {
            let said = run(case, &["auth", "can-i", "list", "pods", "--as", &who], "").stdout;
            if said == b"yes\n" { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
        })
        .await;
        let no = run(case, &["auth", "can-i", "delete", "pods", "--as", &who], "");
        assert_eq!(String::from_utf8_lossy(&no.stdout), "no\n");
        assert!(kubectl(case, &["auth", "can-i", "--list", "--as", &who], "").contains("pods"));
        assert!(kubectl(case, &["auth", "whoami"], "").contains("kubernetes-admin"));
        assert_eq!(kubectl(case, &["create", "token", "viewer"], "").split('.').count(), 3);
        let forbidden = run(case, &["get", "secrets", "--as", &who], "");
        assert!(
            String::from_utf8_lossy(&forbidden.stderr).contains("cannot list resource \"secrets\"")
        );
    });
}

#[test]
fn every_sample_is_accepted() {
    case("samples", async |case| {
        let samples = repository().join("samples");
        for file in [
            "httpbin/httpbin.yaml",
            "curl/curl.yaml",
            "sleep/sleep.yaml",
            "echo/echo.yaml",
            "helloworld/helloworld.yaml",
            "bookinfo/platform/kube/bookinfo.yaml",
        ] {
            let path = samples.join(file);
            kubectl(
                case,
                &["apply", "--validate=strict", "--dry-run=server", "-f", path.to_str().unwrap()],
                "",
            );
        }
    });
}
