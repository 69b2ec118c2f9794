//! The ingress gateway as its manifests install it, with plain HTTP and TCP: which server of which
//! Gateway takes a request, and which VirtualService it goes on by.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Case, SYSTEM, Traffic, ask, eventually, mesh_case, repository};

/// Backends and the client are outside the mesh: the gateway alone is looked at.
fn pods(case: &Case) -> String {
    let ns = &case.namespace;
    let pod = |name: &str, args: &str| {
        format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: echo, args: [serve, {args}], env: [{{name: VERSION, value: {name}}}]}}]
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {ns}}}
spec:
  selector: {{app: {name}}}
  ports:
  - {{name: http, port: 80, targetPort: 8080}}
  - {{name: grpc, port: 7070, targetPort: 8080}}
  - {{name: tcp, port: 9000}}
---"
        )
    };
    let serve = "--http, '8080', --tcp, '9000'";
    pod("a", serve) + &pod("b", serve) + &pod("client", "--http, '8080'")
}

async fn install(case: &Case) {
    let file = repository().join("manifests/gateways/ingress.yaml");
    case.apply(&std::fs::read_to_string(file).unwrap()).await;
    case.apply(&pods(case)).await;
    for pod in ["a", "b", "client"] {
        case.ready(&format!("pod/{pod}")).await;
    }
    let args = ["rollout", "status", "deployment/istio-ingressgateway", "--timeout=90s"];
    let done = case.podlet().kubectl().args(["-n", SYSTEM]).args(args).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// A Gateway of the ingress gateway with one plain server.
fn gateway(name: &str, port: u16, protocol: &str, hosts: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: {name}}}
spec:
  selector: {{istio: ingressgateway}}
  servers: [{{port: {{number: {port}, name: p-{port}, protocol: {protocol}}}, hosts: [{hosts}]}}]
---"
    )
}

/// All requests for `hosts` at `gateway` go to `to`.
fn routes(name: &str, gateway: &str, hosts: &str, to: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: {name}}}
spec:
  hosts: [{hosts}]
  gateways: [{gateway}]
  http: [{{route: [{{destination: {{host: {to}, port: {{number: 80}}}}}}]}}]
---"
    )
}

const AT: &str = "http://istio-ingressgateway.istio-system/";

fn to(host: &str) -> ironsail_testkit::Ask {
    ask(AT).header(&format!("Host: {host}"))
}

#[test]
fn plain_servers_of_the_ingress_gateway() {
    mesh_case("gateway", async |case| {
        install(case).await;
        let traffic = Traffic::new(case, "client");
        hosts(&traffic).await;
        merging(&traffic).await;
        protocols(&traffic).await;
        ports(&traffic).await;
        selection(case, &traffic).await;
        traffic.done().await;
    });
}

async fn hosts(traffic: &Traffic<'_>) {
    let one = gateway("web", 80, "HTTP", "shop.example.com")
        + &routes("shop", "web", "shop.example.com", "a");
    traffic
        .behaves(
            "a host that the server has goes where its routes say, others are not found",
            &one,
            vec![
                to("shop.example.com").status(200).version("a"),
                to("shop.example.com:80").status(200).version("a"),
                to("other.example.com").status(404),
            ],
        )
        .await;
    traffic
        .still(
            "the backend sees who asked the gateway, and nothing that the client made up",
            vec![
                to("shop.example.com")
                    .header("X-Forwarded-Client-Cert: By=me")
                    .header("X-Envoy-Internal: true")
                    .sees("x-forwarded-proto", "http")
                    .reports("/authority", "shop.example.com")
                    .misses("x-forwarded-client-cert")
                    .all("x-forwarded-for is the client", |answers| {
                        answers[0].body["headers"]["x-forwarded-for"].is_array()
                    }),
                to("shop.example.com").returns("server", "istio-envoy"),
            ],
        )
        .await;
    let two = gateway("web", 80, "HTTP", "'*'")
        + &routes("shop", "web", "shop.example.com", "a")
        + &routes("bank", "web", "bank.example.com", "b");
    traffic
        .behaves(
            "two hosts share a gateway",
            &two,
            vec![
                to("shop.example.com").version("a"),
                to("bank.example.com").version("b").unmarked(),
                to("none.example.com").status(404).unmarked(),
            ],
        )
        .await;
    let wildcard = gateway("web", 80, "HTTP", "'*.example.com'")
        + &routes("all", "web", "'*.example.com'", "b")
        + &routes("shop", "web", "shop.example.com", "a");
    traffic
        .behaves(
            "an exact host comes before a wildcard",
            &wildcard,
            vec![
                to("bank.example.com").version("b"),
                to("shop.example.com").version("a").unmarked(),
                to("example.com").status(404).unmarked(),
            ],
        )
        .await;
    let narrow = gateway("web", 80, "HTTP", "shop.example.com") + &routes("all", "web", "'*'", "a");
    traffic
        .behaves(
            "of a wildcard's routes a server takes only its own hosts",
            &narrow,
            vec![
                to("shop.example.com").version("a"),
                to("bank.example.com").status(404).unmarked(),
            ],
        )
        .await;
}

