//! `--dual-stack`: IPv6 beside IPv4 for pods, Services, endpoints and names.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ironsail_testkit::{Answer, Case, Shared, case_on, eventually};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

static DUAL: Shared = Shared::new(|_| ["--dual-stack", "--nodes", "2"].map(str::to_owned).to_vec());

fn case(name: &str, test: impl AsyncFnOnce(&Case)) {
    case_on(DUAL.podlet(), name, test);
}

/// An echo server on the first node and a client on the second.
async fn pods(case: &Case) {
    for (name, node) in [("server", "node-1"), ("client", "node-2")] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": node, "containers": [{"name": "e", "image": "echo", "args": ["serve", "--http", "8080"],
                "env": [{"name": "IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}]}]}});
        case.apply(&pod.to_string()).await;
    }
    case.ready("pod/server").await;
    case.ready("pod/client").await;
}

async fn service(case: &Case, name: &str, spec: &Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    case.apply(&object.to_string()).await;
    case.wait(&format!("service/{name}"), "there", |_| true).await
}

/// The addresses in a list of `{ip: …}` or of strings.
fn addresses(list: &Value) -> Vec<IpAddr> {
    let text = |item: &Value| item["ip"].as_str().or(item.as_str()).unwrap().parse().unwrap();
    list.as_array().unwrap_or_else(|| panic!("a list, not {list}")).iter().map(text).collect()
}

fn url(address: IpAddr, port: u16) -> String {
    format!("http://{}/", std::net::SocketAddr::new(address, port))
}

async fn answer(case: &Case, url: &str) -> Answer {
    eventually(&format!("{url} answers"), async || {
        let seen = case.call_with("pod/client", url, &["--timeout", "2000"]).await.pop().unwrap();
        if seen.status == Some(200) { Ok(seen) } else { Err(format!("{seen:?}")) }
    })
    .await
}

fn peer(seen: &Answer) -> IpAddr {
    seen.body["peer"].as_str().unwrap().parse::<std::net::SocketAddr>().unwrap().ip()
}

#[test]
fn pods_have_an_address_of_each_family_and_use_both() {
    case("pods", async |case| {
        pods(case).await;
        let of = async |name: &str| {
            case.wait(name, "addressed", |p| p["status"]["podIP"].is_string()).await
        };
        let (server, client) = (of("pod/server").await, of("pod/client").await);
        let ips = addresses(&server["status"]["podIPs"]);
        assert!(ips.len() == 2 && ips[0].is_ipv4() && ips[1].is_ipv6(), "{ips:?}");
        assert_eq!(server["status"]["podIP"], ips[0].to_string());
        let hosts = addresses(&server["status"]["hostIPs"]);
        assert!(hosts.len() == 2 && hosts[0].is_ipv4() && hosts[1].is_ipv6(), "{hosts:?}");
        let told = case.exec("pod/server", &["sh", "-c", "echo $IPS"]).await.stdout;
        assert_eq!(told.trim(), format!("{},{}", ips[0], ips[1]));
        let clients = addresses(&client["status"]["podIPs"]);
        for (to, from) in ips.iter().zip(clients) {
            let seen = answer(case, &url(*to, 8080)).await;
            assert_eq!(seen.body["hostname"], "server");
            assert_eq!(peer(&seen), from, "a pod keeps its address towards {to}");
        }
    });
}

#[test]
fn nodes_have_both_families() {
    case("nodes", async |case| {
        let node = case.wait("node/node-2", "there", |_| true).await;
        assert_eq!(node["spec"]["podCIDRs"], json!(["10.244.1.0/24", "fd00:10:244:1::/64"]));
        let internal: Vec<_> = node["status"]["addresses"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|a| a["type"] == "InternalIP")
            .map(|a| a["address"].clone())
            .collect();
        assert_eq!(internal, ["10.243.0.11", "fd00:10:243::b"]);
    });
}

#[test]
fn a_service_has_the_families_it_asks_for() {
    case("families", async |case| {
        for (name, spec, families) in [
            ("one", json!({}), vec!["IPv4"]),
            ("prefer", json!({"ipFamilyPolicy": "PreferDualStack"}), vec!["IPv4", "IPv6"]),
            (
                "require",
                json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}),
                vec!["IPv6", "IPv4"],
            ),
            ("six", json!({"ipFamilies": ["IPv6"]}), vec!["IPv6"]),
        ] {
            let service = service(case, name, &spec).await;
            assert_eq!(service["spec"]["ipFamilies"], json!(families), "{name}");
            let ips = addresses(&service["spec"]["clusterIPs"]);
            let seen: Vec<_> =
                ips.iter().map(|ip| if ip.is_ipv4() { "IPv4" } else { "IPv6" }).collect();
            assert_eq!(seen, families, "{name}");
            assert_eq!(service["spec"]["clusterIP"], ips[0].to_string());
        }
    });
}

