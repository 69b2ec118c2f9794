//! Services, names and the way in from the host.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ironsail_testkit::{Case, case, eventually, is_root};
use serde_json::json;

/// Two echo pods behind `echo`, and one more to call from.
async fn echo(case: &Case) {
    case.sample("echo/echo.yaml").await;
    case.scale("deployment/echo", 2).await;
    case.apply("{apiVersion: v1, kind: Pod, metadata: {name: client}, spec: {containers: [{name: c, image: echo, args: [serve, --http, '1']}]}}").await;
    case.ready("deployment/echo").await;
    case.ready("pod/client").await;
    until_reachable(case, FROM, "http://echo/").await;
}

const FROM: &str = "pod/client";

#[test]
fn every_protocol_reaches_a_service_by_name() {
    case("protocols", async |case| {
        echo(case).await;
        for (url, protocol) in [
            ("http://echo/", "HTTP/1.1"),
            ("h2c://echo:85/", "HTTP/2.0"),
            ("grpc://echo:7070", "gRPC"),
            ("https://echo/", "HTTP/1.1"),
            ("h2://echo/", "HTTP/2.0"),
            ("ws://echo/", "WebSocket"),
            ("tcp://echo:9000", "TCP"),
            ("tls://echo:9443", "TCP"),
        ] {
            eventually(&format!("{url} answers in {protocol}"), async || {
                let seen = case.call_with(FROM, url, &["-d", "hi"]).await.pop().unwrap();
                let good = seen.body["protocol"] == protocol && seen.body["body"] == "hi";
                if good { Ok(()) } else { Err(format!("{seen:?}")) }
            })
            .await;
        }
    });
}

#[test]
fn a_service_spreads_and_keeps_the_callers_address() {
    case("spread", async |case| {
        echo(case).await;
        let client =
            case.wait("pod/client", "addressed", |p| p["status"]["podIP"].is_string()).await;
        // The second pod may be known a moment after the first.
        eventually("both pods answer", async || {
            let mut answers: BTreeMap<String, u32> = BTreeMap::new();
            for seen in case.call_with(FROM, "http://echo/", &["-n", "60"]).await {
                let (Some(host), Some(peer)) =
                    (seen.body["hostname"].as_str(), seen.body["peer"].as_str())
                else {
                    return Err(format!("{seen:?}"));
                };
                *answers.entry(host.to_owned()).or_default() += 1;
                let address = peer.rsplit_once(':').unwrap().0;
                assert_eq!(address, client["status"]["podIP"].as_str().unwrap());
            }
            // By chance once in a hundred million times.
            let good = answers.len() == 2 && answers.values().all(|n| *n >= 10);
            if good { Ok(()) } else { Err(format!("{answers:?}")) }
        })
        .await;
    });
}

#[test]
fn affinity_keeps_a_client_with_one_pod() {
    case("affinity", async |case| {
        echo(case).await;
        case.apply("{apiVersion: v1, kind: Service, metadata: {name: sticky}, spec: {sessionAffinity: ClientIP, selector: {app: echo}, ports: [{port: 80, targetPort: 8080}]}}").await;
        until_reachable(case, FROM, "http://sticky/").await;
        eventually("one pod has them all", async || {
            let answers = case.call_with(FROM, "http://sticky/", &["-n", "20"]).await;
            let hosts: std::collections::BTreeSet<_> =
                answers.iter().map(|seen| seen.body["hostname"].to_string()).collect();
            let good = hosts.len() == 1 && answers.iter().all(|seen| seen.error.is_none());
            if good { Ok(()) } else { Err(format!("{hosts:?}")) }
        })
        .await;
    });
}