async fn merging(traffic: &Traffic<'_>) {
    let merged = gateway("web", 80, "HTTP", "'*'")
        + "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: first}
spec:
  hosts: [shop.example.com]
  gateways: [web]
  http: [{match: [{uri: {prefix: /first}}], route: [{destination: {host: a, port: {number: 80}}}]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: second}
spec:
  hosts: [shop.example.com]
  gateways: [web]
  http: [{match: [{uri: {prefix: /second}}], route: [{destination: {host: b, port: {number: 80}}}]}]
";
    let path = |path: &str| ask(&format!("{AT}{path}")).header("Host: shop.example.com");
    traffic
        .behaves(
            "VirtualServices for one host add up",
            &merged,
            vec![
                path("first").version("a"),
                path("second").version("b").unmarked(),
                path("third").status(404).unmarked(),
            ],
        )
        .await;
    let both = gateway("web", 80, "HTTP", "'*'")
        + "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: both}
spec:
  hosts: [shop.example.com]
  gateways: [web, mesh]
  http:
  - match: [{gateways: [mesh]}]
    route: [{destination: {host: b, port: {number: 80}}}]
  - route: [{destination: {host: a, port: {number: 80}}}]
";
    traffic
        .behaves(
            "a route for sidecars is not one of the gateway",
            &both,
            vec![to("shop.example.com").version("a")],
        )
        .await;
    let split = gateway("web", 80, "HTTP", "'*'")
        + "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: split}
spec:
  hosts: ['*']
  gateways: [web]
  http:
  - route:
    - {destination: {host: a, port: {number: 80}}, weight: 50}
    - {destination: {host: b, port: {number: 80}}, weight: 50}
";
    traffic
        .behaves(
            "a gateway splits by weight",
            &split,
            vec![to("any.example.com").times(60).status(200).share("a", 10..=50)],
        )
        .await;
    let redirect = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: [shop.example.com], tls: {httpsRedirect: true}}
";
    traffic
        .behaves(
            "httpsRedirect sends clients to HTTPS, routes or not",
            redirect,
            vec![
                ask(&format!("{AT}cart?a=b"))
                    .header("Host: shop.example.com")
                    .status(301)
                    .returns("location", "https://shop.example.com/cart?a=b"),
            ],
        )
        .await;
}