#[test]
fn traffic_and_names_of_a_service_work_in_both_families() {
    case("traffic", async |case| {
        pods(case).await;
        let both = service(
            case,
            "both",
            &json!({"ipFamilyPolicy": "PreferDualStack", "type": "NodePort"}),
        )
        .await;
        service(case, "six", &json!({"ipFamilies": ["IPv6"]})).await;
        let ips = addresses(&both["spec"]["clusterIPs"]);
        for ip in &ips {
            let seen = answer(case, &url(*ip, 80)).await;
            assert_eq!(seen.body["hostname"], "server");
            assert_eq!(peer(&seen).is_ipv6(), ip.is_ipv6());
        }
        let seen = answer(case, "http://six/").await;
        assert!(peer(&seen).is_ipv6(), "{seen:?}");
        // A node port answers on both addresses of either node.
        let port = u16::try_from(both["spec"]["ports"][0]["nodePort"].as_u64().unwrap()).unwrap();
        for node in ["10.243.0.10", "fd00:10:243::a", "10.243.0.11", "fd00:10:243::b"] {
            let seen = answer(case, &url(node.parse().unwrap(), port)).await;
            assert_eq!(seen.body["hostname"], "server");
        }
        let lookup = async |database: &str, name: &str| -> BTreeSet<IpAddr> {
            let run = case.exec("pod/client", &["getent", database, name]).await;
            let words = run.stdout.lines().filter_map(|l| l.split_whitespace().next());
            words.map(|w| w.parse().unwrap()).collect()
        };
        for (database, ip) in [("ahostsv4", ips[0]), ("ahostsv6", ips[1])] {
            eventually(&format!("{database} of both"), async || {
                let found = lookup(database, "both").await;
                if found == BTreeSet::from([ip]) { Ok(()) } else { Err(format!("{found:?}")) }
            })
            .await;
        }
        assert!(lookup("ahostsv4", "six").await.is_empty());
    });
}

#[test]
fn endpoint_slices_and_headless_names_come_in_both_families() {
    case("slices", async |case| {
        pods(case).await;
        service(case, "both", &json!({"ipFamilyPolicy": "RequireDualStack", "clusterIP": "None"}))
            .await;
        let server =
            case.wait("pod/server", "addressed", |p| p["status"]["podIP"].is_string()).await;
        let ips = addresses(&server["status"]["podIPs"]);
        let slices: Api<EndpointSlice> = Api::namespaced(case.client.clone(), &case.namespace);
        let wanted: BTreeMap<String, Vec<String>> = [
            ("IPv4".to_owned(), vec![ips[0].to_string()]),
            ("IPv6".to_owned(), vec![ips[1].to_string()]),
        ]
        .into();
        eventually("a slice of each family", async || {
            let list = slices
                .list(&ListParams::default().labels("kubernetes.io/service-name=both"))
                .await
                .unwrap();
            let seen: BTreeMap<_, Vec<_>> = list
                .items
                .into_iter()
                .map(|s| {
                    (
                        s.address_type,
                        s.endpoints
                            .unwrap_or_default()
                            .into_iter()
                            .flat_map(|e| e.addresses)
                            .collect(),
                    )
                })
                .collect();
            if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        for (database, ip) in [("ahostsv4", ips[0]), ("ahostsv6", ips[1])] {
            eventually(&format!("{database} of a headless Service"), async || {
                let run = case.exec("pod/client", &["getent", database, "both"]).await;
                if run.stdout.starts_with(&format!("{ip} ")) { Ok(()) } else { Err(run.stdout) }
            })
            .await;
        }
    });
}
