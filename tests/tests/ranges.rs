//! `--pod-cidr` and `--service-cidr`: addresses come from where they are told to.

use ironsail_testkit::{Podlet, binary, case_on, eventually};

#[test]
fn pods_services_and_dns_live_in_the_given_ranges() {
    let podlet =
        Podlet::start("ranges", &["--pod-cidr", "10.50.0.0/16", "--service-cidr", "10.60.0.0/20"]);
    case_on(&podlet, "ranges", async |case| {
        case.apply(
            r#"
{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {app: p}}, spec: {containers: [{name: e, image: echo, args: [serve, --http, "8080"]}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {selector: {app: p}, ports: [{port: 80, targetPort: 8080}]}}
"#,
        )
        .await;
        case.ready("pod/p").await;
        let pod = case.wait("pod/p", "addressed", |p| p["status"]["podIP"].is_string()).await;
        assert!(
            pod["status"]["podIP"].as_str().unwrap().starts_with("10.50.0."),
            "{}",
            pod["status"]
        );
        let service = case.wait("service/s", "there", |_| true).await;
        let address = service["spec"]["clusterIP"].as_str().unwrap();
        assert!(address.starts_with("10.60."), "{address}");
        let resolv_conf = case.exec("pod/p", &["cat", "/etc/resolv.conf"]).await.stdout;
        assert!(resolv_conf.contains("nameserver 10.60.0.10\n"), "{resolv_conf}");
        for url in ["http://s/", "https://kubernetes.default/version"] {
            eventually(&format!("{url} answers"), async || {
                let seen = case.call("pod/p", url).await;
                if seen.status == Some(200) { Ok(()) } else { Err(format!("{seen:?}")) }
            })
            .await;
        }
        eventually("the API's name is found", async || {
            let names = case.exec("pod/p", &["getent", "ahostsv4", "kubernetes.default"]).await;
            if names.stdout.starts_with("10.60.0.1 ") { Ok(()) } else { Err(names.stdout) }
        })
        .await;
    });
}

#[test]
fn ranges_that_overlap_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ironsail_sys::exec::command(binary("podlet"));
    command.arg("run").arg("--data").arg(dir.path().join("data"));
    command.arg("--kubeconfig").arg(dir.path().join("kubeconfig"));
    command.args(["--pod-cidr", "10.96.0.0/12"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("10.96.0.0/12") && said.contains("10.96.0.0/16"), "{said}");
}