async fn protocols(traffic: &Traffic<'_>) {
    let http2 = gateway("web", 80, "HTTP2", "'*'") + &routes("all", "web", "'*'", "a");
    traffic
        .behaves(
            "HTTP/2, HTTP/1.1 and WebSocket come to one server",
            &http2,
            vec![
                to("x.example.com").version("a"),
                ask("h2c://istio-ingressgateway.istio-system/").status(200).version("a"),
                ask("ws://istio-ingressgateway.istio-system/")
                    .works()
                    .reports("/protocol", "WebSocket"),
            ],
        )
        .await;
    let grpc = gateway("web", 80, "GRPC", "'*'")
        + "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: all}
spec:
  hosts: ['*']
  gateways: [web]
  http: [{route: [{destination: {host: b, port: {number: 7070}}}]}]
";
    traffic
        .behaves(
            "gRPC passes",
            &grpc,
            vec![ask("grpc://istio-ingressgateway.istio-system:80/").status(0).version("b")],
        )
        .await;
    let tcp = gateway("wire", 31400, "TCP", "'*'")
        + "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: wire}
spec:
  hosts: ['*']
  gateways: [wire]
  tcp:
  - match: [{port: 31400}]
    route:
    - {destination: {host: a, port: {number: 9000}}, weight: 50}
    - {destination: {host: b, port: {number: 9000}}, weight: 50}
";
    traffic
        .behaves(
            "TCP goes by weight",
            &tcp,
            vec![
                ask("tcp://istio-ingressgateway.istio-system:31400/")
                    .args(&["-d", "hello"])
                    .times(40)
                    .works()
                    .share("b", 5..=35),
            ],
        )
        .await;
}

async fn ports(traffic: &Traffic<'_>) {
    let several = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 80, name: one, protocol: HTTP}, hosts: [one.example.com]}
  - {port: {number: 80, name: two, protocol: HTTP}, hosts: [two.example.com]}
  - {port: {number: 443, name: plain, protocol: HTTP}, hosts: ['*']}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: all}
spec:
  hosts: ['*.example.com']
  gateways: [web]
  http:
  - match: [{port: 443}]
    route: [{destination: {host: b, port: {number: 80}}}]
  - route: [{destination: {host: a, port: {number: 80}}}]
";
    let other = |host: &str| {
        ask("http://istio-ingressgateway.istio-system:443/").header(&format!("Host: {host}"))
    };
    traffic
        .behaves(
            "servers share a port, and routes tell ports apart",
            several,
            vec![
                to("one.example.com").version("a"),
                to("two.example.com").version("a").unmarked(),
                to("three.example.com").status(404).unmarked(),
                other("three.example.com").version("b").unmarked(),
            ],
        )
        .await;
    let bound = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ['*'], bind: 127.0.0.1}
---"
    .to_owned()
        + &routes("all", "web", "'*'", "a");
    traffic
        .behaves(
            "a server bound to loopback is not reached from outside",
            &bound,
            vec![to("x.example.com").fails().unmarked()],
        )
        .await;
}

async fn selection(case: &Case, traffic: &Traffic<'_>) {
    let other = gateway("web", 80, "HTTP", "'*'").replace("ingressgateway", "somebody-else")
        + &routes("all", "web", "'*'", "a");
    traffic
        .behaves(
            "a Gateway of other pods opens no port here",
            &other,
            vec![to("x.example.com").fails().unmarked()],
        )
        .await;
    let ns = &case.namespace;
    let foreign = gateway("web", 80, "HTTP", "'./shop.example.com', 'nobody/bank.example.com'")
        + &routes("shop", &format!("{ns}/web"), "shop.example.com", "a")
        + &routes("bank", "web", "bank.example.com", "b");
    traffic
        .behaves(
            "a server may say whose routes it takes",
            &foreign,
            vec![
                to("shop.example.com").version("a"),
                to("bank.example.com").status(404).unmarked(),
            ],
        )
        .await;
    let clash = gateway("early", 80, "HTTP", "'*'") + &routes("all", "early", "'*'", "a");
    traffic.behaves("before the clash", &clash, vec![to("x.example.com").version("a")]).await;
    case.apply(&gateway("late", 80, "TCP", "'*'")).await;
    eventually("the younger Gateway is told that the port is taken", async || {
        let page = case.page(15014, "/debug/push_status").await;
        let told = page.body.contains("late") && page.body.contains("the server is left out");
        if told { Ok(()) } else { Err(page.body) }
    })
    .await;
    traffic.still("the older one stays", vec![to("x.example.com").version("a")]).await;
    case.kubectl_says(&["delete", "gateways.networking.istio.io", "late"]);
    let health = "http://istio-ingressgateway.istio-system:15021/healthz/ready";
    traffic.still("the gateway tells that it is ready", vec![ask(health).status(200)]).await;
    case.beside(SYSTEM).ready("deployment/istio-ingressgateway").await;
}
