//! Ways out of the mesh: any, registered ones only, through the egress gateway, past the proxy; with
//! TLS that proxies originate. The world is a network of the test's own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{
    Authority, Case, SYSTEM, Shared, Traffic, ask, case_on, eventually, mesh_on, repository,
};
use serde_json::json;

/// Two hosts with names, each with HTTP on 80, TLS on 443 and TCP on 9000.
static WORLD: Shared = Shared::new(|dir| {
    let server = |name: &str| {
        let args = ["serve", "--http", "80", "--https", "443", "--tcp", "9000", "--hostname", name];
        json!({"image": "echo", "args": args})
    };
    let host = |name: &str, address: &str, names: &[&str]| json!({"name": name, "addresses": [address], "hostnames": names, "servers": [server(name)]});
    let world = json!({"hosts": [
        host("shop", "203.0.113.10", &["shop.example.com"]),
        host("bank", "203.0.113.20", &["bank.example.com", "www.bank.example.com"]),
    ]});
    let file = dir.join("outside.yaml");
    std::fs::write(&file, world.to_string()).unwrap();
    vec!["--outside".to_owned(), file.display().to_string()]
});

fn pod(name: &str, more: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: {name}, sidecar.istio.io/inject: 'true'}}
  annotations: {{{more}}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: echo, args: [serve, --http, '8080']}}]
---"
    )
}

#[test]
fn ways_out_of_the_mesh() {
    case_on(mesh_on(&WORLD), "egress", async |case| {
        let file = repository().join("manifests/gateways/egress.yaml");
        case.apply(&std::fs::read_to_string(file).unwrap()).await;
        let past = "traffic.sidecar.istio.io/excludeOutboundIPRanges: 203.0.113.20/32";
        case.apply(&(pod("client", "") + &pod("past", past))).await;
        for pod in ["client", "past"] {
            case.ready(&format!("pod/{pod}")).await;
        }
        let args = ["rollout", "status", "deployment/istio-egressgateway", "--timeout=170s"];
        let done = case.podlet().kubectl().args(["-n", SYSTEM]).args(args).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let traffic = Traffic::new(case, "client");
        anywhere(&traffic).await;
        registered(&traffic).await;
        originated(case, &traffic).await;
        gateway(case, &traffic).await;
        wildcards(&traffic).await;
        kubernetes(&traffic).await;
        traffic.done().await;
    });
}

async fn anywhere(traffic: &Traffic<'_>) {
    traffic
        .behaves(
            "by default every place outside is reached, by any protocol",
            "",
            vec![
                ask("http://shop.example.com/").status(200).reports("/hostname", "shop"),
                ask("https://shop.example.com/")
                    .status(200)
                    .reports("/tls/sni", "shop.example.com"),
                ask("tcp://bank.example.com:9000/").args(&["-d", "x"]).reports("/hostname", "bank"),
            ],
        )
        .await;
}

const CLOSED: &str = "
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default}
spec:
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress: [{hosts: ['*/*']}]
---";

fn entry(host: &str, ports: &str, resolution: &str) -> String {
    let name = host.replace(['.', '*'], "-").trim_start_matches('-').to_owned();
    format!(
        "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}}}
spec:
  hosts: ['{host}']
  location: MESH_EXTERNAL
  resolution: {resolution}
  ports: [{ports}]
---"
    )
}

const HTTP: &str = "{number: 80, name: http, protocol: HTTP}";
const TLS: &str = "{number: 443, name: tls, protocol: TLS}";

async fn registered(traffic: &Traffic<'_>) {
    traffic
        .behaves(
            "REGISTRY_ONLY: unknown places answer 502, or not at all",
            CLOSED,
            vec![
                ask("http://shop.example.com/").status(502),
                ask("https://shop.example.com/").fails(),
                ask("tcp://bank.example.com:9000/").args(&["-d", "x"]).fails(),
            ],
        )
        .await;
    traffic
        .still(
            "a pod whose ranges are excluded goes past its proxy all the same",
            vec![
                ask("http://bank.example.com/").from("past").reports("/hostname", "bank"),
                ask("http://shop.example.com/").from("past").status(502),
            ],
        )
        .await;
    let ports = format!("{HTTP}, {TLS}");
    let known = CLOSED.to_owned() + &entry("shop.example.com", &ports, "DNS");
    traffic
        .behaves(
            "a ServiceEntry opens one host, on its ports",
            &known,
            vec![
                ask("http://shop.example.com/").reports("/hostname", "shop"),
                ask("https://shop.example.com/").reports("/hostname", "shop"),
                ask("tcp://shop.example.com:9000/").args(&["-d", "x"]).fails(),
                ask("http://bank.example.com/").status(502),
            ],
        )
        .await;
    let address = CLOSED.to_owned()
        + "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wire}
spec:
  hosts: [wire.example.net]
  addresses: [203.0.113.0/24]
  location: MESH_EXTERNAL
  resolution: NONE
  ports: [{number: 9000, name: tcp, protocol: TCP}]
";
    traffic
        .behaves(
            "a range of addresses opens TCP to them",
            &address,
            vec![
                ask("tcp://bank.example.com:9000/").args(&["-d", "x"]).reports("/hostname", "bank"),
                ask("http://bank.example.com/").status(502),
            ],
        )
        .await;
    let slow = entry("shop.example.com", HTTP, "DNS")
        + "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop}
spec:
  hosts: [shop.example.com]
  http: [{timeout: 1s, route: [{destination: {host: shop.example.com}}]}]
";
    traffic
        .behaves(
            "rules hold for places outside too",
            &slow,
            vec![
                ask("http://shop.example.com/?delay=3000").status(504),
                ask("http://shop.example.com/").status(200),
            ],
        )
        .await;
}

