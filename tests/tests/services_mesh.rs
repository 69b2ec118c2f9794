//! What Kubernetes' own objects mean in the mesh: headless Services, StatefulSets, external addresses,
//! annotations, and Ingresses served by the ingress gateway.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Authority, Case, SYSTEM, Traffic, ask, eventually, mesh_case, repository};
use serde_json::{Value, json};

const APPS: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: None
  selector: {app: web}
  ports: [{name: http, port: 8080}, {name: tcp, port: 9000}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, sidecar.istio.io/inject: 'true'}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: echo, args: [serve, --http, '8080', --tcp, '9000']}]
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: a, sidecar.istio.io/inject: 'false'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080'], env: [{name: VERSION, value: a}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: client, labels: {app: client, sidecar.istio.io/inject: 'true'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080']}]
---
apiVersion: v1
kind: Pod
metadata: {name: outsider, labels: {app: outsider, sidecar.istio.io/inject: 'false'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080']}]
---
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {selector: {app: a}, ports: [{name: web, port: 80, targetPort: 8080, appProtocol: http}]}
";

#[test]
fn objects_of_kubernetes_in_the_mesh() {
    mesh_case("kube", async |case| {
        let file = repository().join("manifests/gateways/ingress.yaml");
        case.apply(&std::fs::read_to_string(file).unwrap()).await;
        case.apply(APPS).await;
        case.ready("statefulset/web").await;
        for pod in ["a", "client", "outsider"] {
            case.ready(&format!("pod/{pod}")).await;
        }
        let args = ["rollout", "status", "deployment/istio-ingressgateway", "--timeout=90s"];
        let done = case.podlet().kubectl().args(["-n", SYSTEM]).args(args).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let traffic = Traffic::new(case, "client");
        headless(&traffic).await;
        addresses(&traffic).await;
        sticky(&traffic).await;
        exported(case, &traffic).await;
        ingress(case, &traffic).await;
        traffic.done().await;
    });
}

async fn headless(traffic: &Traffic<'_>) {
    let knows = |all: &[ironsail_testkit::Answer]| {
        all.iter().all(|one| {
            one.body["headers"]["x-forwarded-client-cert"].to_string().contains("URI=spiffe://")
        })
    };
    traffic
        .behaves(
            "each pod of a StatefulSet is called by its own name, with mTLS",
            "",
            vec![
                ask("http://web-0.web:8080/")
                    .times(4)
                    .reports("/hostname", "web-0")
                    .all("who calls is known", knows),
                ask("http://web-1.web:8080/")
                    .times(4)
                    .reports("/hostname", "web-1")
                    .all("who calls is known", knows),
                ask("tcp://web-1.web:9000/").args(&["-d", "x"]).reports("/hostname", "web-1"),
            ],
        )
        .await;
    traffic
        .still(
            "the name of the headless Service means any of them",
            vec![
                ask("http://web:8080/").times(4).status(200),
                ask("tcp://web:9000/").args(&["-d", "x"]).works(),
            ],
        )
        .await;
}

async fn addresses(traffic: &Traffic<'_>) {
    let external = "
apiVersion: v1
kind: Service
metadata: {name: ext}
spec: {selector: {app: a}, externalIPs: [198.51.100.77], ports: [{name: http, port: 80, targetPort: 8080}]}
";
    traffic
        .behaves(
            "external addresses of a Service are served, and appProtocol makes HTTP of a port",
            external,
            vec![
                ask("http://198.51.100.77/").status(200).version("a"),
                ask("http://ext/").status(200).version("a"),
                ask("http://a/").status(200).version("a").sees("x-envoy-attempt-count", "1"),
            ],
        )
        .await;
}

async fn sticky(traffic: &Traffic<'_>) {
    let service = |affinity: &str| {
        format!(
            "
apiVersion: v1
kind: Service
metadata: {{name: sticky}}
spec:
  selector: {{app: web}}
  sessionAffinity: {affinity}
  ports: [{{name: http, port: 80, targetPort: 8080}}, {{name: tcp, port: 9000}}]
"
        )
    };
    let hosts = |all: &[ironsail_testkit::Answer]| {
        let names = all.iter().map(|one| one.body["hostname"].to_string());
        names.collect::<std::collections::BTreeSet<_>>().len()
    };
    traffic
        .behaves(
            "without affinity a client meets all pods",
            &service("None"),
            vec![
                ask("http://sticky/")
                    .times(20)
                    .status(200)
                    .all("both pods", move |all| hosts(all) == 2),
                ask("tcp://sticky:9000/")
                    .args(&["-d", "x"])
                    .times(20)
                    .all("both pods", move |all| hosts(all) == 2),
            ],
        )
        .await;
    traffic
        .behaves(
            "with affinity it keeps one",
            &service("ClientIP"),
            vec![
                ask("http://sticky/")
                    .times(20)
                    .status(200)
                    .all("one pod", move |all| hosts(all) == 1),
                ask("tcp://sticky:9000/")
                    .args(&["-d", "x"])
                    .times(20)
                    .all("one pod", move |all| hosts(all) == 1),
            ],
        )
        .await;
}

async fn exported(case: &Case, traffic: &Traffic<'_>) {
    let other = format!("{}-other", case.namespace);
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}});
    case.try_apply(object).await.unwrap();
    let service = |export: &str| {
        format!(
            "
apiVersion: v1
kind: Service
metadata: {{name: private, namespace: {other}, annotations: {{networking.istio.io/exportTo: '{export}'}}}}
spec: {{ports: [{{name: http, port: 80}}]}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {{name: default}}
spec: {{outboundTrafficPolicy: {{mode: REGISTRY_ONLY}}, egress: [{{hosts: ['*/*']}}]}}
"
        )
    };
    let url = format!("http://private.{other}/");
    traffic
        .behaves(
            "a Service that is exported to its own namespace is unknown in others",
            &service("."),
            vec![ask(&url).status(502)],
        )
        .await;
    traffic
        .behaves(
            "exported here it is known, though nobody serves it",
            &service(&case.namespace),
            vec![ask(&url).status(503)],
        )
        .await;
    case.kubectl_says(&["delete", "namespace", &other, "--wait=false"]);
}

