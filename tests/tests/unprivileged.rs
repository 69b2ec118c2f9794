//! podlet as an ordinary user: what it says when rights are missing, and what differs when they are
//! not. Every test holds for root as well; `scripts/test-unprivileged` runs them as somebody else.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Output;

use ironsail_sys::exec::command;
use ironsail_testkit::{binary, case, is_root};
use serde_json::json;

/// The beginning of a script that gives subordinate ids to those it may go on as.
const WITH_IDS: &str = r#"
printf '1234:100000:65536\n65534:100000:65536\nnobody:100000:65536\n' >ids
mount --bind ids /etc/subuid
mount --bind ids /etc/subgid
"#;

/// Runs `script` as root of new user and mount namespaces; `$PODLET` in it is podlet, and
/// `unshare --user $PODLET` one that is not root and has nothing.
fn outcome(script: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let podlet = format!(
        "{} run --data data --kubeconfig kubeconfig",
        binary("podlet").to_str().expect("a path that can be written")
    );
    let Output { status, stdout, stderr } = command("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-ec", script])
        .env("PODLET", podlet)
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&stdout), "", "podlet talks on standard error");
    assert!(!Path::new(&dir.path().join("data")).exists(), "nothing is made before rights are had");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn a_missing_tool_is_told_in_one_line() {
    let script = "exec unshare --user env PATH=/nowhere $PODLET";
    assert_eq!(
        outcome(script),
        (
            Some(1),
            "podlet: not root, and newuidmap is missing: install uidmap, or run as root\n".into()
        )
    );
}

#[test]
fn missing_ids_are_told_in_one_line() {
    // Whatever the machine has in the file, it is not for a user without a name.
    let script = "echo somebody:100000:65536 >ids; mount --bind ids /etc/subuid; exec unshare --user $PODLET";
    let (code, said) = outcome(script);
    assert_eq!(code, Some(1));
    assert_eq!(
        said.replace("nobody", "65534"),
        "podlet: not root, and /etc/subuid gives 65534 no user ids: add a line \"65534:100000:65536\", or run as root\n"
    );
}

#[test]
fn forbidden_namespaces_are_told_in_one_line() {
    // One more is allowed, and taken by unshare itself.
    let script = format!(
        "{WITH_IDS}\necho 1 >/proc/sys/user/max_user_namespaces; exec unshare --user $PODLET"
    );
    assert_eq!(
        outcome(&script),
        (
            Some(1),
            "podlet: not root, and the kernel forbids user namespaces (user.max_user_namespaces is reached): raise it with sysctl, or run as root\n"
                .into()
        )
    );
}

#[test]
fn ids_that_may_not_be_mapped_are_told_in_one_line() {
    // The file grants them; the namespace around has only one id to give.
    let (code, said) = outcome(&format!(
        "{WITH_IDS}\nexec unshare --user --map-user=1234 --map-group=1234 $PODLET"
    ));
    assert_eq!(code, Some(1));
    assert!(said.starts_with("podlet: not root, and newuidmap failed: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_refusal_of_the_kernel_is_told_in_one_line() {
    // Whoever has no id in the namespace around may not make another one.
    let (code, said) = outcome(&format!("{WITH_IDS}\nexec unshare --user $PODLET"));
    assert_eq!(code, Some(1));
    assert_eq!(
        said,
        "podlet: not root, and making a user namespace failed: Operation not permitted (os error 1)\n"
    );
}

#[test]
fn root_without_rights_is_told_in_one_line() {
    let script = "exec setpriv --bounding-set=-net_admin --inh-caps=-net_admin $PODLET";
    let (code, said) = outcome(script);
    assert_eq!(code, Some(1));
    assert!(said.starts_with("podlet: started as root but without CAP_NET_ADMIN: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn ids_beyond_those_that_there_are_end_in_a_clear_word() {
    for (name, context) in [
        ("user", json!({"runAsUser": 1_000_000})),
        ("group", json!({"runAsGroup": 1_000_000})),
        ("files", json!({"fsGroup": 1_000_000})),
    ] {
        case(&format!("beyond-{name}"), async |case| {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"securityContext": context, "terminationGracePeriodSeconds": 1,
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "containers": [{"name": "main", "image": "busybox", "command": ["sleep", "1000"],
                        "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}});
            case.apply(&pod.to_string()).await;
            if is_root() {
                case.ready("pod/p").await;
                let ids = case.exec("pod/p", &["sh", "-c", "id -u; id -G; stat -c %g /v"]).await;
                assert!(ids.stdout.contains("1000000"), "{ids:?}");
                return;
            }
            let waiting = |pod: &serde_json::Value| {
                pod["status"]["containerStatuses"][0]["state"]["waiting"].clone()
            };
            let pod = case
                .wait("pod/p", "refused", |pod| {
                    waiting(pod)["reason"] == "CreateContainerConfigError"
                })
                .await;
            let message = waiting(&pod)["message"].as_str().unwrap().to_owned();
            assert!(message.contains(" 1000000 is beyond the last one"), "{message}");
            assert!(message.contains("/etc/sub") && message.contains("as root"), "{message}");
        });
    }
}
