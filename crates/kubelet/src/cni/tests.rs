//! Plugin chains with plugins that write down what they were told.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn plugin(dir: &Path, name: &str, script: &str) {
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn setup(dir: &Path, plugins: Value) -> (Cni, Attachment) {
    let conf = dir.join("conf");
    std::fs::create_dir_all(&conf).unwrap();
    std::fs::create_dir_all(dir.join("bin")).unwrap();
    let list = json!({"name": "net", "cniVersion": "1.0.0", "plugins": plugins});
    std::fs::write(conf.join("10-net.conflist"), list.to_string()).unwrap();
    let config =
        Config { conf_dir: conf, bin_dirs: vec![dir.join("bin")], cache_dir: dir.join("cache") };
    let netns = Netns::create().unwrap();
    let pod = Attachment {
        id: "cid".into(),
        namespace: "ns".into(),
        name: "pod".into(),
        uid: "uid".into(),
        netns: Some(netns.clone()),
        port_mappings: json!([]),
        ip_ranges: json!([]),
    };
    (Cni::new(config, netns), pod)
}

#[tokio::test]
async fn add_check_and_del_run_the_chain_with_results_and_environment() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let (cni, pod) = setup(dir.path(), json!([{"type": "one"}, {"type": "two"}]));
    let log = format!(
        "echo \"$0 $CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME $CNI_ARGS\" | sed 's|.*/||' >> {}",
        trace.display()
    );
    let bin = dir.path().join("bin");
    plugin(
        &bin,
        "one",
        &format!(
            "cat >/dev/null; {log}; test -e $CNI_NETNS || exit 3; echo '{{\"ips\":[{{\"address\":\"10.9.0.7/24\"}}]}}'"
        ),
    );
    plugin(
        &bin,
        "two",
        &format!(
            "{log}; in=$(cat); case \"$in\" in *10.9.0.7*) ;; *) exit 4;; esac; echo '{{\"ips\":[{{\"address\":\"10.9.0.8/24\"}}]}}'"
        ),
    );
    assert_eq!(cni.add(&pod).await.unwrap(), ["10.9.0.8".parse::<IpAddr>().unwrap()]);
    // The chain's result is what CHECK and DEL see, so plugin two is content with it only in ADD.
    plugin(&bin, "two", &format!("cat >/dev/null; {log}"));
    cni.check(&pod).await.unwrap();
    cni.del(&pod).await.unwrap();
    let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_INFRA_CONTAINER_ID=cid;K8S_POD_UID=uid";
    let want: Vec<String> = ["one ADD", "two ADD", "one CHECK", "two CHECK", "two DEL", "one DEL"]
        .iter()
        .map(|step| format!("{step} cid eth0 {args}"))
        .collect();
    let seen = std::fs::read_to_string(trace).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), want);
    assert!(!dir.path().join("cache/cid.json").exists());
}

#[tokio::test]
async fn a_failing_plugin_is_told_with_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let (cni, pod) = setup(dir.path(), json!([{"type": "bad"}]));
    plugin(
        &dir.path().join("bin"),
        "bad",
        "cat >/dev/null; echo '{\"msg\":\"no addresses left\"}'; exit 1",
    );
    let error = cni.add(&pod).await.unwrap_err().to_string();
    assert_eq!(error, "plugin type=\"bad\" name=\"net\" failed (ADD): no addresses left");
    let (cni, pod) = setup(dir.path(), json!([{"type": "ghost"}]));
    assert!(
        cni.add(&pod).await.unwrap_err().to_string().starts_with("failed to find plugin \"ghost\"")
    );
}

#[tokio::test]
async fn what_a_killed_run_left_is_undone() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let (cni, pod) = setup(dir.path(), json!([{"type": "one"}]));
    let script = format!(
        "cat >/dev/null; echo $CNI_COMMAND $CNI_CONTAINERID >> {}; echo '{{\"ips\":[]}}'",
        trace.display()
    );
    plugin(&dir.path().join("bin"), "one", &script);
    let other = Attachment { id: "other".into(), ..pod.clone() };
    cni.add(&pod).await.unwrap();
    cni.add(&other).await.unwrap();
    // A new run: one pod is still known and is added again, the other is no more.
    cni.add(&pod).await.unwrap();
    cni.sweep(&["cid".to_owned()].into()).await;
    let seen = std::fs::read_to_string(trace).unwrap();
    let want = ["ADD cid", "ADD other", "DEL cid", "ADD cid", "DEL other"];
    assert_eq!(seen.lines().collect::<Vec<_>>(), want);
}