/// Rules follow readiness a moment later, as in a cluster.
async fn until_reachable(case: &Case, from: &str, url: &str) {
    eventually(&format!("{url} is reachable"), async || {
        let seen = case.call_with(from, url, &["--timeout", "2000"]).await.pop().unwrap();
        if seen.status == Some(200) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

#[test]
fn a_service_without_pods_refuses_at_once() {
    case("empty", async |case| {
        echo(case).await;
        case.apply("{apiVersion: v1, kind: Service, metadata: {name: empty}, spec: {selector: {app: nobody}, ports: [{port: 80}]}}").await;
        // The name is known as soon as the Service is; from then on connections are refused.
        eventually("a Service without pods refuses", async || {
            let seen =
                case.call_with(FROM, "http://empty/", &["--timeout", "3000"]).await.pop().unwrap();
            let error = seen.error.unwrap();
            if error.contains("refused") { Ok(()) } else { Err(error) }
        })
        .await;
    });
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    case("hairpin", async |case| {
        case.sample("echo/echo.yaml").await;
        case.ready("deployment/echo").await;
        until_reachable(case, "deployment/echo", "http://echo/").await;
    });
}

#[test]
fn names_resolve_as_in_a_cluster() {
    case("dns", async |case| {
        case.apply(
            r#"
{apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None, selector: {app: db}, ports: [{name: sql, port: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: alias}, spec: {type: ExternalName, externalName: "headless"}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: headless
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: echo, args: [serve, --http, "5432"]}]}
"#,
        )
        .await;
        echo(case).await;
        case.ready("statefulset/db").await;
        let service = case.wait("service/echo", "there", |_| true).await;
        let lookup = async |name: &str| -> Vec<String> {
            let run = case.exec(FROM, &["getent", "ahostsv4", name]).await;
            let mut found: Vec<_> = run
                .stdout
                .lines()
                .filter(|l| l.contains("STREAM"))
                .filter_map(|l| l.split_whitespace().next().map(str::to_owned))
                .collect();
            found.sort();
            found
        };
        let resolves = async |name: &str, wanted: &[&str]| {
            eventually(&format!("{name} means {wanted:?}"), async || {
                let found = lookup(name).await;
                if found == wanted { Ok(()) } else { Err(format!("{found:?}")) }
            })
            .await;
        };
        let address = service["spec"]["clusterIP"].as_str().unwrap();
        let ns = &case.namespace;
        for name in [
            "echo".to_owned(),
            format!("echo.{ns}"),
            format!("echo.{ns}.svc"),
            format!("echo.{ns}.svc.cluster.local"),
        ] {
            resolves(&name, &[address]).await;
        }
        eventually("both pods are behind the headless name", async || {
            let found = lookup("headless").await;
            if found.len() == 2 { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
        let pod = case.wait("pod/db-1", "addressed", |p| p["status"]["podIP"].is_string()).await;
        let pod = pod["status"]["podIP"].as_str().unwrap();
        resolves(&format!("db-1.headless.{ns}.svc.cluster.local"), &[pod]).await;
        resolves(&format!("{}.{ns}.pod.cluster.local", pod.replace('.', "-")), &[pod]).await;
        assert_eq!(lookup("no-such-service").await, [""; 0]);
        eventually("a pod answers by its own name", async || {
            let url = format!("http://db-0.headless.{ns}.svc.cluster.local:5432/");
            let seen = case.call(FROM, &url).await;
            if seen.body["hostname"] == "db-0" { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    });
}

/// One HTTP request from the host, without a client of ours in between.
fn from_host(address: &str, port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((address, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /from-host HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

async fn host_reaches(address: &str, port: u16) {
    eventually(&format!("{address}:{port} answers the host"), async || {
        let seen = from_host(address, port).map_err(|error| error.to_string())?;
        if seen.contains("/from-host") { Ok(()) } else { Err(seen) }
    })
    .await;
}

#[test]
fn the_host_reaches_node_ports_and_load_balancers() {
    case("host", async |case| {
        echo(case).await;
        case.apply("{apiVersion: v1, kind: Service, metadata: {name: np}, spec: {type: NodePort, selector: {app: echo}, ports: [{port: 80, targetPort: 8080}]}}").await;
        case.apply("{apiVersion: v1, kind: Service, metadata: {name: lb}, spec: {type: LoadBalancer, selector: {app: echo}, ports: [{name: a, port: 80, targetPort: 8080}, {name: b, port: 8081, targetPort: 8080}]}}").await;
        let node = case
            .wait("service/np", "allocated", |s| s["spec"]["ports"][0]["nodePort"].is_u64())
            .await;
        let port = u16::try_from(node["spec"]["ports"][0]["nodePort"].as_u64().unwrap()).unwrap();
        host_reaches("127.0.0.1", port).await;
        let balancer = case
            .wait("service/lb", "addressed", |s| {
                s["status"]["loadBalancer"]["ingress"][0]["ip"].is_string()
            })
            .await;
        let address =
            balancer["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().unwrap().to_owned();
        assert!(address.starts_with("127."), "{address}");
        let first: u16 = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
            .map_or(1024, |text| text.trim().parse().unwrap());
        if is_root() || first <= 80 {
            host_reaches(&address, 80).await;
        } else {
            // An ordinary user may not listen there, and is told what to do.
            let told = case.event("service/lb", "PortNotForwarded").await;
            assert!(told.contains(&format!("{address}:80")), "{told}");
            assert!(told.contains("net.ipv4.ip_unprivileged_port_start=80"), "{told}");
        }
        host_reaches(&address, 8081).await;
        let pods: kube::Api<k8s_openapi::api::core::v1::Service> =
            kube::Api::namespaced(case.client.clone(), &case.namespace);
        pods.delete("np", &kube::api::DeleteParams::default()).await.unwrap();
        eventually("the port of a deleted Service is closed", async || {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(_) => Err("still open".to_owned()),
                Err(_) => Ok(()),
            }
        })
        .await;
    });
}

#[test]
fn endpoints_follow_readiness_and_removal() {
    case("endpoints", async |case| {
        echo(case).await;
        let slices: kube::Api<k8s_openapi::api::discovery::v1::EndpointSlice> =
            kube::Api::namespaced(case.client.clone(), &case.namespace);
        let ready = async || -> usize {
            let list = slices
                .list(&kube::api::ListParams::default().labels("kubernetes.io/service-name=echo"))
                .await
                .unwrap();
            list.items
                .iter()
                .flat_map(|s| s.endpoints.iter().flatten())
                .filter(|e| e.conditions.as_ref().and_then(|c| c.ready) == Some(true))
                .count()
        };
        let expect = async |wanted: usize| {
            eventually(&format!("{wanted} endpoints are ready"), async || {
                let found = ready().await;
                if found == wanted { Ok(()) } else { Err(format!("{found} are")) }
            })
            .await;
        };
        expect(2).await;
        case.scale("deployment/echo", 3).await;
        expect(3).await;
        case.scale("deployment/echo", 0).await;
        expect(0).await;
    });
}

#[test]
fn nothing_leaves_the_machine() {
    case("egress", async |case| {
        echo(case).await;
        // A documentation address that nobody has; refused inside podlet, at once.
        let seen =
            case.call_with(FROM, "http://192.0.2.1/", &["--timeout", "30000"]).await.pop().unwrap();
        let error = seen.error.unwrap();
        assert!(!error.contains("no answer within"), "{error}");
        assert_eq!(case.exec(FROM, &["getent", "hosts", "example.com"]).await.code, 2);
    });
}

#[test]
fn the_api_is_reached_from_a_pod_with_its_own_token() {
    case("api", async |case| {
        let text = r#"t=/var/run/secrets/kubernetes.io/serviceaccount; curl -s --retry 20 --retry-all-errors --cacert $t/ca.crt -H "Authorization: Bearer $(cat $t/token)" https://kubernetes.default.svc/api/v1/namespaces/$(cat $t/namespace)/pods"#;
        case.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", text]}]}}).to_string()).await;
        case.wait("pod/p", "succeeded", |p| p["status"]["phase"] == "Succeeded").await;
        let user = format!("system:serviceaccount:{}:default", case.namespace);
        let told = |log: &str| log.contains("is forbidden") && log.contains(&user);
        case.log_until("p", "main", told).await;
    });
}