async fn originated(case: &Case, traffic: &Traffic<'_>) {
    let entry = entry(
        "shop.example.com",
        &format!("{{number: 80, name: http, protocol: HTTP, targetPort: 443}}, {TLS}"),
        "DNS",
    );
    let rule = |tls: &str| {
        format!(
            "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: shop}}
spec:
  host: shop.example.com
  trafficPolicy: {{portLevelSettings: [{{port: {{number: 80}}, tls: {{{tls}}}}}]}}
---"
        )
    };
    traffic
        .behaves(
            "a sidecar makes HTTPS of HTTP, with the host as server name",
            &(entry.clone() + &rule("mode: SIMPLE, insecureSkipVerify: true")),
            vec![
                ask("http://shop.example.com/")
                    .status(200)
                    .reports("/tls/sni", "shop.example.com")
                    .reports("/tls/alpn", "http/1.1"),
            ],
        )
        .await;
    traffic
        .behaves(
            "a server name of one's own",
            &(entry.clone()
                + &rule("mode: SIMPLE, sni: other.example.com, insecureSkipVerify: true")),
            vec![ask("http://shop.example.com/").reports("/tls/sni", "other.example.com")],
        )
        .await;
    let somebody = Authority::new("somebody else");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "roots"},
        "data": {"ca.crt": somebody.root}});
    case.try_apply(map).await.unwrap();
    let roots = format!("mode: SIMPLE, credentialName: 'configmap://{}/roots'", case.namespace);
    traffic
        .behaves(
            "a server whose root is not the one named is not talked to",
            &(entry + &rule(&roots)),
            vec![ask("http://shop.example.com/").status(503)],
        )
        .await;
}

const THROUGH: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: out}
spec:
  selector: {istio: egressgateway}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [shop.example.com]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: through}
spec:
  hosts: [shop.example.com]
  gateways: [out, mesh]
  http:
  - match: [{gateways: [mesh], port: 80}]
    route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, port: {number: 80}}}]
  - match: [{gateways: [out], port: 80}]
    route: [{destination: {host: shop.example.com, port: {number: 80}}}]
    headers: {request: {set: {x-way: gateway}}}
---";

async fn gateway(case: &Case, traffic: &Traffic<'_>) {
    let plain = entry("shop.example.com", HTTP, "DNS") + THROUGH;
    let out = "http://shop.example.com/";
    traffic
        .behaves(
            "HTTP goes out through the egress gateway",
            &plain,
            vec![ask(out).status(200).reports("/hostname", "shop").sees("x-way", "gateway")],
        )
        .await;
    let secured = entry("shop.example.com", &format!("{HTTP}, {{number: 443, name: https, protocol: HTTPS}}"), "DNS")
        + &THROUGH
            .replace("{host: shop.example.com, port: {number: 80}}", "{host: shop.example.com, port: {number: 443}}")
        + "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: shop}
spec:
  host: shop.example.com
  trafficPolicy: {portLevelSettings: [{port: {number: 443}, tls: {mode: SIMPLE, insecureSkipVerify: true}}]}
";
    traffic
        .behaves(
            "the egress gateway makes HTTPS of it",
            &secured,
            vec![
                ask(out)
                    .status(200)
                    .sees("x-way", "gateway")
                    .reports("/tls/sni", "shop.example.com"),
            ],
        )
        .await;
    let mine = Authority::new("clients").issue(&["client.example.com"]);
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "client-credential", "namespace": SYSTEM},
        "stringData": {"tls.crt": mine.certificate, "tls.key": mine.key}});
    case.try_apply(secret).await.unwrap();
    let mutual = secured.replace(
        "mode: SIMPLE, insecureSkipVerify: true",
        "mode: MUTUAL, credentialName: client-credential, insecureSkipVerify: true",
    );
    traffic
        .behaves(
            "with a certificate of its own, from a Secret",
            &mutual,
            vec![ask(out).status(200).reports("/tls/client_names/0", "client.example.com")],
        )
        .await;
    let closed = entry("bank.example.com", TLS, "DNS")
        + "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: out}
