//! ServiceEntries and WorkloadEntries: how their hosts are found, who serves them, who sees them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Case, Traffic, ask, eventually, mesh_case};
use serde_json::Value;

fn pod(name: &str, inject: bool, more: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: {name}, kind: backend, sidecar.istio.io/inject: '{inject}'}}
  annotations: {{{more}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: echo
    args: [serve, --http, '8080', --tcp, '9000']
    env: [{{name: VERSION, value: {name}}}]
---"
    )
}

const NAMES: &str = "proxy.istio.io/config: '{proxyMetadata: {ISTIO_META_DNS_CAPTURE: \"true\"}}'";

async fn ip(case: &Case, pod: &str) -> String {
    let what = format!("pod/{pod}");
    let pod = case.wait(&what, "addressed", |pod| pod["status"]["podIP"].is_string()).await;
    pod["status"]["podIP"].as_str().unwrap().to_owned()
}

/// Addresses of the backends, for entries to name.
struct Backends {
    a: String,
    b: String,
    member: String,
}

#[test]
fn entries_make_hosts() {
    mesh_case("entries", async |case| {
        case.apply(&(pod("a", false, "") + &pod("b", false, "") + &pod("member", true, ""))).await;
        case.apply(&(pod("client", true, NAMES) + &pod("plain", true, ""))).await;
        for name in ["a", "b", "member", "client", "plain"] {
            case.ready(&format!("pod/{name}")).await;
        }
        let at = Backends {
            a: ip(case, "a").await,
            b: ip(case, "b").await,
            member: ip(case, "member").await,
        };
        let traffic = Traffic::new(case, "client");
        listed(&traffic, &at).await;
        allocated(case, &traffic, &at).await;
        resolved(case, &traffic, &at).await;
        selected(case, &traffic, &at).await;
        trusted(case, &traffic, &at).await;
        visible(&traffic, &at).await;
        traffic.done().await;
    });
}

fn entry(spec: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: entry}}
spec:
{spec}
---"
    )
}

async fn listed(traffic: &Traffic<'_>, at: &Backends) {
    let Backends { a, b, .. } = at;
    let both = entry(&format!(
        "
  hosts: [both.internal]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 8080}}]
  endpoints:
  - {{address: {a}, labels: {{version: one}}}}
  - {{address: {b}, labels: {{version: two}}, ports: {{http: 8080}}}}
"
    ));
    traffic
        .behaves(
            "STATIC: requests go to the endpoints listed, on their own ports",
            &both,
            vec![
                ask("http://both.internal/").times(40).status(200).share("a", 5..=35),
                ask("http://both.internal/").reports("/authority", "both.internal"),
            ],
        )
        .await;
    let subsets = both.clone()
        + "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: both}
spec:
  host: both.internal
  subsets: [{name: one, labels: {version: one}}, {name: two, labels: {version: two}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: both}
spec:
  hosts: [both.internal]
  http:
  - {match: [{uri: {prefix: /two}}], route: [{destination: {host: both.internal, subset: two}}]}
  - {route: [{destination: {host: both.internal, subset: one}}]}
";
    traffic
        .behaves(
            "labels of endpoints make subsets",
            &subsets,
            vec![
                ask("http://both.internal/").times(5).version("a"),
                ask("http://both.internal/two").times(5).version("b"),
            ],
        )
        .await;
    let weighted = both
        .replace("version: one}}", "version: one}, weight: 9}")
        .replace("labels: {version: two}", "labels: {version: two}, weight: 1")
        + "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: both}
spec: {host: both.internal, trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}}
";
    traffic
        .behaves(
            "endpoints have weights",
            &weighted,
            vec![ask("http://both.internal/").times(50).status(200).share("a", 38..=49)],
        )
        .await;
    let own = entry(&format!(
        "
  hosts: [wire.internal]
  addresses: [240.9.9.9]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{{number: 9000, name: tcp, protocol: TCP}}]
  endpoints: [{{address: {b}}}]
"
    ));
    traffic
        .behaves(
            "an address that users give is served",
            &own,
            vec![ask("tcp://240.9.9.9:9000/").args(&["-d", "x"]).version("b")],
        )
        .await;
}

async fn allocated(case: &Case, traffic: &Traffic<'_>, at: &Backends) {
    let auto = |name: &str, to: &str| {
        entry(&format!(
            "
  hosts: [{name}.internal]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{{number: 9000, name: tcp, protocol: TCP}}]
  endpoints: [{{address: {to}}}]
"
        ))
        .replace("name: entry", &format!("name: {name}"))
    };
    let two = auto("first", &at.a) + &auto("second", &at.b);
    traffic
        .behaves(
            "TCP hosts without addresses get some, so that one port serves both",
            &two,
            vec![
                ask("tcp://first.internal:9000/").args(&["-d", "x"]).version("a"),
                ask("tcp://second.internal:9000/").args(&["-d", "x"]).version("b"),
            ],
        )
        .await;
    let status = eventually("the addresses are in the status", async || {
        let said = case.kubectl_says(&[
            "get",
            "serviceentries.networking.istio.io",
            "first",
            "-o",
            "json",
        ]);
        let object: Value = serde_json::from_str(&said).unwrap();
        let addresses = object["status"]["addresses"].as_array().cloned().unwrap_or_default();
        if addresses.is_empty() { Err(said) } else { Ok(addresses) }
    })
    .await;
    let value = status[0]["value"].as_str().unwrap();
    assert!(value.starts_with("240.240."), "{status:?}");
    let url = format!("tcp://{value}:9000/");
    traffic.still("and are what names mean", vec![ask(&url).args(&["-d", "x"]).version("a")]).await;
}

