//! Trust changes while 500 requests a second go on, with new mTLS connections all the time: no request
//! may fail.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "trust/stage.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod stage;

use std::time::Duration;

use ironsail_testkit::{Case, binary, eventually, mesh_case_within};
use serde_json::Value;

use stage::{Root, nothing_was_refused, reported, reports, set_up, trustz};

/// What goes on all the time; it ends when the file is gone.
const LOAD: &str = "exec $(type -P echo) load --rate 500 --seconds 900 --timeout 20000 --while /tmp/load \
    http://server:8080/";

/// Requests all the time that `meanwhile` takes; none may fail.
async fn under_load(case: &Case, meanwhile: impl AsyncFnOnce()) {
    let load = case.exec("pod/client", &["bash", "-c", LOAD]);
    let work = async {
        eventually("the load has begun", async || {
            let there = case.exec("pod/client", &["test", "-e", "/tmp/load"]).await;
            if there.code == 0 { Ok(()) } else { Err(format!("{there:?}")) }
        })
        .await;
        meanwhile().await;
        case.exec("pod/client", &["rm", "/tmp/load"]).await;
    };
    let (seen, ()) = futures::join!(load, work);
    let summary: Value = serde_json::from_str(&seen.stdout).unwrap_or_else(|_| panic!("{seen:?}"));
    eprintln!("trust: {summary}");
    assert_eq!(summary["errors"], serde_json::json!({}), "{summary}");
    let statuses = summary["statuses"].as_object().unwrap();
    assert_eq!(statuses.keys().collect::<Vec<_>>(), ["200"], "{summary}");
}

/// Runs istioctl; JSON of its output, and whether it ended well.
fn istioctl(case: &Case, args: &[&str]) -> (Value, bool, String) {
    let done = ironsail_sys::exec::command(binary("istioctl"))
        .env("KUBECONFIG", case.podlet().kubeconfig())
        .args(args)
        .args(["-o", "json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let json = serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    (json, done.status.success(), said)
}

fn leaf(report: &Value) -> &str {
    report["leaf"]["fingerprint"].as_str().unwrap_or_default()
}

#[test]
fn roots_leaves_and_modes_change_and_no_request_fails() {
    mesh_case_within(Duration::from_secs(900), "trust", async |case| {
        let labels = serde_json::json!({"istio-injection": "enabled"});
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        set_up(case).await;
        reported(case, "the proxies say what they trust", |report| report["inUse"] == true).await;
        exchanged(case).await;
        under_load(case, async || {
            leaves(case).await;
            modes(case).await;
            rotate(case).await;
            plug_in(case).await;
        })
        .await;
        nothing_was_refused(case).await;
    });
}

/// Envoy and Envoy exchange keys with ML-KEM.
async fn exchanged(case: &Case) {
    eventually("connections of the mesh are safe from quantum computers", async || {
        let line = ["curl", "-s", "localhost:15000/stats?filter=ssl.curves"];
        let seen = case.exec("pod/client", &line).await.stdout;
        let counted = |line: &str| {
            line.starts_with("cluster.outbound|8080||server.")
                && line.split_once("X25519MLKEM768: ").is_some_and(|(_, count)| count != "0")
        };
        if seen.lines().any(counted) { Ok(()) } else { Err(seen) }
    })
    .await;
}

/// Every certificate is another one, twice.
async fn leaves(case: &Case) {
    for _ in 0..2 {
        let before = reports(case).await;
        let old = |report: &Value| before.values().any(|known| leaf(known) == leaf(report));
        reported(case, "certificates are renewed", |report| !old(report)).await;
    }
}

/// STRICT and back; what eve gets in the clear says when it counts.
async fn modes(case: &Case) {
    for (mode, wanted) in [("STRICT", "000"), ("PERMISSIVE", "200")] {
        case.apply(&format!(
            "{{apiVersion: security.istio.io/v1, kind: PeerAuthentication, \
             metadata: {{name: default}}, spec: {{mtls: {{mode: {mode}}}}}}}"
        ))
        .await;
        eventually(&format!("{mode} counts"), async || {
            let line = "curl -s -o /dev/null -m 10 -w '%{http_code}' http://server:8080/";
            let seen = case.exec("pod/eve", &["sh", "-c", line]).await.stdout;
            if seen == wanted { Ok(()) } else { Err(seen) }
        })
        .await;
    }
}

/// A new self-signed root, by istioctl: one step and its reverse, then all of them.
async fn rotate(case: &Case) {
    let old = trustz(case).await["signing"]["root"].as_str().unwrap().to_owned();
    let step = |args: &[&str]| {
        let (json, good, said) = istioctl(case, &[&["ca", "rotate"], args].concat());
        assert!(good && json["complete"] == true, "{json} {said}");
        json
    };
    let first = tokio::task::block_in_place(|| step(&["--one-step"]));
    assert_eq!((&first["step"], first["oldRoot"].as_str()), (&"distribute".into(), Some(&*old)));
    assert_eq!(trustz(case).await["signing"]["root"], *old, "the old root still signs");
    let undone = tokio::task::block_in_place(|| step(&["--back"]));
    assert_eq!(undone["step"], Value::Null);
    let all = tokio::task::block_in_place(|| step(&[]));
    assert_eq!((&all["step"], &all["done"]), (&"retire".into(), &true.into()));
    let new = all["newRoot"].as_str().unwrap();
    let (status, good, said) = tokio::task::block_in_place(|| istioctl(case, &["ca", "status"]));
    assert!(good, "{said}");
    let roots = status["roots"].as_array().unwrap();
    assert_eq!(roots.len(), 1, "{status}");
    let row = (roots[0]["fingerprint"].as_str(), roots[0]["trustedBy"].as_u64());
    assert_eq!(row, (Some(new), Some(2)), "{status}");
    assert_eq!(roots[0]["leaves"], 2, "{status}");
    assert_eq!(status["rotation"]["done"], true, "{status}");
}

/// Roots that administrators plug in, one after the other, without a word before.
async fn plug_in(case: &Case) {
    for name in ["first", "second"] {
        let root = Root::new(name);
        case.try_apply(root.cacerts(None)).await.unwrap();
        let print = root.fingerprint();
        reported(case, "certificates are of the root that was plugged in", |report| {
            report["leaf"]["root"] == *print
        })
        .await;
        assert_eq!(trustz(case).await["signing"]["root"], *print);
    }
}