async fn ingress(case: &Case, traffic: &Traffic<'_>) {
    let own = Authority::new("ingress");
    let issued = own.issue(&["shop.example.com"]);
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "ingress-cert", "namespace": SYSTEM},
        "stringData": {"tls.crt": issued.certificate, "tls.key": issued.key}});
    case.try_apply(secret).await.unwrap();
    let rules = "
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: edge}
spec: {controller: istio.io/ingress-controller}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  ingressClassName: CLASS
  tls: [{hosts: [shop.example.com], secretName: ingress-cert}]
  rules:
  - host: shop.example.com
    http:
      paths:
      - {path: /cart, pathType: Prefix, backend: {service: {name: a, port: {name: web}}}}
      - {path: /exact, pathType: Exact, backend: {service: {name: a, port: {number: 80}}}}
";
    let at = "istio-ingressgateway.istio-system";
    let to = |path: &str| {
        ask(&format!("http://{at}/{path}")).header("Host: shop.example.com").from("outsider")
    };
    for class in ["istio", "edge"] {
        traffic
            .behaves(
                &format!("an Ingress of class {class} is served by the ingress gateway"),
                &rules.replace("CLASS", class),
                vec![
                    to("cart").status(200).version("a"),
                    to("cart/items?x=1").status(200),
                    to("cartoon").status(404),
                    to("exact").status(200),
                    to("exact/more").status(404),
                    ask(&format!("https://{at}/cart"))
                        .header("Host: shop.example.com")
                        .from("outsider")
                        .args(&["--sni", "shop.example.com"])
                        .version("a"),
                ],
            )
            .await;
    }
    eventually("its status says where it is reached", async || {
        let said = case.kubectl_says(&["get", "ingress", "shop", "-o", "json"]);
        let object: Value = serde_json::from_str(&said).unwrap();
        let ip = object["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        if ip.is_some() { Ok(()) } else { Err(said) }
    })
    .await;
    traffic
        .behaves(
            "one of another class is not",
            &rules.replace("CLASS", "somebody-else"),
            vec![to("cart").fails()],
        )
        .await;
}