async fn resolved(case: &Case, traffic: &Traffic<'_>, _at: &Backends) {
    let ns = &case.namespace;
    case.apply(
        "
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {clusterIP: None, selector: {app: a}, ports: [{name: http, port: 8080}]}
",
    )
    .await;
    for resolution in ["DNS", "DNS_ROUND_ROBIN"] {
        let named = entry(&format!(
            "
  hosts: [named.internal]
  location: MESH_EXTERNAL
  resolution: {resolution}
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 8080}}]
  endpoints: [{{address: a.{ns}.svc.cluster.local}}]
"
        ));
        traffic
            .behaves(
                &format!("{resolution}: the proxy looks up the endpoint's name"),
                &named,
                vec![ask("http://named.internal/").status(200).version("a")],
            )
            .await;
    }
    case.kubectl_says(&["delete", "service", "a"]);
}

async fn selected(case: &Case, traffic: &Traffic<'_>, at: &Backends) {
    let Backends { b, .. } = at;
    let by_label = entry(
        "
  hosts: [mixed.internal]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  workloadSelector: {labels: {role: mixed}}
",
    );
    let machine = format!(
        "
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {{name: machine, labels: {{role: mixed}}}}
spec: {{address: {b}, labels: {{role: mixed, version: vm}}, ports: {{http: 8080}}}}
---"
    );
    case.kubectl_says(&["label", "pod", "a", "role=mixed"]);
    traffic
        .behaves(
            "workloadSelector takes pods and WorkloadEntries",
            &(by_label.clone() + &machine),
            vec![ask("http://mixed.internal/").times(40).status(200).share("b", 5..=35)],
        )
        .await;
    traffic
        .behaves(
            "a WorkloadEntry that is gone gets nothing",
            &by_label,
            vec![ask("http://mixed.internal/").times(20).version("a")],
        )
        .await;
    case.kubectl_says(&["label", "pod", "a", "role-"]);
    let service = "
apiVersion: v1
kind: Service
metadata: {name: mixed}
spec: {selector: {role: mixed}, ports: [{name: http, port: 80, targetPort: 8080}]}
---"
    .to_owned()
        + &machine;
    traffic
        .behaves(
            "a Kubernetes Service takes WorkloadEntries too",
            &service,
            vec![ask("http://mixed/").status(200).version("b")],
        )
        .await;
}

async fn trusted(case: &Case, traffic: &Traffic<'_>, at: &Backends) {
    let ns = &case.namespace;
    let Backends { member, .. } = at;
    let internal = |names: &str| {
        entry(&format!(
            "
  hosts: [member.internal]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 8080}}]
  subjectAltNames: [{names}]
  endpoints: [{{address: {member}, labels: {{security.istio.io/tlsMode: istio}}}}]
"
        ))
    };
    traffic
        .behaves(
            "MESH_INTERNAL endpoints with a sidecar get mTLS, by the names of the entry",
            &internal(&format!("'spiffe://cluster.local/ns/{ns}/sa/default'")),
            vec![ask("http://member.internal/").status(200).version("member").all(
                "the server knows its caller",
                |all| {
                    all[0].body["headers"]["x-forwarded-client-cert"]
                        .to_string()
                        .contains("URI=spiffe://")
                },
            )],
        )
        .await;
    traffic
        .behaves(
            "another name than the server's is not talked to",
            &internal("'spiffe://cluster.local/ns/elsewhere/sa/other'"),
            vec![ask("http://member.internal/").status(503)],
        )
        .await;
}

async fn visible(traffic: &Traffic<'_>, at: &Backends) {
    let Backends { a, .. } = at;
    let closed = "
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default}
spec: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}, egress: [{hosts: ['*/*']}]}
---"
    .to_owned();
    let shown = |to: &str| {
        entry(&format!(
            "
  hosts: [shown.internal]
  addresses: [240.8.8.8]
  exportTo: ['{to}']
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 8080}}]
  endpoints: [{{address: {a}}}]
"
        ))
    };
    let there = || ask("http://240.8.8.8/").header("Host: shown.internal").from("plain");
    traffic
        .behaves(
            "exportTo of one's own namespace",
            &(closed.clone() + &shown(".")),
            vec![there().status(200).version("a")],
        )
        .await;
    traffic
        .behaves(
            "exportTo of others hides it here",
            &(closed + &shown("somewhere-else")),
            vec![there().all("nobody answers for it", |all| all[0].status != Some(200))],
        )
        .await;
}