spec:
  selector: {istio: egressgateway}
  servers: [{port: {number: 443, name: tls, protocol: TLS}, hosts: [bank.example.com], tls: {mode: PASSTHROUGH}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: through}
spec:
  hosts: [bank.example.com]
  gateways: [out, mesh]
  tls:
  - match: [{gateways: [mesh], port: 443, sniHosts: [bank.example.com]}]
    route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, port: {number: 443}}}]
  - match: [{gateways: [out], port: 443, sniHosts: [bank.example.com]}]
    route: [{destination: {host: bank.example.com, port: {number: 443}}}]
";
    let node = node_of_gateway(case).await;
    traffic
        .behaves(
            "HTTPS that clients make passes the gateway unopened",
            &closed,
            vec![
                ask("https://bank.example.com/")
                    .status(200)
                    .reports("/tls/sni", "bank.example.com")
                    .reports("/hostname", "bank"),
            ],
        )
        .await;
    eventually("the gateway has seen the connection", async || {
        let seen = case
            .podlet()
            .kubectl()
            .args([
                "-n",
                SYSTEM,
                "exec",
                &node,
                "-c",
                "istio-proxy",
                "--",
                "curl",
                "-s",
                "localhost:15000/clusters?filter=bank",
            ])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&seen.stdout).into_owned();
        let busy = text.lines().any(|l| l.contains("cx_total::") && !l.ends_with("::0"));
        if busy { Ok(()) } else { Err(text) }
    })
    .await;
}

async fn node_of_gateway(case: &Case) -> String {
    let args = ["-n", SYSTEM, "get", "pods", "-l", "istio=egressgateway", "-o", "name"];
    let said = case.podlet().kubectl().args(args).output().unwrap();
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

async fn wildcards(traffic: &Traffic<'_>) {
    let ports = format!("{HTTP}, {TLS}");
    let none = CLOSED.to_owned() + &entry("*.example.com", &ports, "NONE");
    traffic
        .behaves(
            "a wildcard with NONE opens all its hosts, where clients find them",
            &none,
            vec![
                ask("http://shop.example.com/").reports("/hostname", "shop"),
                ask("http://bank.example.com/").reports("/hostname", "bank"),
                ask("https://bank.example.com/").reports("/hostname", "bank"),
            ],
        )
        .await;
    let dynamic = CLOSED.to_owned() + &entry("*.example.com", &ports, "DYNAMIC_DNS");
    traffic
        .behaves(
            "with DYNAMIC_DNS the proxy looks the name up, whatever address was called",
            &dynamic,
            vec![
                ask("http://203.0.113.20/")
                    .header("Host: shop.example.com")
                    .reports("/hostname", "shop"),
                ask("http://shop.example.com/")
                    .header("Host: bank.example.com")
                    .reports("/hostname", "bank"),
                ask("http://shop.example.com/").header("Host: nobody.example.com").status(503),
                ask("http://shop.example.com/").header("Host: example.org").status(502),
                ask("https://203.0.113.20/")
                    .args(&["--sni", "shop.example.com"])
                    .reports("/hostname", "shop"),
            ],
        )
        .await;
    let through = dynamic
        + "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: out}
spec:
  selector: {istio: egressgateway}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*.example.com']}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: through}
spec:
  hosts: ['*.example.com']
  gateways: [out, mesh]
  http:
  - match: [{gateways: [mesh], port: 80}]
    route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, port: {number: 80}}}]
  - match: [{gateways: [out], port: 80}]
    route: [{destination: {host: '*.example.com', port: {number: 80}}}]
    headers: {request: {set: {x-way: gateway}}}
";
    traffic
        .behaves(
            "a wildcard goes out through the egress gateway, which looks names up",
            &through,
            vec![
                ask("http://shop.example.com/")
                    .reports("/hostname", "shop")
                    .sees("x-way", "gateway"),
                ask("http://bank.example.com/")
                    .reports("/hostname", "bank")
                    .sees("x-way", "gateway"),
            ],
        )
        .await;
}

async fn kubernetes(traffic: &Traffic<'_>) {
    let name = CLOSED.to_owned()
        + &entry("shop.example.com", HTTP, "DNS")
        + "
apiVersion: v1
kind: Service
metadata: {name: store}
spec: {type: ExternalName, externalName: shop.example.com, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: vault}
spec: {ports: [{name: http, port: 80}, {name: tcp, port: 9000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: vault-1, labels: {kubernetes.io/service-name: vault}}
addressType: IPv4
endpoints: [{addresses: [203.0.113.20], conditions: {ready: true}}]
ports: [{name: http, port: 80}, {name: tcp, port: 9000}]
";
    traffic
        .behaves(
            "Services of Kubernetes stand for places outside: by name, and by endpoints",
            &name,
            vec![
                ask("http://store/").status(200).reports("/hostname", "shop"),
                ask("http://vault/").status(200).reports("/hostname", "bank"),
                ask("tcp://vault:9000/").args(&["-d", "x"]).reports("/hostname", "bank"),
            ],
        )
        .await;
}
